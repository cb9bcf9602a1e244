package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestConfig: what Open refuses.
func TestConfig(t *testing.T) {
	w := sim.New(sim.Options{})
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station("")})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	for _, c := range []struct {
		cfg endpoint.Config
		ok  bool
	}{
		{endpoint.Config{}, true},
		{endpoint.Config{Credits: endpoint.AMVIACredits}, true},
		{endpoint.Config{Credits: endpoint.Credits{Short: endpoint.MaxCredits}}, true},
		{endpoint.Config{Credits: endpoint.Credits{Short: endpoint.MaxCredits + 1}}, false},
		{endpoint.Config{Credits: endpoint.Credits{Short: 64, Medium: 8}}, false},
		{endpoint.Config{Credits: endpoint.Credits{Medium: 8, Bulk: 1}}, false},
		{endpoint.Config{Credits: endpoint.Credits{Short: -1}}, false},
		{endpoint.Config{MaxMedium: 1}, true},
		{endpoint.Config{MaxMedium: endpoint.MaxMediumLimit}, true},
		{endpoint.Config{MaxMedium: endpoint.MaxMediumLimit + 1}, false},
		{endpoint.Config{MaxMedium: -1}, false},
		{endpoint.Config{MaxConnections: 1, MaxConnectionMemory: 1, PeerTimeout: 1}, true},
		{endpoint.Config{MaxConnections: -1}, false},
		{endpoint.Config{MaxConnectionMemory: -1}, false},
		{endpoint.Config{PeerTimeout: -1}, false},
	} {
		c.cfg.NIC = nic
		n, err := endpoint.Open(t.Context(), &c.cfg)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, endpoint.ErrArgument) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
		if err == nil {
			n.Close()
		}
	}
}

// TestMaxMedium: the longest medium message arrives, a longer one does not, and
// the limit of a connection is its client's, in both directions.
func TestMaxMedium(t *testing.T) {
	for _, limits := range [][2]int{{1, 4096}, {100, 100}, {endpoint.MaxMediumLimit, 512}, {512, endpoint.MaxMediumLimit}} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			mine := limits[0]
			w := newWorld(sim.Options{})
			var tooLong error
			done := false
			w.node("server", endpoint.Config{MaxMedium: limits[1]}, func(n *endpoint.Node) error {
				s, err := newParty(n)
				if err != nil {
					return err
				}
				s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
					tooLong = t.ReplyMedium(hReply, make([]byte, mine+1))
					t.ReplyMedium(hReply, data, args...)
				})
				w.board["server"] = s.ep.Name()
				return s.serve(n, &done)
			})
			w.node("client", endpoint.Config{MaxMedium: mine}, func(n *endpoint.Node) error {
				defer func() { done = true }()
				c, err := newParty(n)
				if err != nil {
					return err
				}
				c.ep.Map(0, w.find("server"), 5)
				return c.longest(n, mine, &tooLong)
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (c *party) longest(n *endpoint.Node, limit int, tooLong *error) error {
	want := pattern(make([]byte, limit), 3)
	var got []byte
	c.ep.SetHandler(hReply, func(_ endpoint.Token, _ []uint32, data []byte) { got = slices.Clone(data) })
	if err := c.ep.RequestMedium(bg, 0, hEcho, want); err != nil {
		return err
	}
	if err := c.until(n, "the reply", func() bool { return got != nil }); err != nil {
		return err
	}
	var back *endpoint.ReturnedError
	if !errors.As(*tooLong, &back) || back.Reason != endpoint.ReasonBadArgs {
		return fmt.Errorf("a reply that is too long: %w", *tooLong)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("sent %d bytes, got back %d", len(want), len(got))
	}
	err := c.ep.RequestMedium(bg, 0, hEcho, make([]byte, limit+1))
	if !errors.As(err, &back) || back.Reason != endpoint.ReasonBadArgs || len(c.returned) != 1 {
		return fmt.Errorf("a request that is too long: %w, %d came back", err, len(c.returned))
	}
	return nil
}

// TestLogHandler: a handler of log lines may look at the node, and may block: when the panic
// of a handler of messages is logged, the next ones are handled all the same, and Close
// does not wait.
func TestLogHandler(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	for name, call := range map[string]func(n *endpoint.Node){
		"calls":  func(n *endpoint.Node) { n.Snapshot() },
		"blocks": func(*endpoint.Node) { <-block },
	} {
		t.Run(name, func(t *testing.T) {
			nics := linkNICs(t, "udp", func(_ int, l transport.Link) transport.Link { return l })
			opened, lines := make(chan *endpoint.Node, 1), make(chan string, 8)
			n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nics[0], Logger: slog.New(logtest.Handler(func(line string) {
				n := <-opened
				opened <- n
				lines <- line
				call(n)
			}))})
			if err != nil {
				t.Fatal(err)
			}
			opened <- n
			ended := make(chan error, 1)
			go func() { ended <- panicAndLog(n, lines) }()
			select {
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the node is stuck")
			}
		})
	}
}

// panicAndLog has an endpoint of a node ask itself, with handlers that panic, and closes the
// node.
func panicAndLog(n *endpoint.Node, lines <-chan string) error {
	p, err := newParty(n)
	if err != nil {
		return err
	}
	handled := 0
	p.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {
		handled++
		panic("in a handler")
	})
	if err := p.ep.Map(0, p.ep.Name(), endpoint.TagAll); err != nil {
		return err
	}
	for i := range 3 {
		if err := p.ep.Request(bg, 0, hMute); err != nil {
			return err
		}
		if err := p.until(n, "its handler", func() bool { return handled == i+1 }); err != nil {
			return err
		}
	}
	if line := <-lines; line != "endpoint: a handler has panicked" {
		return fmt.Errorf("the line is %q", line)
	}
	return n.Close()
}
