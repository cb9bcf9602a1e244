package vmmc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

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
