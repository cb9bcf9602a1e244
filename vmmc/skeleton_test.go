package vmmc_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestSkeleton: one process exports, another imports, whichever comes first, and sends a
// word; the exporter spins on it.
func TestSkeleton(t *testing.T) {
	seeds(t, 10, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.1, Reorder: 0.2})
		w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
			buf := make([]byte, 4096)
			if _, err := p.Export(buf, 7, vmmc.Everybody, nil); err != nil {
				return err
			}
			got, err := p.Spin(bg, vmmc.Word(buf, 8), 0)
			if err != nil || got != 0x04030201 {
				return fmt.Errorf("the word is %#x: %v", got, err)
			}
			return nil
		})
		w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
			i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 7})
			if err != nil {
				return err
			}
			if i.Size() != 4096 {
				return fmt.Errorf("the import has %d bytes", i.Size())
			}
			return p.SendMsg(bg, []byte{1, 2, 3, 4}, i.Addr()+8)
		})
		return w.run()
	})
}

// TestSizes: messages of all kinds of sizes and alignments arrive whole, change nothing
// else, and are told of once each; both ways at once, and to the process itself.
func TestSizes(t *testing.T) {
	sizes := []int{0, 1, 3, 4, 8, 63, 64, 127, 128, 129, 1000, 1448, 1456, 1457, 4096, 5000, 10001, 70000}
	seeds(t, 4, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.05, Reorder: 0.2})
		for number := range uint32(2) {
			w.process(number, vmmc.Config{}, func(p *vmmc.Process) error {
				const room = 80000
				buf := make([]byte, room)
				seen := 0
				if _, err := p.Export(buf, 1, vmmc.Everybody, func(vmmc.Notification) { seen++ }); err != nil {
					return err
				}
				for _, to := range []uint32{1 - number, number} {
					mine := make([]byte, room)
					if to == number {
						mine = buf
					}
					i, err := p.Import(bg, vmmc.Name{Process: to, ID: 1})
					if err != nil {
						return err
					}
					if to != number {
						continue
					}
					want := bytes.Clone(mine)
					for k, n := range sizes {
						src := pattern(make([]byte, n), k)
						copy(want[k*3:], src)
						before := seen
						if err := p.SendMsgWithNotify(bg, src, i.Addr()+vmmc.ProxyAddr(k*3)); err != nil {
							return fmt.Errorf("%d bytes: %w", n, err)
						}
						for seen == before {
							if err := p.WaitNotification(bg); err != nil {
								return err
							}
						}
						if !bytes.Equal(buf, want) {
							return fmt.Errorf("%d bytes at %d: others arrived", n, k*3)
						}
					}
				}
				return nil
			})
		}
		return w.run()
	})
}
