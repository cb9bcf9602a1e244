package endpoint_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

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
