package endpoint_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/transport"
)

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
