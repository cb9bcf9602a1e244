package endpoint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestVirtualNetworks: two virtual networks between the same two nodes. The
// server of one handles nothing, and its client has used up its credits and
// waits; the other goes on as if that were not there. Nor can a member of one
// send to the other.
func TestVirtualNetworks(t *testing.T) {
	const tagA, tagB = 100, 200
	w := newWorld(sim.Options{})
	done, started := false, false
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
		mute, err := newParty(n)
		if err != nil {
			return err
		}
		s, err := newParty(n)
		if err != nil {
			return err
		}
		mute.ep.SetTag(tagA)
		s.ep.SetTag(tagB)
		for _, p := range []*party{mute, s} {
			p.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.ReplyMedium(hReply, data, args...) })
		}
		w.board["a"], w.board["server"] = mute.ep.Name(), s.ep.Name()
		return s.serve(n, &done)
	})
	w.node("client a", endpoint.Config{PeerTimeout: time.Minute}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetTag(tagA)
		c.ep.Map(0, w.find("a"), tagA)
		c.ep.Map(1, w.find("server"), tagA) // of the other network
		return c.stall(n, &started, &done)
	})
	w.node("client b", endpoint.Config{}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetTag(tagB)
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		c.ep.Map(0, w.find("server"), tagB)
		for !started {
			w.Sleep(time.Millisecond)
		}
		for range 200 {
			if err := c.ep.RequestMedium(bg, 0, hEcho, make([]byte, 4000)); err != nil {
				return err
			}
		}
		return c.until(n, "replies", func() bool { return replies == 200 })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// stall is refused by one server and waits for the other, which does not serve.
func (c *party) stall(n *endpoint.Node, started, done *bool) error {
	if err := c.ep.Request(bg, 1, hEcho); err != nil {
		return err
	}
	if err := c.until(n, "the return", func() bool { return len(c.returned) == 1 }); err != nil {
		return err
	}
	if r := c.returned[0].Reason; r != endpoint.ReasonBadTag {
		return fmt.Errorf("a message to the other network came back for %v", r)
	}
	for range endpoint.DefaultCredits.Short {
		if err := c.ep.RequestMedium(bg, 0, hEcho, make([]byte, 4000)); err != nil {
			return err
		}
	}
	*started = true
	for !*done { // no credit
		ctx, cancel := n.NIC().WithTimeout(bg, 10*time.Millisecond)
		err := c.ep.RequestMedium(ctx, 0, hEcho, make([]byte, 4000))
		cancel()
		if err == nil {
			return errors.New("a credit came back though nothing was handled")
		}
	}
	return nil
}
