package vmmc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// TestManyPieces: a message of more writes than may be under way at a time is sent whole,
// by a call that waits and by one that does not.
func TestManyPieces(t *testing.T) {
	const size, piece = 40_000, 40
	w := newWorld(sim.Options{Seed: 1})
	data := pattern(make([]byte, size), 1)
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf := make([]byte, 2*size)
		told := 0
		whole := func(vmmc.Notification) {
			if half := buf[told*size:][:size]; !bytes.Equal(half, data) {
				t.Errorf("message %d has come in part only", told)
			}
			told++
		}
		if _, err := p.Export(buf, 1, vmmc.Everybody, whole); err != nil {
			return err
		}
		return p.Await(bg, func() bool { return told == 2 })
	})
	w.process(2, vmmc.Config{MaxSends: 2}, func(p *vmmc.Process) error {
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		if err != nil {
			return err
		}
		var pieces [][]byte
		for at := 0; at < size; at += piece {
			pieces = append(pieces, data[at:at+piece])
		}
		if err := p.SendGather(bg, pieces, i.Addr(), true); err != nil {
			return err
		}
		s := &vmmc.Send{Gather: pieces, Dst: i.Addr() + size, Notify: true}
		if err := p.Post(s); err != nil {
			return err
		}
		return p.WaitSend(bg, s)
	})
	check(t, w.run())
}

// TestAwait: a process waits for two words at once; one that waits for an answer of an
// exporter ends when that takes its buffer back; Owner says whose the buffer is.
func TestAwait(t *testing.T) {
	seeds(t, 5, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.1, Reorder: 0.2})
		w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
			buf := make([]byte, 64)
			e, err := p.Export(buf, 7, vmmc.Everybody, nil)
			if err != nil {
				return err
			}
			first, second := vmmc.Word(buf, 0), vmmc.Word(buf, 32)
			if err := p.Await(bg, func() bool { return *first != 0 && *second != 0 }); err != nil {
				return err
			}
			return e.Unexport(bg)
		})
		w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
			i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 7})
			if err != nil {
				return err
			}
			if o := i.Owner(); o.Process != 1 || o == p.Self() {
				return fmt.Errorf("the owner is %v", o)
			}
			for _, at := range []vmmc.ProxyAddr{32, 0} {
				if err := p.SendMsg(bg, []byte{1, 2, 3, 4}, i.Addr()+at); err != nil {
					return err
				}
			}
			if err := i.Await(bg, func() bool { return false }); !errors.Is(err, vmmc.ErrUnexported) {
				return fmt.Errorf("the wait ends with %w", err)
			}
			return i.Await(bg, func() bool { return true })
		})
		return w.run()
	})
}

// TestAnswered: a send whose acknowledgement comes with the peer's answer returns when the answer's
// handler has run, so that no other goroutine has to run it.
func TestAnswered(t *testing.T) {
	const size, rounds = 1000, 20
	w := newWorld(sim.Options{Seed: 1})
	for number := range uint32(2) {
		w.process(number, vmmc.Config{}, func(p *vmmc.Process) error {
			var came uint32
			if _, err := p.Export(make([]byte, size), 1, vmmc.Everybody, func(vmmc.Notification) { came++ }); err != nil {
				return err
			}
			peer, err := p.Import(bg, vmmc.Name{Process: 1 - number, ID: 1})
			if err != nil {
				return err
			}
			for i := range uint32(rounds) {
				if number == 0 || i > 0 { // process 1 answers
					if err := p.SendMsgWithNotify(bg, make([]byte, size), peer.Addr()); err != nil {
						return err
					}
					if i >= rounds/2 && came < i+number { // the acknowledgements wait for answers by then
						return fmt.Errorf("round %d: the send has returned after %d handlers", i, came)
					}
				}
				if err := p.Await(bg, func() bool { return came > i }); err != nil {
					return err
				}
			}
			return p.SendMsgWithNotify(bg, nil, peer.Addr())
		})
	}
	check(t, w.run())
}

// TestWake: what changes without the network is seen after Wake.
func TestWake(t *testing.T) {
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	p := liveProcess(t, 0)
	told := make(chan struct{})
	go func() {
		close(told)
		p.Wake()
	}()
	check(t, p.Await(ctx, func() bool {
		select {
		case <-told:
			return true
		default:
			return false
		}
	}))
}

// TestSpinSleeps: under virtual time a process that spins sleeps while a message of many
// frames is on its way. If it did not, the time would stand still.
func TestSpinSleeps(t *testing.T) {
	const size = 1 << 20
	w := newWorld(sim.Options{Seed: 1})
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf := make([]byte, size)
		if _, err := p.Export(buf, 1, vmmc.Everybody, nil); err != nil {
			return err
		}
		if got, err := p.Spin(bg, vmmc.Word(buf, size-vmmc.WordSize), 0); err != nil || got == 0 {
			return fmt.Errorf("the last word is %d: %w", got, err)
		}
		return nil
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		if err != nil {
			return err
		}
		return p.SendMsg(bg, pattern(make([]byte, size), 1), i.Addr())
	})
	check(t, w.run())
}
