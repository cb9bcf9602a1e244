package vmmc_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

const (
	churnRoom  = 6000 // bytes of each importer in an export
	churnTimes = 8
)

// churn is what TestChurn knows. An export says by its size which it is.
type churn struct {
	importers int
	exports   []*churned
}

// churned is one export.
type churned struct {
	all, after []byte   // with canaries; when Unexport has returned
	want       [][]byte // by importer
	known      [][]bool // of its bytes
	told       int
	heard      int
}

// TestChurn: an exporter takes its buffer back and exports another one under the same
// number, again and again, while importers write, on a network that loses 30 %. What a
// send has reported done is there when Unexport returns, and nothing comes later; a send
// that fails says why; what is around the buffers is intact.
func TestChurn(t *testing.T) {
	seeds(t, 100, func(seed uint64) error {
		random := rand.New(rand.NewPCG(seed, 21))
		c := &churn{importers: 1 + random.IntN(3)}
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3, Reorder: 0.3 * random.Float64()})
		w.process(0, vmmc.Config{}, func(p *vmmc.Process) error { return c.export(w, p, random) })
		for me := range c.importers {
			mine := rand.New(rand.NewPCG(seed, uint64(me+100)))
			w.process(uint32(me+1), vmmc.Config{Short: []int{0, -1, 256}[mine.IntN(3)], MaxSends: 32}, func(p *vmmc.Process) error {
				return c.write(p, me, mine)
			})
		}
		if err := w.run(); err != nil {
			return err
		}
		return c.compare()
	})
}

func (c *churn) export(w *world, p *vmmc.Process, random *rand.Rand) error {
	for k := range churnTimes {
		size := c.importers*churnRoom + 8*k
		x := &churned{all: bytes.Repeat([]byte{0xEE}, size+2000)}
		for range c.importers {
			x.want, x.known = append(x.want, make([]byte, churnRoom)), append(x.known, make([]bool, churnRoom))
		}
		c.exports = append(c.exports, x)
		e, err := p.Export(x.all[1000:1000+size], 1, vmmc.Everybody, func(vmmc.Notification) { x.heard++ })
		if err != nil {
			return err
		}
		end := w.Now() + int64(random.IntN(20))*int64(5*time.Millisecond)
		if err := w.serve(p, func() bool { return w.Now() > end }); err != nil {
			return err
		}
		if err := e.Unexport(bg); err != nil || len(e.Importers()) != 0 {
			return fmt.Errorf("unexport: %d importers, %w", len(e.Importers()), err)
		}
		x.after = bytes.Clone(x.all)
	}
	_, err := p.Export(nil, 1, vmmc.Everybody, nil) // the end
	return err
}

// write is one importer.
func (c *churn) write(p *vmmc.Process, me int, random *rand.Rand) error {
	for {
		i, err := p.Import(bg, vmmc.Name{Process: 0, ID: 1})
		switch {
		case errors.Is(err, vmmc.ErrUnexported): // meanwhile
			continue
		case err != nil:
			return err
		case i.Size() == 0:
			return nil
		}
		x := c.exports[(i.Size()-c.importers*churnRoom)/8]
		for err == nil {
			err = x.send(p, i, me, random)
		}
		if !errors.Is(err, vmmc.ErrUnexported) {
			return err
		}
		if err := i.Done(); !errors.Is(err, vmmc.ErrUnexported) {
			return fmt.Errorf("an import has ended by %w", err)
		}
	}
}

// send sends some short messages, of which nothing is known, and a long one: when it is
// done, all of them are.
func (x *churned) send(p *vmmc.Process, i *vmmc.Import, me int, random *rand.Rand) error {
	type message struct {
		at  int
		src []byte
	}
	var all []message
	for range random.IntN(4) {
		all = append(all, message{random.IntN(churnRoom - 100), make([]byte, random.IntN(100))})
	}
	all = append(all, message{random.IntN(churnRoom / 2), make([]byte, 300+random.IntN(churnRoom/2-300))})
	for k, m := range all {
		pattern(m.src, random.IntN(1000))
		for b := range m.src {
			x.known[me][m.at+b] = false
		}
		dst := i.Addr() + vmmc.ProxyAddr(me*churnRoom+m.at)
		send := p.SendMsg
		if k == 0 {
			send, x.told = p.SendMsgWithNotify, x.told+1
		}
		if err := send(bg, m.src, dst); err != nil {
			return err
		}
	}
	for _, m := range all {
		copy(x.want[me][m.at:], m.src)
		for b := range m.src {
			x.known[me][m.at+b] = true
		}
	}
	return nil
}

func (c *churn) compare() error {
	for k, x := range c.exports {
		if !bytes.Equal(x.all, x.after) {
			return fmt.Errorf("export %d was written after Unexport", k)
		}
		if x.heard > x.told {
			return fmt.Errorf("export %d: %d notifications of %d", k, x.heard, x.told)
		}
		for at, b := range x.all {
			me, off := (at-1000)/churnRoom, (at-1000)%churnRoom
			switch {
			case at < 1000 || me >= c.importers:
				if b != 0xEE {
					return fmt.Errorf("export %d: byte %d around the rooms was written", k, at-1000)
				}
			case x.known[me][off] && b != x.want[me][off]:
				return fmt.Errorf("export %d: byte %d of importer %d is %d, want %d, which a send has reported", k, off, me, b, x.want[me][off])
			}
		}
	}
	return nil
}
