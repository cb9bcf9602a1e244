package lanai_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// TestAgain: what happens in virtual time is the same each time, also in what a card asks several
// programs about at once: whether they live.
func TestAgain(t *testing.T) {
	first := askers(t)
	for range 2 {
		if again := askers(t); again != first {
			t.Fatalf("first %s\nthen %s", first, again)
		}
	}
}

// askers has seven nodes ask another one until it has inquired some times whether they live, and
// returns how many answers each has got, and a sum that depends on when.
func askers(t *testing.T) string {
	t.Helper()
	const clients = 7
	cfg := endpoint.Config{PeerTimeout: 20 * time.Millisecond}
	s := newSegment(t, myrinet.Options{})
	sw := s.f.Switch("x")
	var cards []*lanai.Card
	for i := range 1 + clients {
		cfg := lanai.Config{Card: myrinet.CardConfig{Timing: myrinet.SBusTiming()}}
		for k := range 1 + clients {
			if k != i {
				cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(k), Turns: myrinet.Route{int8(k - i)}})
			}
		}
		c, port := s.card(i, cfg, nil)
		s.join(port, sw.Port(i))
		cards = append(cards, c)
	}
	var server endpoint.Name
	var errs [1 + clients]error
	var answers [clients]int
	var when [clients]uint64
	left, done := clients, false
	s.w.Go("server", func() {
		p, err := newParty(cards[0], cfg)
		if err == nil {
			server = p.ep.Name()
			err = errors.Join(p.serve(&done), p.n.Close())
		}
		errs[clients] = err
	})
	for i := range clients {
		s.w.Go(fmt.Sprint("client ", i), func() {
			for server == (endpoint.Name{}) && errs[clients] == nil {
				s.w.Sleep(time.Microsecond)
			}
			p, err := newParty(cards[1+i], cfg)
			if err == nil {
				err = p.ep.Map(0, server, tag)
			}
			for end := s.w.Now() + int64(60*time.Millisecond); err == nil && s.w.Now() < end; {
				if err = p.ep.Request(t.Context(), 0, hEcho, 1); err == nil {
					answers[i]++
					err = p.until("an answer", func() bool { return len(p.got) == answers[i] })
					when[i] = 31*when[i] + uint64(s.w.Now())
				}
			}
			if left--; left == 0 {
				done = true
			}
			if p != nil {
				err = errors.Join(err, p.n.Close())
			}
			errs[i] = err
		})
	}
	if err := errors.Join(s.w.Run(), errors.Join(errs[:]...)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(answers, when)
}
