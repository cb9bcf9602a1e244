package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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
	if got := c.returned[0]; r.atCall && (!errors.As(got.Err, &back) || back.Detail == "") {
		return fmt.Errorf("came back with the error %v, want one that says which argument is wrong", got.Err)
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

// TestDefaultReturnHandler ends the process, after a line that has what is known.
func TestDefaultReturnHandler(t *testing.T) {
	var code int
	var log lines
	cfg := endpoint.Config{Exit: func(c int) { code = c }, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	err := pair(sim.Options{}, cfg, func(*party) {}, func(n *endpoint.Node, c *party) error {
		c.ep.SetReturnHandler(nil)
		if err := c.ep.Request(bg, 0, hMute); err != nil {
			return err
		}
		return c.until(n, "the end", func() bool { return code != 0 })
	})
	if err != nil || code != 1 {
		t.Fatalf("exit with %d, %v", code, err)
	}
	if text := log.String(); !strings.Contains(text, "message returned and no ReturnHandler") || strings.Contains(text, "nil") {
		t.Errorf("the log has %s", text)
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

// A long bulk message is accepted when it is announced and handled when its data
// has come. These tests let something happen in between.

// between is a server in one node with two clients, the first of which has
// announced a long bulk request; the handler hEcho, which the second calls, runs
// after the grant and before the data is handled.
type between struct {
	server, first, second *party
	segment               []byte
	ran                   int // hMute, for the bulk request
	data                  []byte
}

func newBetween(n *endpoint.Node, act func(b *between)) (*between, error) {
	b := &between{segment: make([]byte, 20_000), data: pattern(make([]byte, 10_000), 4)}
	for _, p := range []**party{&b.server, &b.first, &b.second} {
		var err error
		if *p, err = newParty(n); err != nil {
			return nil, err
		}
	}
	s := b.server.ep
	s.SetTag(7)
	s.SetSegment(b.segment)
	s.SetHandler(hMute, func(_ endpoint.Token, _ []uint32, data []byte) { b.ran++ })
	s.SetHandler(hEcho, func(endpoint.Token, []uint32, []byte) { act(b) })
	for _, p := range []*party{b.first, b.second} {
		if err := p.ep.Map(0, s.Name(), 7); err != nil {
			return nil, err
		}
	}
	if err := b.first.ep.RequestBulkAsync(0, hMute, b.data, 100, 1, 2); err != nil {
		return nil, err
	}
	if err := b.second.ep.Request(bg, 0, hEcho); err != nil {
		return nil, err
	}
	_, err := b.server.b.Poll()
	return b, err
}

// oneNode runs fn as the only process of a world.
func oneNode(t *testing.T, cfg endpoint.Config, fn func(n *endpoint.Node) error) {
	t.Helper()
	w := newWorld(sim.Options{})
	w.node("host", cfg, fn)
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestBetweenGrantAndData: the tag and the handlers that are set when the data
// has come decide, as for every message.
func TestBetweenGrantAndData(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason endpoint.Reason
		act    func(b *between)
	}{
		{"nothing", 0, func(b *between) {}},
		{"handler removed", endpoint.ReasonBadHandler, func(b *between) { b.server.ep.SetHandler(hMute, nil) }},
		{"tag changed", endpoint.ReasonBadTag, func(b *between) { b.server.ep.SetTag(8) }},
		{"tag taken away", endpoint.ReasonBadTag, func(b *between) { b.server.ep.SetTag(endpoint.TagNone) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
				b, err := newBetween(n, c.act)
				if err != nil {
					return err
				}
				if _, err := b.first.b.Poll(); err != nil {
					return err
				}
				if panics := n.Stats().Panics; panics > 0 {
					return fmt.Errorf("%d panics", panics)
				}
				if err := b.server.ep.SetSegment(nil); err != nil {
					return fmt.Errorf("after all: %w", err)
				}
				if c.reason == 0 && (b.ran != 1 || len(b.first.returned) > 0 || !bytes.Equal(b.segment[100:10_100], b.data)) {
					return fmt.Errorf("ran %d times, came back: %+v", b.ran, b.first.returned)
				}
				if c.reason != 0 && (b.ran != 0 || len(b.first.returned) != 1 || b.first.returned[0].Reason != c.reason) {
					return fmt.Errorf("ran %d times, %d came back, want one for %v", b.ran, len(b.first.returned), c.reason)
				}
				return nil
			})
		})
	}
}

// TestSegmentAfterSenderLeft: a sender that leaves between its data and its
// handler leaves no right behind, and the segment can be changed. The data have come, so
// the handler runs.
func TestSegmentAfterSenderLeft(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		var inUse error
		b, err := newBetween(n, func(b *between) {
			inUse = b.server.ep.SetSegment(nil)
			b.first.ep.Free()
		})
		if err != nil {
			return err
		}
		if inUse == nil {
			return fmt.Errorf("the segment was changed while a peer might write to it")
		}
		if b.ran != 1 || !bytes.Equal(b.segment[100:10_100], b.data) {
			return fmt.Errorf("the handler ran %d times for what a sender that has left has sent", b.ran)
		}
		return b.server.ep.SetSegment(nil)
	})
}

// TestReplyHandlerRemoved: the same for a bulk reply at the client, whose server
// gets it back.
func TestReplyHandlerRemoved(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		s, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetSegment(make([]byte, 20_000))
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { panic("removed, and run all the same") })
		c.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { c.ep.SetHandler(hReply, nil) })
		s.ep.SetHandler(hBig, func(t endpoint.Token, _ []uint32, _ []byte) { t.ReplyBulk(hReply, make([]byte, 10_000), 0) })
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hMute) })
		c.ep.Map(0, s.ep.Name(), 5)
		c.ep.Map(1, s.ep.Name(), 5)
		if err := c.ep.Request(bg, 0, hBig); err != nil {
			return err
		}
		if err := c.ep.Request(bg, 1, hEcho); err != nil {
			return err
		}
		for range 4 {
			if _, err := s.b.Poll(); err != nil {
				return err
			}
			if _, err := c.b.Poll(); err != nil {
				return err
			}
		}
		if panics := n.Stats().Panics; panics > 0 {
			return fmt.Errorf("%d panics", panics)
		}
		if len(s.returned) != 1 || s.returned[0].Reason != endpoint.ReasonReplyRejected || len(s.returned[0].Data) != 10_000 {
			return fmt.Errorf("%d replies came back", len(s.returned))
		}
		return c.ep.SetSegment(nil)
	})
}

// TestReplyDies: a client that dies while the data of a bulk reply is on its way
// gives the reply back to its server, once, with the data.
func TestReplyDies(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Bandwidth: 10_000_000})
		var server *party
		replied, handled := 0, 0
		data := pattern(make([]byte, 30_000), 2)
		w.pair(endpoint.Config{PeerTimeout: time.Second}, func(s *party) {
			server = s
			s.ep.SetHandler(hBig, func(t endpoint.Token, args []uint32, _ []byte) {
				replied++
				t.ReplyBulk(hReply, data, 0, args...)
			})
		}, func(n *endpoint.Node, c *party) error {
			c.ep.SetSegment(make([]byte, len(data)))
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { handled++ })
			if err := c.ep.Request(bg, 0, hBig, 9); err != nil {
				return err
			}
			w.At(w.Now()+int64(time.Duration(seed*7%40)*time.Millisecond), func() { w.Kill(w.stations["client"]) })
			c.until(n, "the reply", func() bool { return handled > 0 })
			c.until(n, "death", func() bool { return false })
			for range 1000 { // the server hears of it
				w.Sleep(5 * time.Millisecond)
			}
			return errDead
		})
		if err := w.run(); err != nil {
			return err
		}
		if handled == 1 && len(server.returned) <= 1 { // what has arrived may come back if that is not known
			return nil
		}
		if replied != len(server.returned) {
			return fmt.Errorf("%d replies, %d handled, %d came back", replied, handled, len(server.returned))
		}
		for _, r := range server.returned {
			if r.Op != endpoint.OpReplyBulk || r.Reason != endpoint.ReasonUnreachable || !bytes.Equal(r.Data, data) {
				return fmt.Errorf("came back: %v for %v with %d bytes", r.Op, r.Reason, len(r.Data))
			}
		}
		return nil
	})
}

// TestGetRefusedHere: data that its own asker cannot take, because its segment is
// too short or its tag has changed, comes back to the asker, as the request
// that it was. The endpoint that it is read from has sent nothing, and hears
// nothing.
func TestGetRefusedHere(t *testing.T) {
	for _, size := range []int{100, 10_000} {
		for _, c := range []struct {
			name   string
			reason endpoint.Reason
			act    func(c *party)
		}{
			{"beyond the segment", endpoint.ReasonBadLength, func(c *party) { c.ep.SetSegment(make([]byte, 50)) }},
			{"no segment", endpoint.ReasonBadOffset, func(c *party) { c.ep.SetSegment(nil) }},
			{"no handler", endpoint.ReasonBadHandler, func(c *party) { c.ep.SetHandler(hReply, nil) }},
			{"tag", endpoint.ReasonBadTag, func(c *party) { c.ep.SetTag(endpoint.TagNone) }},
		} {
			t.Run(fmt.Sprint(c.name, " ", size), func(t *testing.T) {
				var server *party
				err := pair(sim.Options{}, endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(s *party) {
					server = s
					s.ep.SetSegment(make([]byte, 20_000))
					s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
				}, func(n *endpoint.Node, p *party) error {
					p.ep.SetSegment(make([]byte, 20_000))
					p.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { panic("refused, and run all the same") })
					if err := p.ep.Get(bg, 0, hReply, 0, 10, size, 1, 2); err != nil {
						return err
					}
					c.act(p)
					if err := p.ep.Request(bg, 0, hMute); err != nil { // needs the one credit
						return err
					}
					if len(server.returned) > 0 {
						return fmt.Errorf("the server got back %v for %v", server.returned[0].Op, server.returned[0].Reason)
					}
					if len(p.returned) != 1 || p.returned[0].Op != endpoint.OpGet || p.returned[0].Reason != c.reason {
						return fmt.Errorf("came back here: %+v, want a get for %v", p.returned, c.reason)
					}
					return server.ep.SetSegment(nil) // nobody fetches from it any more
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestTranslations: the table grows and shrinks, and messages go by all of it.
func TestTranslations(t *testing.T) {
	oneNode(t, endpoint.Config{Credits: endpoint.Credits{Short: 1}, MaxMedium: 8}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		if k := c.ep.NumTranslations(); k != endpoint.DefaultTranslations {
			return fmt.Errorf("%d translations at first", k)
		}
		seen := map[uint32]int{}
		c.ep.SetHandler(hMute, func(_ endpoint.Token, args []uint32, _ []byte) { seen[args[0]]++ })
		for want := range endpoint.DefaultTranslations {
			if i, err := c.ep.MapAny(c.ep.Name(), 5); err != nil || i != want {
				return fmt.Errorf("mapped index %d, want %d: %w", i, want, err)
			}
		}
		if i, err := c.ep.MapAny(c.ep.Name(), 5); !errors.Is(err, endpoint.ErrResource) {
			return fmt.Errorf("a full table: %d, %w", i, err)
		}
		if err := c.ep.SetNumTranslations(600); err != nil {
			return err
		}
		if i, err := c.ep.MapAny(c.ep.Name(), 5); err != nil || i != endpoint.DefaultTranslations {
			return fmt.Errorf("after it has grown: %d, %w", i, err)
		}
		if err := c.ep.Map(599, c.ep.Name(), 6); err != nil {
			return err
		}
		if err := c.ep.SetNumTranslations(700); err != nil {
			return err
		}
		for i := range uint32(endpoint.DefaultTranslations + 1) {
			if err := c.ep.Request(bg, int(i), hMute, i); err != nil {
				return err
			}
		}
		if err := c.ep.Request(bg, 599, hMute, 599); err != nil {
			return err
		}
		if err := c.until(n, "all", func() bool { return len(seen) == endpoint.DefaultTranslations+2 }); err != nil {
			return err
		}
		if name, tag, err := c.ep.Translation(599); err != nil || name != c.ep.Name() || tag != 6 {
			return fmt.Errorf("index 599: %v, %d, %w", name, tag, err)
		}
		return c.shrink()
	})
}

func (c *party) shrink() error {
	if err := c.ep.SetNumTranslations(599); !errors.Is(err, endpoint.ErrInUse) {
		return fmt.Errorf("cut off the last: %w", err)
	}
	if err := c.ep.SetNumTranslations(endpoint.MaxTranslations + 1); !errors.Is(err, endpoint.ErrArgument) {
		return fmt.Errorf("too many: %w", err)
	}
	for _, i := range []int{599, endpoint.DefaultTranslations} {
		if err := c.ep.Unmap(i); err != nil {
			return err
		}
	}
	if err := c.ep.SetNumTranslations(1); err != nil || c.ep.NumTranslations() != endpoint.DefaultTranslations {
		return fmt.Errorf("never below the default: %d, %w", c.ep.NumTranslations(), err)
	}
	if _, _, err := c.ep.Translation(599); !errors.Is(err, endpoint.ErrArgument) {
		return fmt.Errorf("an index that is no more: %w", err)
	}
	if err := c.ep.Unmap(-1); !errors.Is(err, endpoint.ErrArgument) {
		return fmt.Errorf("index -1: %w", err)
	}
	return nil
}

// TestReturnedAfterUnmap: what comes back through an index that has been unmapped
// does not name it, because it may stand for another endpoint by then.
func TestReturnedAfterUnmap(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(*party) {}, func(n *endpoint.Node, c *party) error {
		if err := c.ep.Request(bg, 0, 99, 5); err != nil {
			return err
		}
		to, _, _ := c.ep.Translation(0)
		if err := c.ep.Unmap(0); err != nil {
			return err
		}
		if err := c.ep.Map(0, c.ep.Name(), 5); err != nil {
			return err
		}
		if err := c.until(n, "the return", func() bool { return len(c.returned) == 1 }); err != nil {
			return err
		}
		if r := c.returned[0]; r.Dest != -1 || r.To != to || r.Reason != endpoint.ReasonBadHandler {
			return fmt.Errorf("came back from index %d, %v, for %v", r.Dest, r.To, r.Reason)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// clientDeaths are ways in which a client ends while its server replies.
var clientDeaths = []struct {
	name          string
	before, after func(w *world) // the server's reply
	leave         func(n *endpoint.Node)
}{
	{name: "killed before the reply", before: killClient},
	{name: "killed while the reply is under way", after: killClient},
	{name: "its link is closed before the reply", before: func(w *world) { w.stations["client"].Close() }},
	{name: "its link is closed while the reply is under way", after: func(w *world) { w.stations["client"].Close() }},
	{name: "closes its NIC", leave: func(n *endpoint.Node) { n.NIC().Close() }},
	{name: "closes its node", leave: func(n *endpoint.Node) { n.Close() }},
}

func killClient(w *world) { w.Kill(w.stations["client"]) }

// TestClientDies: a client that ends while the server's reply is under way makes the reply come
// back. A server without a ReturnHandler counts that and serves the next client; with AM-II's
// default it ends. No reply comes back from a client that closes its node or its NIC.
func TestClientDies(t *testing.T) {
	for _, death := range clientDeaths {
		for size, kind := range []string{"short", "medium", "bulk"} {
			for _, exits := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/exits %t", death.name, kind, exits), func(t *testing.T) {
					d := &dyingClient{world: newWorld(sim.Options{}), before: death.before, after: death.after, leave: death.leave, size: size}
					if err := d.play(exits); err != nil {
						t.Fatal(err)
					}
					wantCodes, wantLost := 0, uint64(1)
					switch {
					case death.leave != nil: // it has said that it waits for nothing
						wantLost = 0
					case exits:
						wantCodes, wantLost = 1, 0
					}
					if d.codes != wantCodes || d.lost != wantLost {
						t.Errorf("exit was called %d times, and %d lost replies were counted; want %d and %d", d.codes, d.lost, wantCodes, wantLost)
					}
				})
			}
		}
	}
}

// dyingClient is a server, a client that dies, and another one that comes later.
type dyingClient struct {
	*world
	before, after func(w *world)
	leave         func(n *endpoint.Node)
	size          int // of the reply: short, medium, bulk

	codes   int
	lost    uint64
	asked   bool // the server has the request
	replied bool
	over    bool // the reply has come back, or does not
	done    bool // the other client has got its answer
}

func (d *dyingClient) play(exits bool) error {
	cfg := endpoint.Config{PeerTimeout: time.Second, ExitForReplies: exits, Exit: func(int) { d.codes++ }}
	d.node("server", cfg, d.server)
	d.node("client", cfg, d.dies)
	d.node("other", cfg, d.other)
	return d.run()
}

// server replies to requests, and to the client that dies at the moment of its death.
func (d *dyingClient) server(n *endpoint.Node) error {
	s, err := newParty(n)
	if err != nil {
		return err
	}
	s.ep.SetReturnHandler(nil)
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
	s.ep.SetHandler(hBig, func(t endpoint.Token, _ []uint32, _ []byte) {
		if d.before != nil {
			d.before(d.world)
		}
		if d.asked = true; d.leave != nil {
			d.Sleep(100 * time.Millisecond)
		}
		switch d.size {
		case 0:
			t.Reply(hReply)
		case 1:
			t.ReplyMedium(hReply, payload)
		default:
			t.ReplyBulk(hReply, make([]byte, 50_000), 0)
		}
		if d.replied = true; d.after != nil {
			d.after(d.world)
		}
	})
	d.board["server"] = s.ep.Name()
	if d.leave == nil {
		err = s.until(n, "the reply to come back", func() bool { return d.codes > 0 || n.Stats().LostReplies > 0 })
	} else {
		err = s.until(n, "the reply", func() bool { return d.replied })
	}
	if err != nil {
		return err
	}
	d.over = true
	err = s.serve(n, &d.done)
	d.lost = n.Stats().LostReplies
	return err
}

func (d *dyingClient) dies(n *endpoint.Node) error {
	c, err := newParty(n)
	if err != nil {
		return err
	}
	c.ep.SetSegment(make([]byte, 50_000))
	if err := c.ep.Map(0, d.find("server"), 7); err != nil {
		return err
	}
	if err := c.ep.Request(bg, 0, hBig); err != nil {
		return err
	}
	if d.leave != nil {
		for !d.asked {
			if _, err := c.b.Poll(); err != nil {
				return err
			}
			d.Sleep(time.Millisecond)
		}
		d.leave(n)
		return nil
	}
	if err := c.serve(n, &d.over); !errors.Is(err, errDead) {
		return fmt.Errorf("the client lives: %w", err)
	}
	return nil
}

// other asks the server when the first client is dead.
func (d *dyingClient) other(n *endpoint.Node) error {
	defer func() { d.done = true }()
	c, err := newParty(n)
	if err != nil {
		return err
	}
	answered := false
	c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { answered = true })
	to := d.find("server")
	for !d.over {
		if err := d.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	if err := c.ep.Map(0, to, 7); err != nil {
		return err
	}
	if err := c.ep.Request(bg, 0, hEcho); err != nil {
		return err
	}
	return c.until(n, "the answer", func() bool { return answered })
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
