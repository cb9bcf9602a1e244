package endpoint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// starvation is how long client and server have no processor.
type starvation struct {
	met            bool // before
	client, server time.Duration
}

// TestStarved: processes that had no processor for a while are not unreachable: a server that
// does so from the beginning, for nearly the default PeerTimeout, and client and server together,
// for longer, the server for some seconds more.
func TestStarved(t *testing.T) {
	const silence = 8 * time.Second
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
