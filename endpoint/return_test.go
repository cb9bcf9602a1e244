package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// refusal is a message that comes back.
type refusal struct {
	name   string
	reason endpoint.Reason
	op     endpoint.Op
	send   func(c *party) error
	atCall bool // found on this side
}

var payload = pattern(make([]byte, 200), 3)

// refusals are made by a server with tag 7, handler hMute and a segment of 1000
// bytes.
var refusals = []refusal{
	{"too many arguments", endpoint.ReasonBadArgs, endpoint.OpRequest, func(c *party) error {
		return c.ep.Request(bg, 0, hMute, make([]uint32, endpoint.MaxShort+1)...)
	}, true},
	{"medium too long", endpoint.ReasonBadArgs, endpoint.OpRequestMedium, func(c *party) error {
		return c.ep.RequestMedium(bg, 0, hMute, make([]byte, endpoint.DefaultMaxMedium+1))
	}, true},
	{"negative get", endpoint.ReasonBadArgs, endpoint.OpGet, func(c *party) error {
		return c.ep.Get(bg, 0, hReply, 0, 0, -1)
	}, true},
	{"unbound index", endpoint.ReasonBadEntry, endpoint.OpRequestMedium, func(c *party) error {
		return c.ep.RequestMedium(bg, 200, hMute, payload, 1, 2)
	}, true},
	{"index outside", endpoint.ReasonBadEntry, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, -1, hMute) }, true},
	{"wrong tag", endpoint.ReasonBadTag, endpoint.OpRequestMedium, func(c *party) error {
		return c.ep.RequestMedium(bg, 1, hMute, payload, 1, 2)
	}, false},
	{"wrong tag, bulk", endpoint.ReasonBadTag, endpoint.OpRequestBulk, func(c *party) error {
		return c.ep.RequestBulkAsync(1, hMute, bytes.Repeat([]byte{1}, 10_000), 0)
	}, false},
	{"no handler", endpoint.ReasonBadHandler, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, 0, 99, 1, 2, 3) }, false},
	{"handler 0", endpoint.ReasonBadHandler, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, 0, 0) }, false},
	{"no segment", endpoint.ReasonBadOffset, endpoint.OpRequestBulk, func(c *party) error {
		return c.ep.RequestBulk(bg, 2, hMute, payload, 0)
	}, false},
	{"beyond the segment", endpoint.ReasonBadLength, endpoint.OpRequestBulk, func(c *party) error {
		return c.ep.RequestBulk(bg, 0, hMute, payload, 801)
	}, false},
	{"long, beyond the segment", endpoint.ReasonBadLength, endpoint.OpRequestBulk, func(c *party) error {
		return c.ep.RequestBulk(bg, 0, hMute, bytes.Repeat([]byte{1}, 10_000), 0)
	}, false},
	{"offset that wraps", endpoint.ReasonBadLength, endpoint.OpRequestBulk, func(c *party) error {
		return c.ep.RequestBulk(bg, 0, hMute, payload, ^uint64(0)-50)
	}, false},
	{"get beyond the segment", endpoint.ReasonBadLength, endpoint.OpGet, func(c *party) error {
		return c.ep.Get(bg, 0, hReply, 900, 0, 101)
	}, false},
	{"no such endpoint", endpoint.ReasonBadEndpoint, endpoint.OpRequestMedium, func(c *party) error {
		return c.ep.RequestMedium(bg, 3, hMute, payload, 9)
	}, false},
	{"another incarnation", endpoint.ReasonBadEndpoint, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, 4, hMute) }, false},
	{"nobody there", endpoint.ReasonUnreachable, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, 5, hMute) }, false},
	{"no such endpoint in this node", endpoint.ReasonBadEndpoint, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, 6, hMute) }, false},
	{"too many senders", endpoint.ReasonCongestion, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, 7, hMute, 5) }, false},
}

// TestReturnedRequests: each refusal comes back with its reason and the
// original message, exactly once, and nothing is written.
func TestReturnedRequests(t *testing.T) {
	segment := make([]byte, 1000)
	var bare *endpoint.Endpoint
	err := pair(sim.Options{}, endpoint.Config{MaxConnections: 1}, func(s *party) {
		s.ep.SetTag(7)
		s.ep.SetSegment(segment)
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
		bare, _ = s.b.NewEndpoint()
		bare.SetTag(endpoint.TagAll)
		bare.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
	}, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		here, gone, old, away := c.ep.Name(), to, to, to
		here.ID, gone.ID = 999, 999
		old.Incarnation++
		away.Addr.MAC[5] = 99
		other, err := c.b.NewEndpoint()
		if err != nil {
			return err
		}
		other.SetTag(endpoint.TagAll)
		other.SetReturnHandler(func(r *endpoint.Returned) { c.returned = append(c.returned, *r) })
		other.Map(0, bare.Name(), 7)
		if err := other.Request(bg, 0, hMute); err != nil { // bare has its one sender now
			return err
		}
		for i, name := range []endpoint.Name{to, bare.Name(), gone, old, away, here, bare.Name()} {
			tag := endpoint.Tag(7)
			if i == 0 {
				tag = 8
			}
			if err := c.ep.Map(i+1, name, tag); err != nil {
				return err
			}
		}
		for _, r := range refusals {
			if r.name == "no segment" || r.name == "wrong tag" || r.name == "wrong tag, bulk" { // through the one connection that there may be
				continue
			}
			if err := c.expect(n, &r); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(segment, make([]byte, 1000)) {
		t.Error("a refused message was written to the segment")
	}
}

// TestReturnedByTagAndSegment: the same for what needs several connections.
func TestReturnedByTagAndSegment(t *testing.T) {
	segment := make([]byte, 20_000)
	var bare *endpoint.Endpoint
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetTag(7)
		s.ep.SetSegment(segment)
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
		bare, _ = s.b.NewEndpoint()
		bare.SetTag(endpoint.TagAll)
		bare.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
	}, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		c.ep.Map(1, to, 8)
		c.ep.Map(2, bare.Name(), 7)
		for _, r := range refusals {
			if r.name != "no segment" && r.name != "wrong tag" && r.name != "wrong tag, bulk" {
				continue
			}
			if err := c.expect(n, &r); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(segment, make([]byte, 20_000)) {
		t.Error("a refused message was written to the segment")
	}
}

// expect sends a message that comes back.
func (c *party) expect(n *endpoint.Node, r *refusal) error {
	c.returned = nil
	err := r.send(c)
	var back *endpoint.ReturnedError
	switch {
	case r.atCall && (!errors.As(err, &back) || !errors.Is(err, endpoint.ErrNotSent) || back.Reason != r.reason):
		return fmt.Errorf("the call returned %w", err)
	case !r.atCall && err != nil:
		return err
	}
	if err := c.until(n, "the message", func() bool { return len(c.returned) > 0 }); err != nil {
		return err
	}
	if got := c.returned[0]; got.Reason != r.reason || got.Op != r.op || got.Endpoint != c.ep {
		return fmt.Errorf("%v came back for %v (%v), want %v for %v", got.Op, got.Reason, got.Err, r.op, r.reason)
	}
	if got := c.returned[0]; r.op == endpoint.OpRequestMedium && len(got.Args) > 0 && !bytes.Equal(got.Data, payload) {
		return fmt.Errorf("came back with %d bytes that are not those sent", len(got.Data))
	}
	if len(c.returned) != 1 {
		return fmt.Errorf("it came back %d times", len(c.returned))
	}
	return nil
}

// TestReturnedReply: a reply that the client refuses comes back to the server,
// and the client's credit does too.
func TestReturnedReply(t *testing.T) {
	var server *party
	err := pair(sim.Options{}, endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(s *party) {
		server = s
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.Reply(98, args...) })
		s.ep.SetHandler(hBig, func(t endpoint.Token, args []uint32, data []byte) {
			t.ReplyBulk(hReply, make([]byte, args[0]), 1<<40, args...)
		})
	}, func(n *endpoint.Node, c *party) error {
		c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { panic("refused, and run all the same") })
		for i, send := range []func() error{
			func() error { return c.ep.Request(bg, 0, hEcho, 1, 2, 3) },
			func() error { return c.ep.Request(bg, 0, hBig, 100) },
			func() error { return c.ep.Request(bg, 0, hBig, 10_000) },
		} {
			if err := send(); err != nil {
				return err
			}
			if err := c.ep.Request(bg, 0, 50); err != nil { // needs the one credit
				return err
			}
			if err := c.until(n, "the return", func() bool { return len(c.returned) == i+1 }); err != nil {
				return err
			}
		}
		if len(server.returned) != 3 {
			return fmt.Errorf("%d replies came back, want 3", len(server.returned))
		}
		r := server.returned[0]
		if r.Reason != endpoint.ReasonReplyRejected || r.Op != endpoint.OpReply || r.Handler != 98 || !slices.Equal(r.Args, []uint32{1, 2, 3}) {
			return fmt.Errorf("came back: %+v", r)
		}
		if r := server.returned[2]; r.Op != endpoint.OpReplyBulk || len(r.Data) != 10_000 {
			return fmt.Errorf("came back: %v with %d bytes", r.Op, len(r.Data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDefaultReturnHandler ends the process.
func TestDefaultReturnHandler(t *testing.T) {
	code := 0
	err := pair(sim.Options{}, endpoint.Config{Exit: func(c int) { code = c }}, func(*party) {}, func(n *endpoint.Node, c *party) error {
		c.ep.SetReturnHandler(nil)
		if err := c.ep.Request(bg, 0, hMute); err != nil {
			return err
		}
		return c.until(n, "the end", func() bool { return code != 0 })
	})
	if err != nil || code != 1 {
		t.Fatalf("exit with %d, %v", code, err)
	}
}

// TestLostReply: a client without a tag makes the reply come back. A server without a
// ReturnHandler counts and logs that, and goes on; with AM-II's default it ends.
func TestLostReply(t *testing.T) {
	for _, exits := range []bool{false, true} {
		const requests = 3
		codes := 0
		cfg := endpoint.Config{Credits: endpoint.Credits{Short: 1}, ExitForReplies: exits, Exit: func(int) { codes++ }}
		var node *endpoint.Node
		err := pair(sim.Options{}, cfg, func(s *party) {
			x, _ := nodes.Load(s.b)
			node = x.(*endpoint.Node)
			s.ep.SetReturnHandler(nil)
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
		}, func(n *endpoint.Node, c *party) error {
			c.ep.SetTag(endpoint.TagNone)
			for i := range uint32(requests + 1) { // each needs the credit of the one before
				if err := c.ep.Request(bg, 0, hEcho, i); err != nil {
					return err
				}
			}
			return c.until(n, "replies to be refused", func() bool { return node.Stats().Returned[endpoint.ReasonReplyRejected] >= requests })
		})
		if err != nil {
			t.Fatal(err)
		}
		back := node.Stats().Returned[endpoint.ReasonReplyRejected]
		wantCodes, wantLost := uint64(0), back
		if exits {
			wantCodes, wantLost = back, 0
		}
		if got := node.Stats().LostReplies; uint64(codes) != wantCodes || got != wantLost {
			t.Errorf("ExitForReplies %v, %d replies came back: exit was called %d times, %d were counted", exits, back, codes, got)
		}
	}
}

// TestPeerDies: everything sent to it comes back, once, in bounded time.
func TestPeerDies(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.05})
		answered := 0
		cfg := endpoint.Config{PeerTimeout: time.Second, Credits: endpoint.Credits{Short: 8, Medium: 4, Bulk: 2}}
		w.pair(cfg, func(s *party) {
			s.ep.SetSegment(make([]byte, 50_000))
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.Reply(hReply, args...) })
		}, func(n *endpoint.Node, c *party) error {
			seen := map[uint32]int{}
			c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { seen[args[0]]++; answered++ })
			data := make([]byte, 20_000)
			var sent uint32
			w.At(w.Now()+int64(time.Duration(seed*37%100+1)*100*time.Microsecond), func() { w.Kill(w.stations["server"]) })
			for ; len(c.returned) == 0; sent++ {
				if err := sendSome(c, sent, data); err != nil {
					return err
				}
			}
			err := c.until(n, "everything to come back", func() bool {
				return len(seen)+len(c.returned) == int(sent)
			})
			if err != nil {
				return fmt.Errorf("%d sent, %d answered, %d came back: %w", sent, len(seen), len(c.returned), err)
			}
			for _, r := range c.returned {
				seen[r.Args[0]]++
				if r.Reason != endpoint.ReasonUnreachable {
					return fmt.Errorf("came back for %v: %v", r.Reason, r.Err)
				}
			}
			for id, times := range seen {
				if times != 1 {
					return fmt.Errorf("message %d was answered or came back %d times", id, times)
				}
			}
			return nil
		})
		return w.run()
	})
}

// sendSome sends message id, of a kind that depends on it.
func sendSome(c *party, id uint32, data []byte) error { return sendSomeWithin(bg, c, id, data) }

func sendSomeWithin(ctx context.Context, c *party, id uint32, data []byte) error {
	switch id % 4 {
	case 0, 1:
		return c.ep.Request(ctx, 0, hEcho, id)
	case 2:
		return c.ep.RequestMedium(ctx, 0, hEcho, data[:1000], id)
	}
	return c.ep.RequestBulk(ctx, 0, hEcho, data, 0, id)
}
