package vmmc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// cards is two hosts with cards in virtual time, joined by a cable.
func cards(t *testing.T, w *sim.World, cfg lanai.Config) (hosts [2]*lanai.Card) {
	t.Helper()
	f, err := myrinet.New(w, myrinet.Options{})
	check(t, err)
	var ports [2]*myrinet.Port
	for i := range hosts {
		cfg := cfg
		cfg.MAC = ethertype.MAC{2, 0, 0, 0, 3, byte(i)}
		cfg.Routes = []myrinet.HostRoute{{To: ethertype.MAC{2, 0, 0, 0, 3, byte(1 - i)}}}
		virtual := myrinet.Virtual{World: w, Waiter: func() myrinet.Waiter { return w.Waiter() }}
		hosts[i], err = lanai.NewVirtual(virtual, func(h myrinet.Host) *myrinet.Port {
			ports[i] = f.Host(fmt.Sprint("card ", i), h)
			return ports[i]
		}, &cfg)
		check(t, err)
	}
	_, err = f.Join(ports[0], ports[1])
	check(t, err)
	return hosts
}

// TestCard: short and long messages and notifications by the cards of two hosts.
func TestCard(t *testing.T) {
	for name, cfg := range map[string]lanai.Config{"channels": {}, "drop": {Drop: true}} {
		t.Run(name, func(t *testing.T) {
			cfg.Card.Timing = myrinet.PCITiming()
			w := newWorld(sim.Options{Seed: 5})
			hosts := cards(t, w.World, cfg)
			buf, told := make([]byte, 1<<20), 0
			w.card("exporter", vmmc.Config{Card: hosts[0]}, func(p *vmmc.Process) error {
				if _, err := p.Export(buf, 7, vmmc.Everybody, func(vmmc.Notification) { told++ }); err != nil {
					return err
				}
				return p.Await(bg, func() bool { return told == 4 })
			})
			w.card("importer", vmmc.Config{Card: hosts[1], Process: 1}, func(p *vmmc.Process) error {
				i, err := p.Import(bg, vmmc.Name{ID: 7})
				if err != nil {
					return err
				}
				for k, size := range []int{4, 128, 5000, 1 << 19} {
					src := pattern(make([]byte, size), k)
					if err := p.SendMsgWithNotify(bg, src, i.Addr()+vmmc.ProxyAddr(k*1000)); err != nil {
						return err
					}
				}
				return nil
			})
			check(t, w.run())
			want := make([]byte, 1<<19)
			if string(buf[3000:][:1<<19]) != string(pattern(want, 3)) {
				t.Error("the long message is not in the memory")
			}
			for _, h := range hosts {
				if s := h.Snapshot(); s.Frames != 0 || len(s.Processes) != 0 || s.Buffers != 0 {
					t.Errorf("when all have left: %d frames, %d processes, %d packets", s.Frames, len(s.Processes), s.Buffers)
				}
			}
		})
	}
}

// card runs fn with a process at a card, and lets time pass when all have returned.
func (w *world) card(name string, cfg vmmc.Config, fn func(p *vmmc.Process) error) {
	w.left++
	w.Go(name, func() {
		cfg.Logger = quiet
		p, err := vmmc.Open(context.Background(), &cfg)
		if err == nil {
			err = fn(p)
		}
		w.left--
		for err == nil && w.left > 0 {
			err = w.Sleep(time.Millisecond)
		}
		if p != nil {
			p.Close()
			p.Close()
		}
		if err == nil {
			err = w.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s: %w", name, err))
		}
	})
}

// TestIncomingTable: an import for which the exporter's card has no room in its incoming page table
// is refused for that reason, and there is room again when another one is given up.
func TestIncomingTable(t *testing.T) {
	w := newWorld(sim.Options{Seed: 7})
	hosts := cards(t, w.World, lanai.Config{Memory: 2}) // frame 0 is nobody's
	w.card("exporter", vmmc.Config{Card: hosts[0]}, func(p *vmmc.Process) error {
		for id := range uint32(2) {
			if _, err := p.Export(make([]byte, 128), id, vmmc.Everybody, nil); err != nil {
				return err
			}
		}
		return nil
	})
	w.card("importer", vmmc.Config{Card: hosts[1], Process: 1}, func(p *vmmc.Process) error {
		first, err := p.Import(bg, vmmc.Name{ID: 0})
		if err != nil {
			return err
		}
		if _, err := p.Import(bg, vmmc.Name{ID: 1}); !errors.Is(err, vmmc.ErrDenied) || !strings.Contains(err.Error(), "for want of room") {
			return fmt.Errorf("a second page, with room for one: %w", err)
		}
		if err := first.Unimport(bg); err != nil {
			return err
		}
		i, err := p.Import(bg, vmmc.Name{ID: 1})
		if err != nil {
			return err
		}
		return p.SendMsg(bg, make([]byte, 128), i.Addr())
	})
	check(t, w.run())
	if s := hosts[0].Snapshot(); s.Frames != 0 || s.Stats.Refused != 0 {
		t.Errorf("%d pages may be written, %d packets were refused", s.Frames, s.Stats.Refused)
	}
}

// TestCardTable: an import that the outgoing page table has no room for is an error that
// says so, and there is room again when another one is given up.
func TestCardTable(t *testing.T) {
	w := newWorld(sim.Options{Seed: 6})
	hosts := cards(t, w.World, lanai.Config{})
	w.card("exporter", vmmc.Config{Card: hosts[0]}, func(p *vmmc.Process) error {
		for id := range uint32(3) {
			if _, err := p.Export(make([]byte, 3<<20), id, vmmc.Everybody, nil); err != nil {
				return err
			}
		}
		return nil
	})
	w.card("importer", vmmc.Config{Card: hosts[1], Process: 1}, func(p *vmmc.Process) error {
		var is [3]*vmmc.Import
		var errs [3]error
		for id := range is {
			is[id], errs[id] = p.Import(bg, vmmc.Name{ID: uint32(id)})
		}
		if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], vmmc.ErrNoRoom) {
			return fmt.Errorf("three imports of 3 MB: %w", errors.Join(errs[:]...))
		}
		if err := is[0].Unimport(bg); err != nil {
			return err
		}
		i, err := p.Import(bg, vmmc.Name{ID: 2})
		if err != nil {
			return err
		}
		return p.SendMsg(bg, make([]byte, 10000), i.Addr())
	})
	check(t, w.run())
}

// TestCardLatency: a word, sent to and fro by two processes that spin, takes the time of
// the paper's figure 2, within 15 %.
func TestCardLatency(t *testing.T) {
	cfg := lanai.Config{Drop: true}
	cfg.Card.Timing = myrinet.PCITiming()
	w := newWorld(sim.Options{Seed: 7})
	hosts := cards(t, w.World, cfg)
	const rounds = 50
	var took int64
	for side := range 2 {
		w.card(fmt.Sprint(side), vmmc.Config{Card: hosts[side], Process: uint32(side)}, func(p *vmmc.Process) error {
			buf := make([]byte, 4096)
			if _, err := p.Export(buf, 1, vmmc.Everybody, nil); err != nil {
				return err
			}
			i, err := p.Import(bg, vmmc.Name{Process: uint32(1 - side), ID: 1})
			if err != nil {
				return err
			}
			d, err := pingPong(bg, w, p, i, vmmc.Word(buf, 0), side, rounds)
			took = max(took, d)
			return err
		})
	}
	check(t, w.run())
	if oneWay := float64(took) / (2 * rounds) / 1000; oneWay < 9.8*0.85 || oneWay > 9.8*1.15 {
		t.Errorf("a word takes %.2f us, the paper says 9.8", oneWay)
	}
}

// pingPong sends a word to and fro, and returns how long that took.
func pingPong(ctx context.Context, w *world, p *vmmc.Process, i *vmmc.Import, word *uint32, side, rounds int) (took int64, err error) {
	send := func(k uint32) error {
		err := p.SendMsg(ctx, binary.NativeEndian.AppendUint32(nil, k), i.Addr())
		p.Poll() // pays for the writes to the card
		return err
	}
	began := w.Now()
	for k := range uint32(rounds) {
		if side == 0 {
			if err := send(k + 1); err != nil {
				return 0, err
			}
		}
		for atomic.LoadUint32(word) != k+1 {
			if _, err := p.Spin(ctx, word, k); err != nil {
				return 0, err
			}
		}
		if side == 1 {
			if err := send(k + 1); err != nil {
				return 0, err
			}
		}
	}
	return w.Now() - began, nil
}
