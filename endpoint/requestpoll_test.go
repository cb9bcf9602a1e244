package endpoint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestRequestsPoll: a program that sends requests now and then, and always has a
// credit, never polls; all the same it accepts a connection, and runs the handler
// of what comes over it, within some of its requests.
func TestRequestsPoll(t *testing.T) {
	const soon = 8 // requests: four until the first looks, and the handshake takes a few looks
	w := newWorld(sim.Options{})
	cfg := endpoint.Config{Credits: endpoint.Credits{Short: 64}}
	done, asked, ran := false, false, 0
	w.node("sink", cfg, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
		w.board["sink"] = s.ep.Name()
		return s.serve(n, &done)
	})
	w.node("asker", cfg, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.Map(0, w.find("busy"), 5)
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		asked = true
		if err = c.serve(n, &done); len(c.returned) > 0 {
			return fmt.Errorf("the request came back: %+v", c.returned)
		}
		return err
	})
	w.node("busy", cfg, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetHandler(hEcho, func(endpoint.Token, []uint32, []byte) { ran++ })
		w.board["busy"] = c.ep.Name()
		c.ep.Map(0, w.find("sink"), 5)
		for sent := 0; ran == 0; {
			w.Sleep(100 * time.Millisecond) // it computes
			if err := c.ep.Request(bg, 0, hMute); err != nil {
				return err
			}
			if asked {
				sent++
			}
			if sent > soon {
				return fmt.Errorf("%d requests have not run the handler of one that waits", sent)
			}
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestAsyncLooks: a bulk request that must not wait is refused only if the answer
// that frees the credit has not come yet.
func TestAsyncLooks(t *testing.T) {
	w := newWorld(sim.Options{})
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(s *party) {
		s.ep.SetSegment(make([]byte, 1000))
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
	}, func(n *endpoint.Node, c *party) error {
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
		if err := c.ep.RequestBulkAsync(0, hEcho, payload, 0); err != nil {
			return err
		}
		if err := c.ep.RequestBulkAsync(0, hEcho, payload, 0); !errors.Is(err, endpoint.ErrInUse) {
			return fmt.Errorf("without a credit: %w", err)
		}
		for range 10 { // connects, and brings the answer to the interface
			w.Sleep(time.Millisecond)
			n.NIC().Poll()
		}
		for i := range 10 {
			if err := c.ep.RequestBulkAsync(0, hEcho, payload, 0); err != nil {
				return fmt.Errorf("request %d, when the answer to the one before has come: %w", i, err)
			}
			for range 10 {
				w.Sleep(time.Millisecond)
				n.NIC().Poll()
			}
		}
		if stalls := n.Stats().Stalls; stalls != 1 {
			return fmt.Errorf("%d stalls were counted", stalls)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
