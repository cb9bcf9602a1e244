package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/alloctest"
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

// TestParallelInHandler: in a parallel bundle too a handler's request is refused,
// while one from another goroutine goes out although a handler is running.
func TestParallelInHandler(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	w.node("one", endpoint.Config{}, func(n *endpoint.Node) error {
		b, err := n.NewBundle(endpoint.Parallel)
		if err != nil {
			return err
		}
		ep, err := b.NewEndpoint()
		if err != nil {
			return err
		}
		ep.SetTag(endpoint.TagAll)
		var within, polled, beside error
		replies := 0
		ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			within = ep.Request(bg, 0, hEcho)
			_, polled = b.Poll()
			other := make(chan error)
			go func() { other <- ep.Request(bg, 0, 30) }()
			beside = <-other
			t.Reply(hReply)
		})
		ep.SetHandler(30, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
		ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		if err := ep.Map(0, ep.Name(), 1); err != nil {
			return err
		}
		if err := ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		p := &party{b: b, ep: ep}
		if err := p.until(n, "both replies", func() bool { return replies == 2 }); err != nil {
			return err
		}
		switch {
		case !errors.Is(within, endpoint.ErrInHandler):
			return fmt.Errorf("a request in a handler: %w", within)
		case !errors.Is(polled, endpoint.ErrInHandler):
			return fmt.Errorf("a poll in a handler: %w", polled)
		}
		return beside
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestParallelAllocations: nothing is allocated by polls and requests in a parallel
// bundle, nor by answers, while one of its handlers is running.
func TestParallelAllocations(t *testing.T) {
	nodes := hostNodes(t, endpoint.Config{})
	b, err := nodes[0].NewBundle(endpoint.Parallel)
	if err != nil {
		t.Fatal(err)
	}
	var eps [2]*endpoint.Endpoint
	for i := range eps {
		if eps[i], err = b.NewEndpoint(); err != nil {
			t.Fatal(err)
		}
		eps[i].SetTag(endpoint.TagAll)
	}
	busy, ep := eps[0], eps[1]
	entered, leave, left := make(chan bool), make(chan bool), make(chan bool)
	busy.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { close(entered); <-leave })
	ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
	ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
	ep.Map(0, busy.Name(), 5)
	ep.Map(1, ep.Name(), 5)
	if err := ep.Request(bg, 0, hMute); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(left); b.Poll() }()
	<-entered
	round := func() {
		if err := ep.Request(bg, 1, hEcho, 1, 2, 3); err != nil {
			t.Error(err)
		}
		b.Poll()
	}
	for range 10 {
		round()
	}
	if n := alloctest.PerRun(t, 200, round); n != 0 {
		t.Errorf("%v allocations for a request, a reply and a poll", n)
	}
	close(leave)
	<-left
}

// TestRequestInReturnHandler: handlers of returned messages may send no requests
// either, on bundles of both types.
func TestRequestInReturnHandler(t *testing.T) {
	for _, kind := range []endpoint.BundleType{endpoint.Sequential, endpoint.Parallel} {
		oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
			b, err := n.NewBundle(kind)
			if err != nil {
				return err
			}
			ep, err := b.NewEndpoint()
			if err != nil {
				return err
			}
			ep.SetTag(endpoint.TagAll)
			var within, polled error
			back := 0
			ep.SetReturnHandler(func(*endpoint.Returned) {
				if back++; back == 1 {
					within = ep.Request(bg, 0, hMute)
					_, polled = b.Poll()
				}
			})
			ep.Map(0, ep.Name(), 1)
			if err := ep.Request(bg, 0, 99); err != nil {
				return err
			}
			if err := (&party{b: b, ep: ep}).until(n, "the return", func() bool { return back > 0 }); err != nil {
				return err
			}
			if !errors.Is(within, endpoint.ErrInHandler) || !errors.Is(polled, endpoint.ErrInHandler) {
				return fmt.Errorf("bundle type %d: a request %w, a poll %w", kind, within, polled)
			}
			return nil
		})
	}
}

// quitters is a client and a server whose handlers end their goroutines, as
// testing's FailNow does. The test's process polls for both, each time on a
// goroutine of its own, and never runs a handler itself.
type quitters struct {
	w       *world
	c, s    *party
	quit    int // handlers
	replies int // whose handler has not quit
}

const (
	hQuiet  = 20 + iota
	hAnswer // replies, and the handler of the reply quits
	hLong   // the same with bulk data
	hWrong  // replies to a handler that there is not
	hAfter  // replies and quits
	hNone
)

func (q *quitters) leave() {
	q.quit++
	runtime.Goexit()
}

func (q *quitters) setup() {
	reply := func(h uint8) endpoint.Handler {
		return func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(h) }
	}
	q.s.ep.SetSegment(make([]byte, 20_000))
	q.s.ep.SetReturnHandler(func(*endpoint.Returned) { q.leave() })
	q.s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { q.leave() })
	q.s.ep.SetHandler(hQuiet, reply(hQuiet))
	q.s.ep.SetHandler(hAnswer, reply(hReply))
	q.s.ep.SetHandler(hLong, func(t endpoint.Token, _ []uint32, _ []byte) { t.ReplyBulk(hReply, make([]byte, 10_000), 0) })
	q.s.ep.SetHandler(hWrong, reply(hNone))
	q.s.ep.SetHandler(hAfter, func(t endpoint.Token, _ []uint32, _ []byte) {
		t.Reply(hQuiet)
		q.leave()
	})
	q.c.ep.SetSegment(make([]byte, 20_000))
	q.c.ep.SetReturnHandler(func(*endpoint.Returned) { q.leave() })
	q.c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { q.leave() })
	q.c.ep.SetHandler(hQuiet, func(endpoint.Token, []uint32, []byte) { q.replies++ })
}

// turn polls for some parties, and lets a little time pass.
func (q *quitters) turn(parties ...*party) {
	for _, p := range parties {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.b.Poll()
		}()
		<-ended
	}
	q.w.Sleep(50 * time.Microsecond)
}

// until polls until so many handlers have quit, and until all else is over.
func (q *quitters) until(quit int, parties ...*party) error {
	for i := 0; q.quit < quit; i++ {
		if q.turn(parties...); i == 1000 {
			return fmt.Errorf("%d handlers have run, want %d", q.quit, quit)
		}
	}
	for range 20 {
		q.turn(parties...)
	}
	if q.quit > quit {
		return fmt.Errorf("%d handlers have run, want %d", q.quit, quit)
	}
	return nil
}

// TestGoexit: a handler of any kind may end its goroutine. What it was for ends
// as usual: the client has its credit back, and the connection goes on.
func TestGoexit(t *testing.T) {
	big := make([]byte, 10_000)
	stories := []struct {
		name string
		send func(ep *endpoint.Endpoint) error
	}{
		{"request", func(ep *endpoint.Endpoint) error { return ep.RequestMedium(bg, 0, hMute, payload) }},
		{"request, after its reply", func(ep *endpoint.Endpoint) error { return ep.Request(bg, 0, hAfter) }},
		{"bulk request", func(ep *endpoint.Endpoint) error { return ep.RequestBulkAsync(0, hMute, big, 0) }},
		{"reply", func(ep *endpoint.Endpoint) error { return ep.Request(bg, 0, hAnswer) }},
		{"bulk reply", func(ep *endpoint.Endpoint) error { return ep.Request(bg, 0, hLong) }},
		{"returned request", func(ep *endpoint.Endpoint) error { return ep.Request(bg, 0, hNone) }},
		{"refused get", func(ep *endpoint.Endpoint) error { return ep.Get(bg, 0, hReply, 0, 1<<40, 100) }},
		{"returned reply", func(ep *endpoint.Endpoint) error { return ep.Request(bg, 0, hWrong) }},
	}
	run := func(q *quitters) error {
		q.setup()
		for i := range 3 * len(stories) {
			story := stories[i%len(stories)]
			if err := story.send(q.c.ep); err != nil { // needs the one credit
				return fmt.Errorf("%s: %w", story.name, err)
			}
			if err := q.until(q.quit+1, q.c, q.s); err != nil {
				return fmt.Errorf("%s: %w", story.name, err)
			}
		}
		if err := q.c.ep.Request(bg, 0, hQuiet); err != nil {
			return err
		}
		if err := q.s.ep.Free(); err != nil {
			return err
		}
		return q.until(q.quit+1, q.c)
	}
	cfg := endpoint.Config{Credits: endpoint.Credits{Short: 1}}
	t.Run("one node", func(t *testing.T) {
		w := newWorld(sim.Options{})
		w.node("host", cfg, func(n *endpoint.Node) (err error) {
			q := &quitters{w: w}
			q.c, err = newParty(n)
			if err == nil {
				q.s, err = newParty(n)
			}
			if err != nil {
				return err
			}
			q.c.ep.Map(0, q.s.ep.Name(), 7)
			return run(q)
		})
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("two nodes", func(t *testing.T) {
		err := quitBetweenNodes(cfg, func(q *quitters) error {
			err := run(q)
			for _, p := range []*party{q.c, q.s} {
				if vis := len(serverNode(p).NIC().Snapshot().VIs); vis != 0 {
					err = errors.Join(err, fmt.Errorf("%d VIs are left", vis))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// quitBetweenNodes calls run with parties on two nodes.
func quitBetweenNodes(cfg endpoint.Config, run func(q *quitters) error) error {
	w := newWorld(sim.Options{})
	q, done := &quitters{w: w}, false
	w.node("server", cfg, func(n *endpoint.Node) (err error) {
		if q.s, err = newParty(n); err != nil {
			return err
		}
		nodes.Store(q.s.b, n)
		w.board["server"] = q.s.ep.Name()
		for !done {
			w.Sleep(time.Millisecond)
		}
		return nil
	})
	w.node("client", cfg, func(n *endpoint.Node) (err error) {
		defer func() { done = true }()
		if q.c, err = newParty(n); err != nil {
			return err
		}
		q.c.ep.Map(0, w.find("server"), 7)
		nodes.Store(q.c.b, n)
		return run(q)
	})
	return w.run()
}

// TestGoexitAnswers: the answers of handlers that ran before one that ended the
// goroutine do not wait for another poll.
func TestGoexitAnswers(t *testing.T) {
	const requests = 5
	cfg := endpoint.Config{Credits: endpoint.Credits{Short: requests}}
	err := quitBetweenNodes(cfg, func(q *quitters) error {
		q.setup()
		if err := q.c.ep.Request(bg, 0, hMute); err != nil { // connects
			return err
		}
		if err := q.until(1, q.c, q.s); err != nil {
			return err
		}
		for _, h := range []uint8{hQuiet, hQuiet, hQuiet, hQuiet, hAfter} {
			if err := q.c.ep.Request(bg, 0, h); err != nil {
				return err
			}
		}
		computes := func() { // the server, while its NIC goes on
			for range 100 {
				serverNode(q.s).NIC().Poll()
				q.turn(q.c)
			}
		}
		computes()
		q.turn(q.s)
		computes()
		if q.quit != 2 || q.replies != requests {
			return fmt.Errorf("%d replies to %d requests", q.replies, requests)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
