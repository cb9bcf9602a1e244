package endpoint_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// partiesOnVeth opens two nodes with so many parties each.
func partiesOnVeth(t *testing.T, each int) (sides [2][]*party) {
	t.Helper()
	p := vethtest.New(t, 65535)
	for side := range sides {
		var nic *vipl.NIC
		if err := p.In(side, func() (err error) {
			nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Ports: transport.PortRange{Lo: 1024, Hi: 8191}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		node, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nic, Logger: quiet, MaxMedium: 512})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		for range each {
			e, err := newParty(node)
			if err != nil {
				t.Fatal(err)
			}
			sides[side] = append(sides[side], e)
		}
	}
	return sides
}

// TestAllToAllConnect has each of many endpoints of a node send its first request to
// each of as many of another node at once, over interfaces whose frames are so long
// that the receive ring holds a few dozen: every connection comes about.
func TestAllToAllConnect(t *testing.T) {
	each := 64
	if !need.Full() {
		each = 24
	}
	sides := partiesOnVeth(t, each)
	replies, returned := 0, 0
	for _, s := range sides[0] {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
	}
	for _, c := range sides[1] {
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		for i, s := range sides[0] {
			if err := c.ep.Map(i, s.ep.Name(), endpoint.TagAll); err != nil {
				t.Fatal(err)
			}
		}
	}
	served := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(served)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, s := range sides[0] {
				s.b.Poll()
			}
		}
	}()
	defer func() { close(stop); <-served }()
	for i := range each {
		for _, c := range sides[1] {
			if err := c.ep.Request(bg, i, hEcho, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for end := time.Now().Add(time.Minute); replies+returned < each*each && time.Now().Before(end); {
		returned = 0
		for _, c := range sides[1] {
			c.b.Poll()
			returned += len(c.returned)
		}
	}
	if replies != each*each {
		for _, c := range sides[1] {
			for _, r := range c.returned {
				t.Fatalf("%d replies and %d messages returned, of %d; one for %+v", replies, returned, each*each, r)
			}
		}
		t.Fatalf("%d replies and %d messages returned, of %d", replies, returned, each*each)
	}
}
