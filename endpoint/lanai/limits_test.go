package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// TestOverrun: an endpoint that nobody polls has room for what four senders may have under way
// (VNT, 4.2.2); what a fifth one sends is refused and counted, and is there when it is polled again.
func TestOverrun(t *testing.T) {
	for _, senders := range []int{4, 5} {
		t.Run(fmt.Sprint(senders, " senders"), func(t *testing.T) {
			s := newSegment(t, myrinet.Options{})
			x := overrun{segment: s}
			x.cards[0], x.cards[1] = s.pair(lanai.Config{Channels: channels.Config{Timeout: 1_000_000, Channels: 32}, Card: myrinet.CardConfig{SRAM: 1 << 20}})
			for i, run := range []func() error{x.serve, func() error { return x.flood(senders) }} {
				s.w.Go(fmt.Sprint("host ", i), func() {
					if err := run(); err != nil {
						t.Errorf("host %d: %v", i, err)
					}
				})
			}
			if err := s.w.Run(); err != nil {
				t.Fatal(err)
			}
			if overran := x.refused > 0; overran != (senders > 4) {
				t.Errorf("%d packets were refused because the queue was full", x.refused)
			}
		})
	}
}

// overrun is a server that polls, does not for a while, and does again.
type overrun struct {
	*segment
	cards   [2]*lanai.Card
	name    []endpoint.Name
	ready   bool // all clients have spoken with the server
	posted  bool // all that they may send has been sent
	done    bool
	refused uint64
}

func (x *overrun) serve() error {
	p, err := newParty(x.cards[0], endpoint.Config{})
	if err != nil {
		return err
	}
	defer p.n.Close()
	x.name = append(x.name, p.ep.Name())
	if err := p.serve(&x.ready); err != nil {
		return err
	}
	for !x.posted {
		if err := x.w.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return p.serve(&x.done)
}

// flood has each of so many endpoints send as much as it may.
func (x *overrun) flood(senders int) error {
	defer func() { x.ready, x.posted, x.done = true, true, true }()
	p, err := newParty(x.cards[1], endpoint.Config{})
	if err != nil {
		return err
	}
	defer p.n.Close()
	eps := []*endpoint.Endpoint{p.ep}
	for len(eps) < senders {
		ep, err := p.newEndpoint()
		if err != nil {
			return err
		}
		eps = append(eps, ep)
	}
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, ep := range eps {
		if err := errors.Join(ep.Map(0, x.name[0], tag), ep.Request(ctx, 0, hEcho, 1)); err != nil {
			return err
		}
	}
	if err := p.until("the first answers", func() bool { return len(p.got) == senders }); err != nil {
		return err
	}
	x.ready = true
	if err := x.w.Sleep(50 * time.Millisecond); err != nil { // the server has gone to sleep
		return err
	}
	sent := 0
	for _, ep := range eps {
		for err = error(nil); err == nil; sent++ {
			err = ep.RequestBulkAsync(0, hEcho, nil, 0)
		}
		if sent--; !errors.Is(err, endpoint.ErrInUse) {
			return err
		}
	}
	if sent != 4*senders {
		return fmt.Errorf("%d requests are under way, want %d", sent, 4*senders)
	}
	if err := x.w.Sleep(50 * time.Millisecond); err != nil {
		return err
	}
	x.refused = x.cards[0].Snapshot().Stats.Nacked[channels.NackOverrun]
	x.posted = true
	return p.until("all answers", func() bool { return len(p.got) == senders+sent })
}

// TestUnpinned: a message for a staging area that is not pinned is refused and counted, has it
// pinned, and gets there; with room for one area those of endpoints that are away are given up.
func TestUnpinned(t *testing.T) {
	const endpoints, rounds = 12, 2
	s := newSegment(t, myrinet.Options{})
	var cards [2]*lanai.Card
	cards[0], cards[1] = s.pair(lanai.Config{Pinned: lanai.StagingSize, Channels: channels.Config{Timeout: 1_000_000}})
	converseWith(t, s.w, cards, endpoints, func(p *party) error {
		ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for dest := 1; dest < endpoints; dest++ {
			if err := p.ep.Map(dest, p.targets[dest], tag); err != nil {
				return err
			}
		}
		for n := range rounds * endpoints {
			dest := n % endpoints
			p.got = nil
			data := bytes.Repeat([]byte{byte(n)}, 2000)
			if err := p.ep.RequestMedium(ctx, dest, hEcho, data, uint32(n)); err != nil {
				return err
			}
			if err := p.until("an answer", func() bool { return len(p.got) == 1 }); err != nil {
				return err
			}
			if want := fmt.Sprintf("[%d] %s", n, data); p.got[0] != want {
				return fmt.Errorf("message %d came back as %.40q", n, p.got[0])
			}
		}
		if x := cards[0].Snapshot(); x.Stats.Nacked[channels.NackMemory] < rounds*endpoints-lanai.DefaultFrames || x.Pinned > (lanai.DefaultFrames-1)*lanai.StagingSize {
			return fmt.Errorf("%d bytes are pinned: %+v", x.Pinned, x.Stats)
		}
		return nil
	})
}

// TestReturningAway: a message that is to come back, and finds no room, comes back once, also if its endpoint
// leaves its frame before: it is not sent again.
func TestReturningAway(t *testing.T) {
	const messages = 17 // one more than the reply queue takes
	s := newSegment(t, myrinet.Options{})
	a, b := s.pair(lanai.Config{Frames: 2, Channels: channels.Config{Timeout: 1_000_000}})
	converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
		if err := p.talk(1); err != nil {
			return err
		}
		name := p.ep.Name()
		page := lanai.PageOf(b, name.Addr.Port, name.ID)
		if page == nil {
			return errors.New("the endpoint is in no frame")
		}
		for n := range messages { // to a group: there is no route
			x := lanai.Entry{Op: lanai.OpMessage, Length: 4, To: ethertype.MAC{1, 0, 0, 0, 0, 9}, Message: make([]byte, 4)}
			head, at := x.Bytes(n % 8)
			var posted [4]byte
			page.Write(at, head)
			page.Read(lanai.PostedAt, posted[:])
			posted[0] ^= 1 << (n % 8)
			page.Write(lanai.PostedAt, posted[:])
			page.Ring()
			if err := s.w.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		other, err := newParty(b, endpoint.Config{})
		if err != nil {
			return err
		}
		defer other.n.Close()
		if err := errors.Join(other.ep.Map(0, p.targets[0], tag), other.talk(1)); err != nil {
			return err
		}
		away := b.Snapshot().Stats.Unloads
		for page = nil; page == nil; page = lanai.PageOf(b, name.Addr.Port, name.ID) {
			if err := s.w.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		if n := b.Snapshot().Stats.Unroutable; away == 0 || n != messages {
			return fmt.Errorf("%d endpoints have left a frame, %d messages had no route, want some, and %d", away, n, messages)
		}
		for range 3 {
			if _, err := p.b.Poll(); err != nil {
				return err
			}
			if err := s.w.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		var posted, done [4]byte
		page.Read(lanai.PostedAt, posted[:])
		page.Read(lanai.DoneAt, done[:])
		if posted != done || b.Snapshot().Stats.Unroutable != messages {
			return fmt.Errorf("posted % x, done % x: not all has come back, once: %+v", posted, done, b.Snapshot().Stats)
		}
		return nil
	})
}

// TestSuspends: a message for an endpoint that is in no frame is kept by the host, or its program waits.
func TestSuspends(t *testing.T) {
	for _, suspend := range []bool{false, true} {
		s := newSegment(t, myrinet.Options{})
		a, b := s.pair(lanai.Config{Frames: 2, Suspend: suspend})
		converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
			ep, err := p.newEndpoint()
			if err == nil {
				err = ep.Map(0, p.targets[0], tag)
			}
			if err != nil {
				return err
			}
			for n := range 4 {
				from := []*endpoint.Endpoint{p.ep, ep}[n%2]
				if n < 2 { // makes a connection
					if err := from.Request(t.Context(), 0, hEcho, 1); err != nil {
						return err
					}
				} else {
					err := from.RequestBulkAsync(0, hEcho, nil, 0)
					if queued := b.Snapshot().Queued; errors.Is(err, endpoint.ErrInUse) != suspend || err != nil && !suspend || (queued == 0) != suspend {
						return fmt.Errorf("suspend %v: %v, %d messages wait", suspend, err, queued)
					}
					if suspend {
						if err := from.Request(t.Context(), 0, hEcho, 1); err != nil {
							return err
						}
					}
				}
				if err := p.until("an answer", func() bool { return len(p.got) == n+1 }); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
