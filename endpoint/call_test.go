package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestCallDeadline: a call ends at its deadline, and its late answer disturbs no
// other.
func TestCallDeadline(t *testing.T) {
	w := newWorld(sim.Options{})
	awake := false
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
		w.board["server"] = s.ep.Name()
		for range 50 { // it answers nobody
			w.Sleep(time.Millisecond)
			n.NIC().Poll()
		}
		awake = true
		return s.serve(n, new(bool))
	})
	w.node("client", endpoint.Config{Credits: endpoint.Credits{Short: 2}}, func(n *endpoint.Node) error {
		defer w.Kill(w.stations["server"])
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.Map(0, w.find("server"), 5)
		for _, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} { // the third finds no credit
			ctx, cancel := n.NIC().WithTimeout(bg, want)
			before := w.Now()
			_, err := endpoint.Call[int32, int32](ctx, c.ep, 0, 1, 100)
			cancel()
			if took := time.Duration(w.Now() - before); !errors.Is(err, context.DeadlineExceeded) || took < want || took > want+2*time.Millisecond {
				return fmt.Errorf("with a deadline of %v: %w after %v", want, err, took)
			}
		}
		for i := range int32(10) {
			if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, i); err != nil || got != i+1 {
				return fmt.Errorf("call %d: %d, %w", i, got, err)
			}
		}
		if !awake || len(c.returned) > 0 {
			return fmt.Errorf("awake %v, %d came back", awake, len(c.returned))
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestCallTypes: values that do not fit are found out, on either side.
func TestCallTypes(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{MaxMedium: 64}, func(s *party) {
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r string) (string, error) { return r + r, nil })
		endpoint.Serve(s.ep, 2, func(_ endpoint.Token, r endpoint.Name) (endpoint.Name, error) { r.ID++; return r, nil })
		endpoint.Serve(s.ep, 3, func(_ endpoint.Token, r int64) (int64, error) { return r, nil })
		endpoint.Serve(s.ep, 4, func(_ endpoint.Token, r []byte) ([]byte, error) { return nil, errors.New(string(make([]byte, 500))) })
	}, func(n *endpoint.Node, c *party) error {
		if err := endpoint.Serve(c.ep, 9, func(endpoint.Token, int) (map[int]int, error) { return nil, nil }); !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("a result without a binary form: %w", err)
		}
		if _, err := endpoint.Call[int, int](bg, c.ep, 0, 1, 5); !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("a request without a binary form: %w", err)
		}
		name := c.ep.Name()
		name.ID++
		if got, err := endpoint.Call[endpoint.Name, endpoint.Name](bg, c.ep, 0, 2, c.ep.Name()); err != nil || got != name {
			return fmt.Errorf("a name: %v, %w", got, err)
		}
		var remote *endpoint.RemoteError
		if _, err := endpoint.Call[string, string](bg, c.ep, 0, 1, string(make([]byte, 40))); !errors.As(err, &remote) {
			return fmt.Errorf("a result that is too long: %w", err)
		}
		if _, err := endpoint.Call[int32, int32](bg, c.ep, 0, 3, 1); !errors.As(err, &remote) {
			return fmt.Errorf("a request of another type: %w", err)
		}
		if _, err := endpoint.Call[[]byte, []byte](bg, c.ep, 0, 4, nil); !errors.As(err, &remote) || len(remote.Text) != 64 {
			return fmt.Errorf("a long error: %w", err)
		}
		if _, err := endpoint.Call[int64, int32](bg, c.ep, 0, 3, 1); err == nil {
			return errors.New("a result of another type was taken")
		}
		var back *endpoint.ReturnedError
		if _, err := endpoint.Call[string, string](bg, c.ep, 0, 1, string(make([]byte, 65))); !errors.As(err, &back) || back.Reason != endpoint.ReasonBadArgs {
			return fmt.Errorf("a request that is too long: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCallTellsCaller: a call that cannot be sent, or comes back, is an error of
// the call and of nothing else, even where a message that comes back ends the
// process.
func TestCallTellsCaller(t *testing.T) {
	ended := 0
	cfg := endpoint.Config{MaxMedium: 64, Exit: func(int) { ended++ }}
	err := pair(sim.Options{}, cfg, func(*party) {}, func(n *endpoint.Node, c *party) error {
		c.ep.SetReturnHandler(nil)
		nobody := c.ep.Name()
		nobody.ID = 999
		c.ep.Map(1, nobody, 7)
		for _, x := range []struct {
			what   string
			dest   int
			r      string
			reason endpoint.Reason
			here   bool
		}{
			{"too long", 0, string(make([]byte, 65)), endpoint.ReasonBadArgs, true},
			{"to an unbound index", 9, "", endpoint.ReasonBadEntry, true},
			{"of nothing", 0, "", endpoint.ReasonBadHandler, false},
			{"of nobody on this node", 1, "", endpoint.ReasonBadEndpoint, false},
		} {
			_, err := endpoint.Call[string, string](bg, c.ep, x.dest, 1, x.r)
			var here *endpoint.ReturnedError
			var there *endpoint.CallError
			switch {
			case x.here && (!errors.As(err, &here) || here.Reason != x.reason),
				!x.here && (!errors.As(err, &there) || there.Reason != x.reason || there.Err != nil):
				return fmt.Errorf("a call %s: %w", x.what, err)
			case ended > 0:
				return fmt.Errorf("a call %s ends the process", x.what)
			}
		}
		if returned := n.Stats().Returned; returned != (endpoint.Stats{}).Returned {
			return fmt.Errorf("calls were counted among the messages that came back: %v", returned)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
