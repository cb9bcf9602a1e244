package lanai_test

import (
	"context"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"golang.org/x/sys/unix"
)

// TestFlooded: programs on the same card and on another one say what they can to a program that does not run. One
// that it has spoken to, and strangers, connect with it all the same. What the card does not pass on is counted.
func TestFlooded(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false)
	served(t, veth, 1, false)
	victim := startChild(t, veth, 0, "server")
	var friends, strangers, floods [2]*lanai.Card
	var friend [2]*party
	for side := range 2 {
		friends[side], strangers[side], floods[side] = openVeth(t, veth, side), openVeth(t, veth, side), openVeth(t, veth, side)
		friend[side] = find(t, friends[side])
		if !friend[side].answered(t) {
			t.Fatal("the request comes back")
		}
	}
	to, err := friend[0].n.Find(t.Context(), "child")
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for side := range 2 {
		p, err := newParty(floods[side], endpoint.Config{})
		if err != nil {
			t.Fatal(err)
		}
		lanai.Flood(floods[side], p.ep.Name().Addr.Port, to.Addr, 5000, 2000)
	}
	// One party of each kind asks for a connection while the victim does not run.
	var parties []*party
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask := func(p *party, ep *endpoint.Endpoint) {
		if err := ep.Map(1, to, tag); err != nil {
			t.Fatal(err)
		}
		p.got = nil
		if err := ep.Request(ctx, 1, hEcho, 1); err != nil {
			t.Fatal(err)
		}
		parties = append(parties, p)
	}
	for side := range 2 {
		ep, err := friend[side].newEndpoint()
		if err != nil {
			t.Fatal(err)
		}
		ask(friend[side], ep)
		stranger, err := newParty(strangers[side], endpoint.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ask(stranger, stranger.ep)
	}
	for _, p := range parties {
		if _, err := p.b.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if err := victim.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for i, p := range parties {
		if err := p.until("an answer", func() bool { return len(p.got)+len(p.returned) > 0 }); err != nil || len(p.returned) > 0 {
			t.Errorf("party %d: %v; came back: %v", i, err, p.returned)
		}
	}
	if n := card.Snapshot().Stats.Unheard; n < 1000 {
		t.Errorf("%d messages are counted as dropped", n)
	}
}

// TestSwamped: sayings that need no handling do not free the room of those that wait. When the program has handled what
// there is, nothing counts any more.
func TestSwamped(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	a, _ := s.pair(lanai.Config{})
	s.w.Go("program", func() {
		p, err := newParty(a, endpoint.Config{})
		if err != nil {
			t.Error(err)
			return
		}
		defer p.n.Close()
		port := p.ep.Name().Addr.Port
		if n := lanai.Swamp(a, port, mac(2), 5000, 20); n == 0 || n > lanai.MostUntaken/2 {
			t.Errorf("%d bytes of strangers wait, want at most %d", n, lanai.MostUntaken/2)
		}
		if _, err := p.b.Poll(); err != nil {
			t.Error(err)
		}
		if lanai.Swamped(a, port, mac(2)) {
			t.Error("what the program has handled still counts")
		}
	})
	if err := s.w.Run(); err != nil {
		t.Fatal(err)
	}
}
