package vmmc_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

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
	mac := map[vmmc.Node]int{}
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

// TestLastWord: who sees the last word of a message has all of it, whatever is lost.
func TestLastWord(t *testing.T) {
	const length, rounds = 12000, 10
	seeds(t, 100, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3, Reorder: 0.3})
		for me := range uint32(2) {
			w.process(me, vmmc.Config{}, func(p *vmmc.Process) error {
				buf, src := make([]byte, length+8), make([]byte, length)
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
						if err := p.SendMsg(bg, pattern(src, k), i.Addr()); err != nil {
							return err
						}
						continue
					}
					if last, err = p.WaitWord(bg, vmmc.Word(buf, length-4), last); err != nil {
						return err
					}
					if !bytes.Equal(buf[:length], pattern(src, k)) {
						return fmt.Errorf("round %d: the last word is early", k)
					}
				}
				return nil
			})
		}
		return w.run()
	})
}
