package lanai_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/wildhost"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// siege is an honest program and a wild one on one card, and a victim on another, with
// which both have endpoints that talk. The honest one talks all the time.
type siege struct {
	*segment
	cards  [2]*lanai.Card
	victim endpoint.Name
	wild   *party
	done   bool
}

// besiege runs attack, as the wild program, while the others talk.
func besiege(t *testing.T, seed uint64, attack func(s *siege) error) (s *siege, err error) {
	s = &siege{segment: newSegment(t, myrinet.Options{Seed: seed})}
	cfg := lanai.Config{Channels: channels.Config{Timeout: 1_000_000, Tries: 20}}
	s.cards[0], s.cards[1] = s.pair(cfg)
	var errs []error
	process := func(name string, run func() error) {
		s.w.Go(name, func() {
			if err := run(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	process("victim", func() error {
		p, err := newParty(s.cards[0], endpoint.Config{})
		if err != nil {
			return err
		}
		s.victim = p.ep.Name()
		defer p.n.Close()
		return p.serve(&s.done)
	})
	process("honest", func() error {
		defer func() { s.done = true }()
		p, err := newParty(s.cards[1], endpoint.Config{})
		if err != nil {
			return err
		}
		defer p.n.Close()
		if err := p.ep.Map(0, s.victim, tag); err != nil {
			return err
		}
		return p.talk(30)
	})
	process("wild", func() (err error) {
		if s.wild, err = newParty(s.cards[1], endpoint.Config{}); err != nil {
			return err
		}
		defer s.wild.n.Close()
		if err := s.wild.ep.Map(0, s.victim, tag); err != nil {
			return err
		}
		if err := s.wild.talk(1); err != nil {
			return err
		}
		return attack(s)
	})
	return s, errors.Join(s.w.Run(), errors.Join(errs...))
}

// page returns the wild program's frame.
func (s *siege) page() *hardware.Page {
	name := s.wild.ep.Name()
	return lanai.PageOf(s.cards[1], name.Addr.Port, name.ID)
}

// rest lets time pass for the wild program, which polls.
func (s *siege) rest(d time.Duration) error {
	for end := s.w.Now() + int64(d); s.w.Now() < end; {
		ctx, cancel := s.wild.n.WithTimeout(context.Background(), d/10)
		_, err := s.wild.b.WaitPoll(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil
}

// TestScribbledFrame: whatever a program writes into its frame, its own endpoint alone suffers:
// others on the same card talk on, and what makes no sense is counted.
func TestScribbledFrame(t *testing.T) {
	var bad uint64
	seeds.Each(t, 4, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 5))
		s, err := besiege(t, seed, func(s *siege) error {
			for !s.done {
				if page := s.page(); page != nil {
					b := make([]byte, 4*(1+rng.IntN(8)))
					for i := range b {
						b[i] = byte(rng.Uint32() >> rng.IntN(32))
					}
					page.Write(4*rng.IntN((4096-len(b))/4+1), b)
					page.Write(lanai.TakenAt, b[:4])
					page.Write(lanai.PostedAt, b[:4])
					page.Ring()
				}
				if err := s.rest(200 * time.Microsecond); err != nil {
					return err
				}
			}
			return nil
		})
		bad += s.cards[1].Snapshot().Stats.BadEntries
		return err
	})
	if bad == 0 {
		t.Error("no entry of the wild program's made no sense")
	}
}

// TestForgedStations: packets that say to be of more stations than the table of cards holds leave
// room for those that come later.
func TestForgedStations(t *testing.T) {
	s := newSegment(t, myrinet.Options{Seed: 1, Timeout: 100 * time.Microsecond})
	sw := s.f.Switch("x")
	var cards [2]*lanai.Card
	cfg := lanai.Config{Mapper: &myrinet.MapperOptions{Period: 10 * time.Millisecond, Timeout: 200 * time.Microsecond}}
	cards[0], _ = s.card(1, cfg, sw.Port(0))
	var spy lanai.Spy
	number := 0
	w := &wildhost.Host{Hosts: 1, Forge: func(rng *rand.Rand) (uint16, []byte) {
		number++
		return lanai.TypeMessage, spy.Forge(rng, mac(1000+number), mac(1))
	}}
	if err := w.Plug(s.f, sw, 1); err != nil {
		t.Fatal(err)
	}
	s.w.Go("wild", func() {
		if err := w.Run(s.w, 200*time.Millisecond, 20*time.Microsecond); err != nil {
			t.Error(err)
		}
		cards[1], _ = s.card(2, cfg, sw.Port(1))
		var server, client *party
		for i, p := range []**party{&server, &client} {
			var err error
			if *p, err = newParty(cards[i], endpoint.Config{}); err != nil {
				t.Error(err)
				return
			}
			defer (*p).n.Close()
		}
		if err := errors.Join(s.w.Sleep(200*time.Millisecond), client.ep.Map(0, server.ep.Name(), tag)); err != nil {
			t.Error(err)
			return
		}
		done := false
		s.w.Go("server", func() {
			if err := server.serve(&done); err != nil {
				t.Error(err)
			}
		})
		if err := client.talk(5); err != nil || len(client.returned) > 0 {
			t.Errorf("%v; came back: %v", err, client.returned)
		}
		done = true
		_ = s.w.Sleep(time.Second) // the server stops
	})
	if err := s.w.Run(); err != nil {
		t.Fatal(err)
	}
	for i, c := range cards {
		if x := c.Snapshot(); x.Stations != 1 {
			t.Errorf("card %d has routes to %d stations, want 1: %+v", i, x.Stations, x.Stats)
		}
	}
}

// TestForgedEntries: a program that speaks as a driver, to a driver's endpoint, with another tag,
// or names memory that is not its own, is refused by a card, its own or the other one. Of
// connections cards know nothing: who speaks for somebody else's is refused by the other host,
// which the card has told who speaks.
func TestForgedEntries(t *testing.T) {
	message := func(conn uint32, tag wire.Tag) []byte {
		b := make([]byte, 64)
		binary.LittleEndian.PutUint32(b, conn)
		h := wire.Header{Kind: wire.KindShort, Handler: hEcho, Use: 1, Tag: tag}
		return b[:4+h.Put(b[4:])]
	}
	for _, x := range []struct {
		name    string
		forge   func(s *siege, e *lanai.Entry)
		counted func(ours, theirs *lanai.Stats) uint64
	}{
		{"a driver's op", func(_ *siege, e *lanai.Entry) { e.Op, e.Port, e.Endpoint = lanai.OpControl, 0, 0 },
			func(ours, _ *lanai.Stats) uint64 { return min(ours.Privileged, ours.BadEntries) }},
		{"a driver's endpoint", func(_ *siege, e *lanai.Entry) { e.Port, e.Endpoint = 0, 0 },
			func(_, theirs *lanai.Stats) uint64 { return theirs.Privileged }},
		{"another tag", func(_ *siege, e *lanai.Entry) { e.Message = message(1, 78) },
			func(ours, theirs *lanai.Stats) uint64 { return min(ours.Refused, theirs.BadTags) }},
		{"a connection of somebody else", func(s *siege, e *lanai.Entry) {
			own := s.wild.ep.Name().Addr
			e.Message = message(lanai.OthersConn(s.cards[0], s.victim.Addr.Port, own.MAC, own.Port), wire.Tag(tag))
		}, func(_, theirs *lanai.Stats) uint64 { return theirs.Forged }},
		{"another endpoint", func(_ *siege, e *lanai.Entry) { e.Endpoint = 99 },
			func(ours, theirs *lanai.Stats) uint64 {
				return min(ours.Refused, theirs.Nacked[channels.NackNoEndpoint])
			}},
		{"too long", func(_ *siege, e *lanai.Entry) { e.Length = 65 },
			func(ours, _ *lanai.Stats) uint64 { return ours.BadEntries }},
		{"beyond the staging area", func(_ *siege, e *lanai.Entry) { e.Flags, e.Length = 1, 60_000 },
			func(ours, _ *lanai.Stats) uint64 { return ours.BadEntries }},
		{"unknown flags", func(_ *siege, e *lanai.Entry) { e.Flags = 6 },
			func(ours, _ *lanai.Stats) uint64 { return ours.BadEntries }},
		{"no such station", func(_ *siege, e *lanai.Entry) { e.To[5] = 77 },
			func(ours, _ *lanai.Stats) uint64 { return ours.Returned }},
		{"a group", func(_ *siege, e *lanai.Entry) { e.To[0] = 1 },
			func(ours, _ *lanai.Stats) uint64 { return ours.Unroutable }},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, err := besiege(t, 1, func(s *siege) error {
				m := message(1, wire.Tag(tag))
				e := lanai.Entry{Op: lanai.OpMessage, Length: len(m), To: s.victim.Addr.MAC, Port: s.victim.Addr.Port, Endpoint: s.victim.ID, Message: m}
				x.forge(s, &e)
				b, at := e.Bytes(7)
				page := s.page()
				page.Write(at, b)
				var word [4]byte
				page.Read(lanai.PostedAt, word[:])
				word[0] ^= 1 << 7
				page.Write(lanai.PostedAt, word[:])
				page.Ring()
				return s.rest(100 * time.Millisecond)
			})
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := s.cards[1].Snapshot().Stats, s.cards[0].Snapshot().Stats
			if x.counted(&ours, &theirs) == 0 {
				t.Errorf("nothing was counted: %+v\n%+v", ours, theirs)
			}
		})
	}
}
