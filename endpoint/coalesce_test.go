package endpoint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestCorkedAndGone: messages that are corked when their connection ends,
// in any of the ways in which it can, are not looked at any more.
func TestCorkedAndGone(t *testing.T) {
	for name, end := range map[string]func(c *party) error{
		"freed":        func(c *party) error { return c.ep.Free() },
		"bundle freed": func(c *party) error { return c.b.Free() },
		"unmapped":     func(c *party) error { return c.ep.Unmap(0) },
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			err := pair(sim.Options{}, endpoint.Config{Credits: endpoint.Credits{Short: 16}}, func(s *party) {
				s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { ran++ })
			}, func(n *endpoint.Node, c *party) error {
				other, err := newParty(n)
				if err != nil {
					return err
				}
				for range 12 {
					if err := c.ep.Request(bg, 0, hMute); err != nil {
						return err
					}
				}
				if err := end(c); err != nil {
					return err
				}
				if waiting := endpoint.Corked(n); waiting > 0 && name != "unmapped" {
					return fmt.Errorf("%d messages still count as waiting", waiting)
				}
				for range 100 {
					if _, err := other.b.Poll(); err != nil {
						return err
					}
					w := n.NIC()
					ctx, cancel := w.WithTimeout(bg, 100*time.Microsecond)
					other.b.WaitPoll(ctx)
					cancel()
				}
				if name == "unmapped" && ran != 12 {
					return fmt.Errorf("%d of 12 requests were handled", ran)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCorkedOrder: messages of all sizes, some of which are corked and
// some of which do not, are handled in the order in which they were sent, each
// with its own arguments and data.
func TestCorkedOrder(t *testing.T) {
	seeds(t, 50, func(seed uint64) error {
		var got []uint32
		var wrong error
		opts := sim.Options{Seed: seed, Loss: float64(seed%3) * 0.03, Reorder: 0.02}
		return pair(opts, endpoint.Config{Credits: endpoint.Credits{Short: 64}}, func(s *party) {
			s.ep.SetSegment(make([]byte, 5000))
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
				if !slices.Equal(data, pattern(make([]byte, args[1]), int(args[0]))) {
					wrong = fmt.Errorf("the data of message %d is damaged", args[0])
				}
				got = append(got, args[0])
				t.ReplyMedium(hReply, data, args...)
			})
		}, func(n *endpoint.Node, c *party) error {
			var replies []uint32
			c.ep.SetHandler(hReply, func(_ endpoint.Token, args []uint32, data []byte) {
				if !slices.Equal(data, pattern(make([]byte, args[1]), int(args[0]))) {
					wrong = fmt.Errorf("the data of reply %d is damaged", args[0])
				}
				replies = append(replies, args[0])
			})
			const count = 300
			for id := range uint32(count) {
				size := []uint32{0, 1, 7, 8, 60, 500, 1000, 1024, 2000, 4096}[(uint64(id)*seed+uint64(id)/7)%10]
				data := pattern(make([]byte, size), int(id))
				var err error
				switch {
				case size == 0:
					err = c.ep.Request(bg, 0, hEcho, id, size, 1, 2)
				case id%2 == 0:
					err = c.ep.RequestMedium(bg, 0, hEcho, data, id, size)
				default:
					err = c.ep.RequestBulk(bg, 0, hEcho, data, 10, id, size)
				}
				if err != nil {
					return err
				}
			}
			if err := c.until(n, "replies", func() bool { return len(replies) == count }); err != nil {
				return err
			}
			if len(c.returned) > 0 || !slices.IsSorted(got) || !slices.IsSorted(replies) || len(got) != count {
				return fmt.Errorf("%d handled, %d replies, or not in order; %d came back", len(got), len(replies), len(c.returned))
			}
			return wrong
		})
	})
}

// TestGatheredNotForLong: handlers that take long do not keep the answers of
// those before them back.
func TestGatheredNotForLong(t *testing.T) {
	const requests, takes = 32, time.Millisecond
	w := newWorld(sim.Options{Seed: 1, Delay: 5 * time.Microsecond})
	var answers []time.Duration
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: requests}}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			w.Sleep(takes)
			t.Reply(hReply)
		})
	}, func(n *endpoint.Node, c *party) error {
		began := n.NIC().Now()
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {
			answers = append(answers, time.Duration(n.NIC().Now()-began))
		})
		for range requests {
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		return c.until(n, "the answers", func() bool { return len(answers) == requests })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	for i, at := range answers {
		if handled := time.Duration(i+1) * takes; at > handled+6*takes {
			t.Errorf("answer %d came after %v, although its handler ended after %v", i, at, handled)
		}
	}
}

// TestCorkedLeave: who has waited need not poll: requests that are
// corked leave also when there was something at once to wait for.
func TestCorkedLeave(t *testing.T) {
	const requests = 8
	for name, wait := range map[string]func(c *party) error{
		"WaitPoll": func(c *party) error { _, err := c.b.WaitPoll(bg); return err },
		"Wait":     func(c *party) error { return c.b.Wait(bg) },
		"Call":     func(c *party) error { _, err := endpoint.Call[int32, int32](bg, c.ep, 1, 1, 5); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			w := newWorld(sim.Options{})
			w.pair(endpoint.Config{Credits: endpoint.Credits{Short: requests}}, func(s *party) {
				s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { ran++ })
			}, func(n *endpoint.Node, c *party) error {
				c.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
				endpoint.Serve(c.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r, nil })
				c.ep.Map(1, c.ep.Name(), 7)
				for range requests {
					if err := c.ep.Request(bg, 0, hMute); err != nil {
						return err
					}
				}
				if err := c.b.SetEventMask(endpoint.NotEmpty); err != nil {
					return err
				}
				if err := c.ep.Request(bg, 1, hMute); err != nil { // to itself: that is there at once
					return err
				}
				if err := wait(c); err != nil {
					return err
				}
				for range 100 { // the program computes, and its NIC goes on
					w.Sleep(50 * time.Microsecond)
					n.NIC().Poll()
				}
				if ran != requests {
					return fmt.Errorf("%d of %d requests were handled", ran, requests)
				}
				return nil
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestGatheredSlowly: requests that come one by one do not wait for each other,
// though many are under way.
func TestGatheredSlowly(t *testing.T) {
	const requests, apart, delay = 50, 100 * time.Microsecond, time.Millisecond
	w := newWorld(sim.Options{Delay: delay})
	var sent, ran []int64
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: requests}}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			ran = append(ran, w.Now())
			t.Reply(hReply)
		})
	}, func(n *endpoint.Node, c *party) error {
		answers := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { answers++ })
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the connection", func() bool { return answers == 1 }); err != nil {
			return err
		}
		for ran = nil; len(sent) < requests; {
			w.Sleep(apart)
			sent = append(sent, w.Now())
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		return c.until(n, "the answers", func() bool { return answers == requests+1 })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	for i := requests / 2; i < requests; i++ { // by then it is clear how they come, and the window is open
		if took := time.Duration(ran[i] - sent[i]); took > delay+apart/4 {
			t.Errorf("request %d ran its handler after %v, over a wire of %v", i, took, delay)
		}
	}
}
