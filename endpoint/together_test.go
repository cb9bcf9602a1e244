package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestWaitTogether: several goroutines of one node wait in virtual time, each for
// messages to a bundle of its own, and get them in the order in which they are sent,
// whichever of them waits for the network. The times of those that get none end to the
// nanosecond, and the node's end ends the wait of one without a time.
func TestWaitTogether(t *testing.T) {
	const servers, patience = 4, 3 * time.Second
	w := newWorld(sim.Options{Seed: 3})
	var names [servers]endpoint.Name
	var order []int
	ended, left := 0, servers
	w.node("servers", endpoint.Config{}, func(n *endpoint.Node) error {
		for i := range servers {
			s, err := newParty(n)
			if err != nil {
				return err
			}
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) {
				order = append(order, i)
				t.Reply(hReply, args...)
			})
			names[i] = s.ep.Name()
			w.Go(fmt.Sprint("server ", i), func() {
				defer func() { left-- }()
				if err := serveTwice(w, n, s, patience, i == 0); err != nil {
					w.errs = append(w.errs, fmt.Errorf("server %d: %w", i, err))
				}
				ended++
			})
		}
		w.Sleep(time.Minute)
		if ended != servers-1 {
			return fmt.Errorf("%d have ended before the node", ended)
		}
		return nil
	})
	var want []int
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		w.Sleep(time.Millisecond)
		c, err := newParty(n)
		if err != nil {
			return err
		}
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		for i, name := range names {
			c.ep.Map(i, name, 7)
		}
		for _, i := range []int{2, 0, 3, 1, 1, 3, 0, 2} {
			want = append(want, i)
			if err := c.ep.Request(bg, i, hEcho); err != nil {
				return err
			}
			if err := c.until(n, "the reply", func() bool { return replies == len(want) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, want) || left != 0 {
		t.Errorf("served in the order %v, want %v; %d still wait", order, want, left)
	}
}

// serveTwice serves two requests, and then waits in vain: for so long, or, if it is to
// last, until the node is closed.
func serveTwice(w *world, n *endpoint.Node, s *party, patience time.Duration, last bool) error {
	for served := 0; served < 2; {
		k, err := s.b.WaitPoll(bg)
		if err != nil {
			return err
		}
		served += k
	}
	if last {
		if _, err := s.b.WaitPoll(bg); !errors.Is(err, endpoint.ErrClosed) {
			return fmt.Errorf("the wait at the end of the node: %w", err)
		}
		return nil
	}
	ctx, cancel := n.NIC().WithTimeout(bg, patience)
	defer cancel()
	began := w.Now()
	_, err := s.b.WaitPoll(ctx)
	if took := time.Duration(w.Now() - began); !errors.Is(err, context.DeadlineExceeded) || took != patience {
		return fmt.Errorf("after %v, not %v: %w", took, patience, err)
	}
	return nil
}
