package lanai_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

const hLast = 20

// sayLast opens a node, says something to an endpoint, and closes the node at once.
func sayLast(c *lanai.Card, to endpoint.Name, size int) error {
	p, err := newParty(c, endpoint.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err = p.ep.Map(0, to, tag); err == nil {
		err = p.ep.RequestMedium(ctx, 0, hLast, make([]byte, size))
	}
	return errors.Join(err, p.n.Close())
}

// lastWords has client nodes come, say something and close, and wants all of it heard by the
// endpoints of a server, who take turns.
func lastWords(t *testing.T, w *sim.World, cards [2]*lanai.Card, endpoints, rounds int) {
	t.Helper()
	heard := 0
	var names []endpoint.Name
	w.Go("server", func() {
		p, err := newParty(cards[0], endpoint.Config{})
		if err != nil {
			t.Error(err)
			return
		}
		defer p.n.Close()
		for i := range endpoints {
			ep := p.ep
			if i > 0 {
				if ep, err = p.newEndpoint(); err != nil {
					t.Error(err)
					return
				}
			}
			ep.SetHandler(hLast, func(endpoint.Token, []uint32, []byte) { heard++ })
			names = append(names, ep.Name())
		}
		if err := p.until("the last words", func() bool { return heard == rounds }); err != nil {
			t.Errorf("%d of %d heard: %v", heard, rounds, err)
		}
	})
	w.Go("client", func() {
		for i := range rounds {
			if err := sayLast(cards[1], names[i%endpoints], i*31%4000); err != nil {
				t.Errorf("round %d: %v", i, err)
				return
			}
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestLastWords: what a node has sent before it was closed is heard, although the news of the
// end comes by another endpoint than the message, in virtual time and over live cables.
func TestLastWords(t *testing.T) {
	t.Run("fabric", func(t *testing.T) {
		s := newSegment(t, myrinet.Options{})
		a, b := s.pair(lanai.Config{})
		lastWords(t, s.w, [2]*lanai.Card{a, b}, 1, 100)
	})
	t.Run("more endpoints than frames", func(t *testing.T) {
		s := newSegment(t, myrinet.Options{})
		a, b := s.pair(lanai.Config{Frames: 3, Residence: 50 * time.Microsecond})
		lastWords(t, s.w, [2]*lanai.Card{a, b}, 9, 100)
	})
	t.Run("live", func(t *testing.T) {
		w, cards := liveCards(t)
		lastWords(t, w, cards, 1, 100)
	})
}

// TestLastWordsVeth is TestLastWords over a cable between two network namespaces.
func TestLastWordsVeth(t *testing.T) {
	veth := vethtest.New(t, 1500)
	cards := [2]*lanai.Card{openVeth(t, veth, 0), openVeth(t, veth, 1)}
	server, err := newParty(cards[0], endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.n.Close()
	heard := 0
	server.ep.SetHandler(hLast, func(endpoint.Token, []uint32, []byte) { heard++ })
	if err := server.ep.Publish("last words"); err != nil {
		t.Fatal(err)
	}
	const rounds = 100
	said := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < rounds && err == nil; i++ {
			err = sayLast(cards[1], server.ep.Name(), i*31%4000)
		}
		said <- err
	}()
	if err := server.until("the last words", func() bool { return heard == rounds }); err != nil {
		t.Errorf("%d of %d heard: %v", heard, rounds, err)
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
}
