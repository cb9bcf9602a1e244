package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

const tag endpoint.Tag = 77

// The handlers of these tests.
const (
	hEcho = 1 + iota // answers with what it got
	hBack            // its answer
	hPlace
	hPlaced
)

// party is a node on a card, with a bundle and an endpoint.
type party struct {
	n        *endpoint.Node
	b        *endpoint.Bundle
	ep       *endpoint.Endpoint
	got      []string // answers
	placed   int
	returned []endpoint.Reason
	targets  []endpoint.Name // endpoints of the server
}

func newParty(c *lanai.Card, cfg endpoint.Config) (*party, error) {
	cfg.Card = c
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	n, err := endpoint.Open(context.Background(), &cfg)
	if err != nil {
		return nil, err
	}
	p := &party{n: n}
	if p.b, err = n.NewBundle(endpoint.Sequential); err != nil {
		return nil, err
	}
	p.ep, err = p.newEndpoint()
	return p, err
}

// newEndpoint adds an endpoint that echoes.
func (p *party) newEndpoint() (*endpoint.Endpoint, error) {
	ep, err := p.b.NewEndpoint()
	if err != nil {
		return nil, err
	}
	ep.SetTag(tag)
	ep.SetSegment(make([]byte, 1<<16))
	ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
		if len(data) == 0 {
			t.Reply(hBack, args...)
			return
		}
		t.ReplyMedium(hBack, data, args...)
	})
	ep.SetHandler(hBack, func(_ endpoint.Token, args []uint32, data []byte) {
		p.got = append(p.got, fmt.Sprint(args, " ", string(data)))
	})
	ep.SetHandler(hPlace, func(t endpoint.Token, _ []uint32, data []byte) {
		t.ReplyBulk(hPlaced, data, 0)
	})
	ep.SetHandler(hPlaced, func(endpoint.Token, []uint32, []byte) { p.placed++ })
	ep.SetReturnHandler(func(r *endpoint.Returned) { p.returned = append(p.returned, r.Reason) })
	return ep, nil
}

// until polls until something is so, for a minute of the node's time.
func (p *party) until(what string, so func() bool) error {
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !so() {
		if _, err := p.b.WaitPoll(ctx); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
	return nil
}

// serve polls until done.
func (p *party) serve(done *bool) error {
	for !*done {
		ctx, cancel := p.n.WithTimeout(context.Background(), 10*time.Millisecond)
		_, err := p.b.WaitPoll(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil
}

// talk has a client say things of all sizes to a server that echoes.
func (p *party) talk(rounds int) error {
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range rounds {
		p.got, p.placed = nil, 0
		if err := p.ep.Request(ctx, 0, hEcho, uint32(i), 2, 3, 4); err != nil {
			return err
		}
		if err := p.until("a short answer", func() bool { return len(p.got) == 1 }); err != nil {
			return err
		}
		long := bytes.Repeat([]byte{'a' + byte(i%26)}, 3000)
		if err := p.ep.RequestMedium(ctx, 0, hEcho, long, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16); err != nil {
			return err
		}
		if err := p.until("a medium answer", func() bool { return len(p.got) == 2 }); err != nil {
			return err
		}
		want := []string{fmt.Sprintf("[%d 2 3 4] ", i), "[1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16] " + string(long)}
		if p.got[0] != want[0] || p.got[1] != want[1] {
			return fmt.Errorf("round %d: got %.60q", i, p.got)
		}
		bulk := bytes.Repeat([]byte{'A' + byte(i%26)}, 50_000)
		if err := p.ep.RequestBulk(ctx, 0, hPlace, bulk, 7); err != nil {
			return err
		}
		if err := p.until("bulk data", func() bool { return p.placed == 1 }); err != nil {
			return err
		}
		if seg := p.ep.Segment(); !bytes.Equal(seg[:len(bulk)], bulk) {
			return fmt.Errorf("round %d: the segment is not what was sent", i)
		}
	}
	if len(p.returned) > 0 {
		return fmt.Errorf("messages came back: %v", p.returned)
	}
	return nil
}

// converse runs a server and a client as processes of a world.
func converse(t *testing.T, w *sim.World, cards [2]*lanai.Card, client func(p *party) error) {
	t.Helper()
	converseWith(t, w, cards, 1, client)
}

// converseWith is converse with a server that has so many endpoints, the first of which the
// client has mapped.
func converseWith(t *testing.T, w *sim.World, cards [2]*lanai.Card, n int, client func(p *party) error) {
	t.Helper()
	done := false
	var names []endpoint.Name
	w.Go("server", func() {
		p, err := newParty(cards[0], endpoint.Config{})
		if err == nil {
			names = append(names, p.ep.Name())
			for err == nil && len(names) < n {
				var ep *endpoint.Endpoint
				if ep, err = p.newEndpoint(); err == nil {
					names = append(names, ep.Name())
				}
			}
			err = errors.Join(err, p.serve(&done))
			p.n.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	w.Go("client", func() {
		defer func() { done = true }()
		p, err := newParty(cards[1], endpoint.Config{})
		if err == nil {
			p.targets = names
			if err = p.ep.Map(0, names[0], tag); err == nil {
				err = client(p)
			}
			p.n.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestTalk: requests, replies and bulk data pass between two cards, in virtual time and over
// a live cable.
func TestTalk(t *testing.T) {
	for name, cfg := range map[string]lanai.Config{
		"default": {},
		"SBus":    {Card: myrinet.CardConfig{Timing: myrinet.SBusTiming()}},
		"GAM":     {Unreliable: true, Unprotected: true, Unnamed: true, Pipelined: true, Spin: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSegment(t, myrinet.Options{})
			a, b := s.pair(cfg)
			converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error { return p.talk(20) })
			for _, c := range []*lanai.Card{a, b} {
				if st := c.Snapshot().Stats; st.Malformed+st.Forged+st.BadEntries+st.BadTags > 0 || st.Delivered == 0 {
					t.Errorf("%+v", st)
				}
			}
		})
	}
	t.Run("live", func(t *testing.T) {
		w, cards := liveCards(t)
		converse(t, w, cards, func(p *party) error { return p.talk(20) })
	})
}

// liveCards are two live cards, joined by a cable of stations in virtual time.
func liveCards(t *testing.T) (w *sim.World, cards [2]*lanai.Card) {
	t.Helper()
	w = sim.New(sim.Options{})
	for i := range cards {
		station := w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
		c, err := lanai.Join(station, &lanai.Config{Seed: uint64(i + 1), Cable: myrinet.LiveOptions{Seed: uint64(i + 1)}})
		if err != nil {
			t.Fatal(err)
		}
		cards[i] = c
	}
	return w, cards
}

// TestTalkVeth: so they do over a cable between two network namespaces.
func TestTalkVeth(t *testing.T) {
	veth := vethtest.New(t, 1500)
	cards := [2]*lanai.Card{openVeth(t, veth, 0), openVeth(t, veth, 1)}
	server, err := newParty(cards[0], endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.ep.Publish("talk"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	served := make(chan error, 1)
	go func() {
		for {
			if _, err := server.b.WaitPoll(ctx); err != nil {
				served <- err
				return
			}
		}
	}()
	client, err := newParty(cards[1], endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	name, err := client.n.Find(ctx, "talk")
	if err == nil {
		if err = client.ep.Map(0, name, tag); err == nil {
			err = client.talk(50)
		}
	}
	if err != nil {
		t.Error(err)
	}
	client.n.Close()
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	server.n.Close()
}

// TestStream: medium messages in a stream, and their answers, are what was sent, also where an
// entry is the host's again at once: without channels that is when its message has been fetched,
// which takes the DMA engine its time.
func TestStream(t *testing.T) {
	for name, cfg := range map[string]lanai.Config{"channels": {}, "GAM": {Unreliable: true, Unprotected: true, Pipelined: true}} {
		for _, spin := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, spin %v", name, spin), func(t *testing.T) {
				cfg.Spin = spin
				cfg.Card.Timing = myrinet.SBusTiming()
				s := newSegment(t, myrinet.Options{})
				a, b := s.pair(cfg)
				converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error { return p.stream(200) })
			})
		}
	}
}

// stream has many medium messages of all lengths answered, as many under way as there may be.
func (p *party) stream(n int) error {
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	size := func(i int) int { return 1 + i*397%endpoint.DefaultMaxMedium }
	for i := range n {
		if err := p.ep.RequestMedium(ctx, 0, hEcho, bytes.Repeat([]byte{byte(i)}, size(i)), uint32(i)); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	if err := p.until("all answers", func() bool { return len(p.got) == n }); err != nil {
		return fmt.Errorf("%d answers: %w", len(p.got), err)
	}
	answers := map[string]bool{}
	for _, got := range p.got {
		answers[got] = true
	}
	for i := range n {
		if want := fmt.Sprintf("[%d] %s", i, bytes.Repeat([]byte{byte(i)}, size(i))); !answers[want] {
			return fmt.Errorf("there is no answer to message %d of %d bytes as it was sent", i, size(i))
		}
	}
	return nil
}
