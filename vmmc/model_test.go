package vmmc_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

// modelRoom is how many bytes of each export each importer has for itself.
const modelRoom = 9000

// model is what memory should hold in the end, by exporter.
type model struct {
	memory [][]byte
	told   [][]int // notifications sent, by exporter and importer
	heard  [][]int
	ready  int // processes that have sent all
}

// TestModel: random operations of 2 to 4 processes, on a network that loses 30 %, reorders
// and corrupts. Memory is what a naive model says, the canaries around it are intact, and each
// notification is told once.
func TestModel(t *testing.T) {
	seeds(t, 500, func(seed uint64) error {
		random := rand.New(rand.NewPCG(seed, 19))
		size := 2 + random.IntN(3)
		m := &model{}
		for range size {
			m.memory = append(m.memory, bytes.Repeat([]byte{0xEE}, (size+2)*modelRoom))
			m.told = append(m.told, make([]int, size))
			m.heard = append(m.heard, make([]int, size))
		}
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3, Reorder: 0.3 * random.Float64(), Corrupt: 0.05 * random.Float64()})
		for number := range size {
			mine := rand.New(rand.NewPCG(seed, uint64(number)))
			w.process(uint32(number), vmmc.Config{Short: []int{0, -1, 256}[mine.IntN(3)], MaxSends: 64}, func(p *vmmc.Process) error {
				return m.play(w, p, number, size, mine)
			})
		}
		return w.run()
	})
}

// play is one process: its export, its sends, and the comparison in the end.
func (m *model) play(w *world, p *vmmc.Process, me, size int, random *rand.Rand) error {
	all := bytes.Repeat([]byte{0xEE}, (size+2)*modelRoom)
	buf := all[modelRoom : (size+1)*modelRoom] // what is around it is canaries
	mac := map[ethertype.MAC]int{}
	for number, s := range w.stations {
		mac[s.MAC()] = int(number)
	}
	if _, err := p.Export(buf, 1, vmmc.Everybody, func(n vmmc.Notification) { m.heard[me][mac[n.From.Node]]++ }); err != nil {
		return err
	}
	imports := make([]*vmmc.Import, size)
	for k := range 30 {
		to := random.IntN(size)
		if imports[to] == nil {
			i, err := p.Import(bg, vmmc.Name{Process: uint32(to), ID: 1})
			if err != nil {
				return err
			}
			imports[to] = i
		}
		if err := m.operate(p, me, to, imports, k, random); err != nil {
			return fmt.Errorf("operation %d: %w", k, err)
		}
	}
	for _, i := range imports {
		if i != nil {
			if err := i.Unimport(bg); err != nil {
				return err
			}
		}
	}
	m.ready++
	return m.finish(w, p, me, size, all)
}

// operate does one thing to an import and to the model.
func (m *model) operate(p *vmmc.Process, me, to int, imports []*vmmc.Import, k int, random *rand.Rand) error {
	i := imports[to]
	n := []int{random.IntN(16), random.IntN(300), random.IntN(5000)}[random.IntN(3)]
	at := me*modelRoom + random.IntN(modelRoom-n)
	src, dst := pattern(make([]byte, n), k+100*me), i.Addr()+vmmc.ProxyAddr(at)
	notify := random.IntN(3) == 0
	switch what := random.IntN(10); {
	case what == 0:
		imports[to] = nil
		if err := i.Unimport(bg); err != nil {
			return err
		}
		if err := p.SendMsg(bg, src, dst); !errors.Is(err, vmmc.ErrUnimported) {
			return fmt.Errorf("a send to a stale address: %w", err)
		}
		return nil
	case what == 1:
		if err := p.SendMsg(bg, make([]byte, n+1), i.Addr()+vmmc.ProxyAddr(i.Size()-n)); !errors.Is(err, vmmc.ErrProxy) {
			return fmt.Errorf("a send beyond the end: %w", err)
		}
		return nil
	case what < 4:
		s := &vmmc.Send{Src: src, Dst: dst, Notify: notify, Word: new(uint32)}
		if err := p.Post(s); err != nil {
			return err
		}
		if err := p.WaitSend(bg, s); err != nil || *s.Word != uint32(vmmc.StatusDone) {
			return fmt.Errorf("status %d: %w", *s.Word, err)
		}
	case what < 6:
		a, b := random.IntN(n+1), random.IntN(n+1)
		a, b = min(a, b), max(a, b)
		if err := p.SendGather(bg, [][]byte{src[:a], src[a:b], nil, src[b:]}, dst, notify); err != nil {
			return err
		}
	case notify:
		if err := p.SendMsgWithNotify(bg, src, dst); err != nil {
			return err
		}
	default:
		if err := p.SendMsg(bg, src, dst); err != nil {
			return err
		}
	}
	copy(m.memory[to][modelRoom+at:], src)
	if notify {
		m.told[to][me]++
	}
	return nil
}

// finish waits until all have sent, and compares.
func (m *model) finish(w *world, p *vmmc.Process, me, size int, all []byte) error {
	arrived := func() bool {
		for from := range size {
			if m.heard[me][from] != m.told[me][from] {
				return false
			}
		}
		return true
	}
	err := w.serve(p, func() bool { return m.ready == size && arrived() })
	if err == nil && !bytes.Equal(all, m.memory[me]) {
		for i := range all {
			if all[i] != m.memory[me][i] {
				return fmt.Errorf("byte %d is %d, want %d", i-modelRoom, all[i], m.memory[me][i])
			}
		}
	}
	return err
}

// TestLastWord: who sees the last word of a message has all of it, whatever is lost, wherever the message
// begins and whatever the length of the frames.
func TestLastWord(t *testing.T) {
	const rounds = 10
	lengths := []int{12_000, 17 << 10, 65_532, 65_540, 200_000}
	seeds(t, 100, func(seed uint64) error {
		length, from, long := lengths[seed%5], int(seed/5%3)*4, sim.LongNone
		if seed/15%2 == 1 {
			long = sim.LongWhole
		}
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3, Reorder: 0.3, Long: long})
		for me := range uint32(2) {
			w.process(me, vmmc.Config{}, func(p *vmmc.Process) error {
				buf, src := make([]byte, length+16), make([]byte, length)
				if _, err := p.Export(buf, 1, vmmc.Everybody, nil); err != nil {
					return err
				}
				i, err := p.Import(bg, vmmc.Name{Process: 1 - me, ID: 1})
				if err != nil {
					return err
				}
				last := uint32(0)
				for k := range rounds {
					if k%2 == int(me) {
						if err := p.SendMsg(bg, pattern(src, k), i.Addr()+vmmc.ProxyAddr(from)); err != nil {
							return err
						}
						continue
					}
					if last, err = p.WaitWord(bg, vmmc.Word(buf, from+length-4), last); err != nil {
						return err
					}
					if !bytes.Equal(buf[from:][:length], pattern(src, k)) {
						return fmt.Errorf("round %d: the last word is early", k)
					}
				}
				return nil
			})
		}
		return w.run()
	})
}

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
