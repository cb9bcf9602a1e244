package endpoint_test

import (
	"errors"
	"fmt"
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
