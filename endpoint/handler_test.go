package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestPanics: handlers of all three kinds may panic. The panic is logged and
// counted, its message ends, and everything goes on.
func TestPanics(t *testing.T) {
	var log bytes.Buffer
	cfg := endpoint.Config{Credits: endpoint.Credits{Short: 1}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	var server *endpoint.Node
	err := pair(sim.Options{}, cfg, func(s *party) {
		server = serverNode(s)
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { panic("in a request handler") })
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) {
			t.Reply(hReply, args...)
			panic("after the reply")
		})
	}, func(n *endpoint.Node, c *party) error {
		replies, returns := 0, 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++; panic("in a reply handler") })
		c.ep.SetReturnHandler(func(*endpoint.Returned) { returns++; panic("in a handler of returned messages") })
		for range 5 { // each needs the one credit
			for _, h := range []uint8{hMute, hEcho, 99} {
				if err := c.ep.Request(bg, 0, h, 1); err != nil {
					return err
				}
			}
		}
		if err := c.until(n, "the ends", func() bool { return replies == 5 && returns == 5 }); err != nil {
			return err
		}
		if here, there := n.Stats().Panics, server.Stats().Panics; here != 10 || there != 10 {
			return fmt.Errorf("counted %d panics here and %d there, want 10 and 10", here, there)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, cause := range []string{"in a request handler", "after the reply", "in a reply handler", "in a handler of returned messages"} {
		if k := strings.Count(log.String(), "cause=\""+cause); k != 5 {
			t.Errorf("%q was logged %d times, want 5", cause, k)
		}
	}
}

// TestLateToken: a request cannot be replied to when its handler has returned,
// also not before another one runs.
func TestLateToken(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		var kept endpoint.Token
		c.ep.SetHandler(hMute, func(t endpoint.Token, _ []uint32, _ []byte) { kept = t })
		c.ep.Map(0, c.ep.Name(), 5)
		if err := c.ep.Request(bg, 0, hMute); err != nil {
			return err
		}
		if _, err := c.b.Poll(); err != nil {
			return err
		}
		if err := kept.Reply(hReply); !errors.Is(err, endpoint.ErrResource) {
			return fmt.Errorf("a late reply: %w", err)
		}
		return nil
	})
}

// TestHandlers: there are 255 for messages, and the one for returned messages.
func TestHandlers(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		ran := make([]int, endpoint.NumHandlers)
		if err := c.ep.SetHandler(0, func(endpoint.Token, []uint32, []byte) {}); !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("handler 0: %w", err)
		}
		c.ep.SetHandler(2, func(endpoint.Token, []uint32, []byte) { ran[2]++ })
		for want := 1; want < endpoint.NumHandlers; want++ {
			if want == 2 {
				continue
			}
			if got, err := c.ep.AddHandler(func(endpoint.Token, []uint32, []byte) { ran[want]++ }); err != nil || int(got) != want {
				return fmt.Errorf("handler %d, want %d: %w", got, want, err)
			}
		}
		if i, err := c.ep.AddHandler(func(endpoint.Token, []uint32, []byte) {}); !errors.Is(err, endpoint.ErrResource) {
			return fmt.Errorf("added handler %d: %w", i, err)
		}
		c.ep.Map(0, c.ep.Name(), 5)
		for h := 1; h < endpoint.NumHandlers; h++ {
			if err := c.ep.Request(bg, 0, uint8(h)); err != nil {
				return err
			}
		}
		if err := c.until(n, "all handlers", func() bool { return ran[endpoint.NumHandlers-1] == 1 }); err != nil {
			return err
		}
		if i := slices.IndexFunc(ran[1:], func(k int) bool { return k != 1 }); i >= 0 {
			return fmt.Errorf("handler %d ran %d times", i+1, ran[i+1])
		}
		return nil
	})
}

// TestBadReplies: what is wrong with a reply is found at the call, comes back to
// the handler of returned messages at once, and leaves the request without a
// reply, so that the handler may give another.
func TestBadReplies(t *testing.T) {
	var server *party
	var errs []error
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		server = s
		s.ep.SetReturnHandler(func(r *endpoint.Returned) { // the data is too long to be kept
			s.returned = append(s.returned, endpoint.Returned{Op: r.Op, Reason: r.Reason, Dest: r.Dest})
		})
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) {
			errs = append(errs,
				t.Reply(hReply, make([]uint32, endpoint.MaxShort+1)...),
				t.ReplyMedium(hReply, make([]byte, endpoint.DefaultMaxMedium+1), 5),
				t.ReplyBulk(hReply, make([]byte, endpoint.MaxBulk+1), 0, 6))
			t.Reply(hReply, args...)
		})
	}, func(n *endpoint.Node, c *party) error {
		var got []uint32
		c.ep.SetHandler(hReply, func(_ endpoint.Token, args []uint32, _ []byte) { got = slices.Clone(args) })
		if err := c.ep.Request(bg, 0, hEcho, 42); err != nil {
			return err
		}
		if err := c.until(n, "the reply", func() bool { return got != nil }); err != nil {
			return err
		}
		if !slices.Equal(got, []uint32{42}) || len(c.returned) > 0 {
			return fmt.Errorf("the reply was %v, %d came back here", got, len(c.returned))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(server.returned) != 3 {
		t.Fatalf("%d replies came back, want 3", len(server.returned))
	}
	for i, op := range []endpoint.Op{endpoint.OpReply, endpoint.OpReplyMedium, endpoint.OpReplyBulk} {
		var back *endpoint.ReturnedError
		if !errors.As(errs[i], &back) || !errors.Is(errs[i], endpoint.ErrNotSent) || back.Reason != endpoint.ReasonBadArgs {
			t.Errorf("%v: %v", op, errs[i])
		}
		if r := server.returned[i]; r.Op != op || r.Reason != endpoint.ReasonBadArgs || r.Dest != -1 {
			t.Errorf("%v came back for %v from index %d, want %v", r.Op, r.Reason, r.Dest, op)
		}
	}
}

// TestServeAnswersCallsOnly: the function that Serve offers does not run for a
// reply, whoever names its handler in one.
func TestServeAnswersCallsOnly(t *testing.T) {
	const hServe = 30
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.ReplyMedium(hServe, []byte("x")) })
	}, func(n *endpoint.Node, c *party) error {
		ran := 0
		endpoint.Serve(c.ep, hServe, func(endpoint.Token, string) (string, error) { ran++; return "", nil })
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the reply", func() bool { return n.Stats().Replies == 1 }); err != nil {
			return err
		}
		if panics := n.Stats().Panics; panics > 0 || ran > 0 {
			return fmt.Errorf("it ran %d times, with %d panics", ran, panics)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
