package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestInterruptStorm: two processes notify a third one as fast as they can, each message an
// interrupt there, while its TLB refills interrupt their own host. Each notification is
// handled once, all that was sent is there, interrupts are counted, and nothing is left.
func TestInterruptStorm(t *testing.T) {
	const each, size = 1000, 300
	n := newNetwork(t, myrinet.Options{Seed: 21})
	for i := range 3 {
		cfg := lanai.Config{}
		cfg.Card.Timing = myrinet.PCITiming()
		n.host(i, cfg)
	}
	board := make([]byte, 2*each*size)
	var handled [2]int
	ctx, cancel := n.hosts[0].WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n.process(0, 0, func(p *vmmc.Process) error {
		for k := range handled {
			if _, err := p.Export(board[k*each*size:][:each*size], uint32(k), vmmc.Everybody, func(vmmc.Notification) { handled[k]++ }); err != nil {
				return err
			}
		}
		return p.Await(ctx, func() bool { return handled == [2]int{each, each} })
	})
	for k := range handled {
		n.process(k+1, uint32(k+1), func(p *vmmc.Process) error {
			to, err := p.Import(ctx, vmmc.Name{ID: uint32(k)})
			if err != nil {
				return err
			}
			src := make([]byte, each*4096) // a page each
			for i := range each {
				line := src[i*4096:][:size]
				for at := range line {
					line[at] = byte(i + k)
				}
				if err := p.SendMsgWithNotify(ctx, line, to.Addr()+vmmc.ProxyAddr(i*size)); err != nil {
					return fmt.Errorf("notification %d: %w", i, err)
				}
			}
			if s := p.Snapshot().Stats; s.Notes != each {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	n.Go("the end", func() { // what they say at the end arrives
		for err := error(nil); err == nil && handled != [2]int{each, each}; {
			err = errors.Join(n.Sleep(time.Millisecond), ctx.Err())
		}
		_ = n.Sleep(time.Second) // its error is Run's, too
	})
	if err := n.World.Run(); err != nil {
		t.Fatal(err)
	}
	if handled != [2]int{each, each} {
		t.Fatalf("%d notifications were handled, want %d of each", handled, each)
	}
	for k := range handled {
		for i := range each {
			if got := board[(k*each+i)*size:][:size]; !bytes.Equal(got, bytes.Repeat([]byte{byte(i + k)}, size)) {
				t.Fatalf("message %d of process %d is not there", i, k+1)
			}
		}
	}
	calmed(t, n, each)
}

// calmed wants interrupts and refills to have been counted, and nothing to be left.
func calmed(t *testing.T, n *network, each uint64) {
	t.Helper()
	if s := n.hosts[0].Snapshot(); s.Card.Stats.Interrupts == 0 || s.Card.Stats.Interrupts > 4*each {
		t.Errorf("%d interrupts for %d notifications", s.Card.Stats.Interrupts, 2*each)
	}
	for k := range 2 {
		if s := n.hosts[k+1].Snapshot(); s.Stats.Refills == 0 || s.Stats.Refills > s.Stats.Misses {
			t.Errorf("host %d: %d refills for %d misses", k+1, s.Stats.Refills, s.Stats.Misses)
		}
	}
	for i, h := range n.hosts {
		if err := empty(h); err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	}
}

// TestColdSend: a message of 64 pages that were never sent before takes two or three interrupts,
// each of which brings 32 translations at the most.
func TestColdSend(t *testing.T) {
	const pages = 64
	memory, src := make([]byte, pages*4096), bytes.Repeat([]byte{5}, pages*4096)
	talk(t, memory, func(n *network, ps [2]*vmmc.Process, at [2]vmmc.ProxyAddr) error {
		before := n.hosts[1].Snapshot()
		if err := ps[0].SendMsg(context.Background(), src, at[0]); err != nil {
			return err
		}
		after := n.hosts[1].Snapshot()
		refills := after.Stats.Refills - before.Stats.Refills
		pinned := 0
		for i := range after.Processes {
			pinned += after.Processes[i].Pinned - before.Processes[i].Pinned
		}
		if refills < 2 || refills > 3 || pinned < pages || uint64(pinned) > refills*lanai.RefillPages {
			return fmt.Errorf("%d interrupts have brought %d translations for a message of %d pages", refills, pinned, pages)
		}
		if err := ps[0].SendMsg(context.Background(), src, at[0]); err != nil {
			return err
		}
		if again := n.hosts[1].Snapshot().Stats.Refills; again != after.Stats.Refills {
			return fmt.Errorf("the same message again took %d interrupts", again-after.Stats.Refills)
		}
		return nil
	})
	if !bytes.Equal(memory, src) {
		t.Error("the message is not there")
	}
}
