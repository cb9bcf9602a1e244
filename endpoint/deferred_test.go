package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// lender is a server that defers the replies to what hEcho handles.
type lender struct {
	*party
	deferred []endpoint.Deferred
	wrong    error
}

func newLender(w *world, n *endpoint.Node) (*lender, error) {
	p, err := newParty(n)
	if err != nil {
		return nil, err
	}
	l := &lender{party: p}
	l.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
		d, err := t.Defer()
		if again, twice := t.Defer(); err == nil && !errors.Is(twice, endpoint.ErrResource) {
			err = fmt.Errorf("deferred twice: %v, %v", again, twice)
		}
		if late := t.Reply(hReply); err == nil && !errors.Is(late, endpoint.ErrResource) {
			err = fmt.Errorf("replied to after it was deferred: %v", late)
		}
		l.note(err)
		l.deferred = append(l.deferred, d)
	})
	w.board["server"] = l.ep.Name()
	return l, nil
}

func (l *lender) note(err error) {
	if l.wrong == nil {
		l.wrong = err
	}
}

// TestDeferred: requests whose handlers leave the reply to others are answered later, by replies
// of all kinds and in any order, once; others are answered meanwhile, and each takes its credit
// until its own answer.
func TestDeferred(t *testing.T) {
	for _, o := range []sim.Options{{}, {Seed: 3, Loss: 0.2, Dup: 0.1, Reorder: 0.1}} {
		w := newWorld(o)
		cfg := endpoint.Config{Credits: endpoint.Credits{Short: 4}}
		done := false
		w.node("server", cfg, func(n *endpoint.Node) error {
			l, err := newLender(w, n)
			if err != nil {
				return err
			}
			l.ep.SetHandler(hMute, func(t endpoint.Token, _ []uint32, _ []byte) { l.note(t.Reply(hReply, 9)) })
			if err := l.until(n, "three requests", func() bool { return len(l.deferred) == 3 }); err != nil {
				return err
			}
			for range 20 { // hMute's
				w.Sleep(time.Millisecond)
				if _, err := l.b.Poll(); err != nil {
					return err
				}
			}
			if asked := n.Snapshot().Bundles[0].Endpoints[0].Asked; len(asked) != 1 || asked[0].Deferred != 3 {
				l.note(fmt.Errorf("the snapshot says %+v of three deferred requests", asked))
			}
			l.note(l.deferred[2].Reply(hReply, 2))
			l.note(l.deferred[1].ReplyMedium(hReply, payload, 1))
			l.note(l.deferred[0].ReplyBulk(hReply, pattern(make([]byte, 9000), 5), 100, 0))
			for i, d := range l.deferred {
				if err := d.Reply(hReply); !errors.Is(err, endpoint.ErrResource) {
					l.note(fmt.Errorf("request %d was replied to twice: %v", i, err))
				}
			}
			if err := (endpoint.Deferred{}).Reply(hReply); !errors.Is(err, endpoint.ErrResource) {
				l.note(fmt.Errorf("no request was replied to: %v", err))
			}
			if err := l.serve(n, &done); err != nil {
				return err
			}
			return l.wrong
		})
		w.node("client", cfg, func(n *endpoint.Node) error {
			defer func() { done = true }()
			return deferredClient(w, n)
		})
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
	}
}

func deferredClient(w *world, n *endpoint.Node) error {
	c, err := newParty(n)
	if err != nil {
		return err
	}
	segment := make([]byte, 10_000)
	c.ep.SetSegment(segment)
	var got []uint32
	var wrong error
	c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) {
		got = append(got, args[0])
		want := map[uint32][]byte{1: payload, 0: pattern(make([]byte, 9000), 5)}[args[0]]
		if !bytes.Equal(data, want) {
			wrong = fmt.Errorf("reply %d has %d bytes, or others", args[0], len(data))
		}
		if _, err := t.Defer(); !errors.Is(err, endpoint.ErrResource) {
			wrong = fmt.Errorf("a reply was deferred: %v", err)
		}
	})
	c.ep.Map(0, w.find("server"), 7)
	for i := range uint32(3) {
		if err := c.ep.Request(bg, 0, hEcho, i); err != nil {
			return err
		}
	}
	if err := c.ep.Request(bg, 0, hMute); err != nil {
		return err
	}
	if err := c.until(n, "the request behind", func() bool { return len(got) > 0 }); err != nil {
		return err
	}
	if x := n.Snapshot().Bundles[0].Endpoints[0].Translations[0]; got[0] != 9 || x.UnderWay != 3 {
		return fmt.Errorf("reply %d came first, and %d requests are under way", got[0], x.UnderWay)
	}
	if err := c.until(n, "the others", func() bool { return len(got) == 4 }); err != nil {
		return err
	}
	if slices.Sort(got); !slices.Equal(got, []uint32{0, 1, 2, 9}) || len(c.returned) > 0 {
		return fmt.Errorf("replies %d, and %d came back", got, len(c.returned))
	}
	return wrong
}

// TestDeferredByHandler: the handler of one request replies to another one that was deferred, and
// then to its own.
func TestDeferredByHandler(t *testing.T) {
	w := newWorld(sim.Options{})
	var first endpoint.Deferred
	var wrong []error
	w.pair(endpoint.Config{}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			var err error
			first, err = t.Defer()
			wrong = append(wrong, err)
		})
		s.ep.SetHandler(hMute, func(t endpoint.Token, _ []uint32, _ []byte) {
			wrong = append(wrong, first.Reply(hReply, 1), t.Reply(hReply, 2))
		})
	}, func(n *endpoint.Node, c *party) error {
		var got []uint32
		c.ep.SetHandler(hReply, func(_ endpoint.Token, args []uint32, _ []byte) { got = append(got, args...) })
		for _, h := range []uint8{hEcho, hMute} {
			if err := c.ep.Request(bg, 0, h); err != nil {
				return err
			}
		}
		if err := c.until(n, "both replies", func() bool { return len(got) == 2 }); err != nil {
			return err
		}
		if !slices.Equal(got, []uint32{1, 2}) || errors.Join(wrong...) != nil {
			return fmt.Errorf("replies %d, errors %v", got, wrong)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestDeferredLost: a deferred request comes back when its server ends; when its sender has
// ended, the reply goes nowhere, which is no error.
func TestDeferredLost(t *testing.T) {
	for _, leaver := range []string{"server", "client"} {
		w := newWorld(sim.Options{})
		cfg := endpoint.Config{PeerTimeout: time.Second}
		left := false
		w.node("server", cfg, func(n *endpoint.Node) error {
			l, err := newLender(w, n)
			if err != nil {
				return err
			}
			if err := l.until(n, "a request", func() bool { return len(l.deferred) > 0 }); err != nil || leaver == "server" {
				return err // and closes
			}
			for !left || n.Stats().Broken == 0 {
				w.Sleep(time.Millisecond)
				if _, err := l.b.Poll(); err != nil {
					return err
				}
			}
			return l.deferred[0].Reply(hReply)
		})
		w.node("client", cfg, func(n *endpoint.Node) error {
			c, err := newParty(n)
			if err != nil {
				return err
			}
			c.ep.Map(0, w.find("server"), 7)
			if err := c.ep.Request(bg, 0, hEcho, 4); err != nil {
				return err
			}
			if leaver == "client" {
				w.Sleep(100 * time.Millisecond)
				left = true
				return nil
			}
			if err := c.until(n, "its return", func() bool { return len(c.returned) > 0 }); err != nil {
				return err
			}
			if r := c.returned[0]; !slices.Equal(r.Args, []uint32{4}) {
				return fmt.Errorf("%+v came back", r)
			}
			return nil
		})
		if err := w.run(); err != nil {
			t.Fatal(leaver, err)
		}
	}
}
