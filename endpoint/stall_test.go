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
	"github.com/bobnet-go/bobnet/vipl"
)

// mortal is a server that is killed, and a new one at the same address that has
// published the same word.
type mortal struct {
	*world
	handled [2][]uint32 // by each, of hEcho
	done    bool
}

const mortalCredits = 4

func (m *mortal) serve(life int, station *sim.Station) {
	m.nodeOn(station, fmt.Sprint("server", life), endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		s.ep.SetHandler(hEcho, func(_ endpoint.Token, args []uint32, _ []byte) { m.handled[life] = append(m.handled[life], args...) })
		if err := s.ep.Publish("mortal"); err != nil {
			return err
		}
		return s.serve(n, &m.done)
	})
}

// killed runs a client that has sent so many requests more than it has credits, to
// a server that is killed when the first of them are under way, and that another
// follows after a time, if that is not negative.
func (m *mortal) killed(again time.Duration, cfg endpoint.Config, requests int, check func(n *endpoint.Node, c *party, at []int64) error) error {
	station := m.Station("server")
	m.serve(0, station)
	m.node("client", cfg, func(n *endpoint.Node) error {
		defer func() { m.done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		var at []int64 // when they came back
		c.ep.SetReturnHandler(func(r *endpoint.Returned) {
			c.returned = append(c.returned, endpoint.Returned{Reason: r.Reason, Op: r.Op, Dest: r.Dest, To: r.To, Handler: r.Handler, Args: append([]uint32(nil), r.Args...)})
			at = append(at, m.Now())
		})
		m.Sleep(time.Millisecond)
		name, err := n.Find(bg, "mortal")
		if err != nil {
			return err
		}
		c.ep.Map(0, name, 5)
		if err := c.ep.Request(bg, 0, hEcho, 0); err != nil { // so that the slots are not used from the first on
			return err
		}
		for len(m.handled[0]) == 0 || n.Snapshot().Bundles[0].Endpoints[0].Translations[0].UnderWay > 0 {
			m.Sleep(time.Millisecond)
			c.b.Poll()
		}
		m.Kill(station)
		if again >= 0 {
			m.At(m.Now()+int64(again), func() { m.serve(1, m.StationWith(sim.StationOptions{Name: "again", MAC: station.MAC()})) })
		}
		for i := range requests {
			if err := c.ep.Request(bg, 0, hEcho, uint32(i+1)); err != nil {
				return err
			}
		}
		return check(n, c, at)
	})
	return m.run()
}

// TestStalledComeBack: a request that waits for a credit when the connection breaks
// comes back behind those that are under way, in the order of sending, no later than
// they do, and is not handled by the server that has come in place of the first.
func TestStalledComeBack(t *testing.T) {
	for _, again := range []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond, -1} {
		for _, credits := range []endpoint.Credits{{Short: mortalCredits}, {Short: mortalCredits, Medium: 1, Bulk: 1}} {
			m := &mortal{world: newWorld(sim.Options{})}
			err := m.killed(again, endpoint.Config{PeerTimeout: time.Second, Credits: credits}, mortalCredits+1, func(n *endpoint.Node, c *party, at []int64) error {
				if len(c.returned) != mortalCredits+1 {
					return fmt.Errorf("%d requests came back while the last waited", len(c.returned))
				}
				for i, r := range c.returned {
					if r.Args[0] != uint32(i+1) || r.Reason != c.returned[0].Reason || r.Op != endpoint.OpRequest || r.Dest != 0 || r.Handler != hEcho || r.To != c.returned[0].To {
						return fmt.Errorf("number %d to come back: %+v, the first: %+v", i, r, c.returned[0])
					}
				}
				if first, last := at[0], at[len(at)-1]; last != first {
					return fmt.Errorf("the last came back %v later", time.Duration(last-first))
				}
				m.Sleep(2 * time.Second)
				if err := c.ep.Request(bg, 0, hEcho, 99); err != nil {
					return err
				}
				for range 100 {
					m.Sleep(10 * time.Millisecond)
					c.b.Poll()
				}
				if again >= 0 && (len(m.handled[1]) != 1 || m.handled[1][0] != 99) {
					return fmt.Errorf("the new server has handled %d", m.handled[1])
				}
				return nil
			})
			if err != nil {
				t.Errorf("again after %v, credits %v: %v", again, credits, err)
			}
		}
	}
}

// TestStalledCall: the same for a call.
func TestStalledCall(t *testing.T) {
	m := &mortal{world: newWorld(sim.Options{})}
	err := m.killed(1500*time.Millisecond, endpoint.Config{PeerTimeout: time.Second, Credits: endpoint.Credits{Short: mortalCredits}}, mortalCredits, func(n *endpoint.Node, c *party, at []int64) error {
		_, err := endpoint.Call[uint32, uint32](bg, c.ep, 0, hEcho, 7)
		var back *endpoint.CallError
		if !errors.As(err, &back) || back.Reason != endpoint.ReasonUnreachable || !errors.Is(err, vipl.ErrUnreachable) {
			return fmt.Errorf("the call returned %w", err)
		}
		if len(c.returned) != mortalCredits || len(m.handled[1]) > 0 {
			return fmt.Errorf("%d came back before the call, the new server has handled %d", len(c.returned), m.handled[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNextAfterReturns: a translation whose connection has broken has no new one
// before all requests of the old one have come back, be they more than a poll
// handles.
func TestNextAfterReturns(t *testing.T) {
	const requests = 300
	m := &mortal{world: newWorld(sim.Options{})}
	cfg := endpoint.Config{PeerTimeout: time.Second, Credits: endpoint.Credits{Short: requests}}
	err := m.killed(100*time.Millisecond, cfg, requests, func(n *endpoint.Node, c *party, at []int64) error {
		for len(c.returned) == 0 {
			m.Sleep(5 * time.Millisecond)
			if _, err := c.b.Poll(); err != nil {
				return err
			}
		}
		if len(c.returned) > requests/2 {
			return fmt.Errorf("%d have come back: this tests nothing", len(c.returned))
		}
		if err := c.ep.Request(bg, 0, hEcho, 1000); err != nil {
			return err
		}
		if len(c.returned) != requests {
			return fmt.Errorf("the next request went when %d had come back", len(c.returned))
		}
		for i, r := range c.returned {
			if r.Args[0] != uint32(i+1) {
				return fmt.Errorf("number %d to come back is %d", i+1, r.Args[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFailWithoutCredit: requests and calls that find no credit fail at once.
func TestFailWithoutCredit(t *testing.T) {
	w := newWorld(sim.Options{})
	answer, calls := false, 0
	w.pair(endpoint.Config{FailWithoutCredit: true, Credits: endpoint.Credits{Short: 2}}, func(s *party) {
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {
			for !answer {
				w.Sleep(time.Millisecond)
			}
		})
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { calls++; return r + 1, nil })
	}, func(n *endpoint.Node, c *party) error {
		for range 2 {
			if err := c.ep.Request(bg, 0, hMute); err != nil {
				return err
			}
		}
		before := w.Now()
		for what, send := range map[string]func() error{
			"request": func() error { return c.ep.Request(bg, 0, hMute) },
			"medium":  func() error { return c.ep.RequestMedium(bg, 0, hMute, payload) },
			"bulk":    func() error { return c.ep.RequestBulk(bg, 0, hMute, payload, 0) },
			"get":     func() error { return c.ep.Get(bg, 0, hMute, 0, 0, 1) },
			"call":    func() error { _, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, 5); return err },
		} {
			if err := send(); !errors.Is(err, endpoint.ErrInUse) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		if w.Now() != before || len(c.returned) > 0 {
			return fmt.Errorf("it took %v, %d came back", time.Duration(w.Now()-before), len(c.returned))
		}
		answer = true
		for range 100 {
			w.Sleep(time.Millisecond)
			c.b.Poll()
		}
		if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, 5); err != nil || got != 6 || calls != 1 {
			return fmt.Errorf("a call with a credit: %d, %w; %d were handled", got, err, calls)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// starvation is how long client and server have no processor.
type starvation struct {
	met            bool // before
	client, server time.Duration
}

// TestStarved: processes that had no processor for a while are not unreachable: a server that
// does so from the beginning, for 10 s, and client and server together,
// for longer, the server for some seconds more.
func TestStarved(t *testing.T) {
	const silence = 10 * time.Second
	for name, x := range map[string]starvation{
		"server, not met":             {false, 0, silence},
		"server":                      {true, 0, silence},
		"both":                        {true, 20 * time.Second, 20*time.Second + silence},
		"both, for longer":            {true, 5 * time.Minute, 5*time.Minute + silence},
		"both, that have not met":     {false, 20 * time.Second, 20*time.Second + silence},
		"client, that has met nobody": {false, 20 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) { starve(t, x) })
	}
}

func starve(t *testing.T, x starvation) {
	w := newWorld(sim.Options{Seed: 1, Limit: time.Hour})
	done, met, answers := false, !x.met, 0
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
		w.board["server"] = s.ep.Name()
		if err := s.serve(n, &met); err != nil {
			return err
		}
		if err := w.Sleep(x.server); err != nil {
			return err
		}
		return s.serve(n, &done)
	})
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { answers++ })
		if err := c.ep.Map(0, w.find("server"), 7); err != nil {
			return err
		}
		ask := func(want int) error {
			if err := c.ep.RequestBulkAsync(0, hEcho, nil, 0); err != nil {
				return err
			}
			if want == 0 {
				return nil
			}
			err := c.until(n, "the answer", func() bool { return answers == want || len(c.returned) > 0 })
			if len(c.returned) > 0 {
				err = errors.Join(err, fmt.Errorf("it came back for %v: %w", c.returned[0].Reason, c.returned[0].Err))
			}
			return err
		}
		if x.met {
			if err := ask(1); err != nil {
				return err
			}
			ctx, cancel := n.WithTimeout(bg, time.Second) // until nothing is on its way that shows that the server lives
			_, _ = c.b.WaitPoll(ctx)
			cancel()
		} else if x.client > 0 { // the request has left when the client loses its processor
			if err := ask(0); err != nil {
				return err
			}
		}
		met = true
		if err := w.Sleep(x.client); err != nil {
			return err
		}
		return ask(answers + 1 + map[bool]int{true: 1}[!x.met && x.client > 0])
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

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
