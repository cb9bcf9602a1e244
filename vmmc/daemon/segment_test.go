package daemon

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// TestSegment: in virtual time, on a network that loses 30 % of the frames, a daemon
// answers what the other one asks again and again, its successor after it was killed, too;
// and takes no report from a node about another one.
func TestSegment(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		w := sim.New(sim.Options{Seed: seed, Loss: 0.3, Reorder: 0.2, Limit: 10 * time.Minute})
		s := &segmentWorld{World: w, ticket: provider.Ticket{9}}
		first, second := w.Station("first"), w.Station("first again")
		s.asked = ethertype.MAC(first.MAC())
		w.Go("first", func() { s.serve(first, func() bool { return s.known == 1 }) })
		w.Go("first again", func() {
			for !s.killed && s.err == nil {
				s.keep(w.Sleep(time.Millisecond))
			}
			s.asked = second.MAC()
			s.serve(second, func() bool { return s.known == 2 })
		})
		w.Go("asker", func() { s.ask(w.Station("asker")) })
		if err := w.Run(); err != nil || s.err != nil {
			return errors.Join(err, s.err)
		}
		if s.known != 2 || s.deaths == 0 {
			return fmt.Errorf("%d answers, %d deaths", s.known, s.deaths)
		}
		return nil
	})
}

type segmentWorld struct {
	*sim.World
	ticket provider.Ticket
	asked  ethertype.MAC // the node that is asked
	known  int
	deaths int
	killed bool
	over   bool
	err    error
}

func (s *segmentWorld) keep(err error) {
	if s.err == nil {
		s.err = err
	}
}

// serve is a daemon until it is killed.
func (s *segmentWorld) serve(station *sim.Station, done func() bool) {
	seg, err := s.open(station)
	if err != nil {
		s.keep(err)
		return
	}
	seg.answer = func(_ ethertype.MAC, q *question) (uint32, bool) {
		if q.what == died {
			s.deaths++
			return 0, true
		}
		return 7, q.ticket == s.ticket
	}
	for !done() && s.err == nil && !s.over {
		ctx, cancel := seg.nic.WithTimeout(context.Background(), 100*time.Millisecond)
		r, err := seg.listener.Wait(ctx)
		cancel()
		if err == nil {
			seg.reply(context.Background(), r)
		}
	}
	if s.Kill(station); !s.killed {
		s.killed = true
	}
}

func (s *segmentWorld) open(station *sim.Station) (*segment, error) {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(station.MAC()[5])})
	if err != nil {
		return nil, err
	}
	seg, err := newSegment(nic)
	if err == nil {
		seg.sleep = func(d time.Duration) error { return s.Sleep(d) }
	}
	return seg, err
}

// ask asks both of them, until each has said what it knows.
func (s *segmentWorld) ask(station *sim.Station) {
	defer func() { s.over = true }()
	seg, err := s.open(station)
	if err != nil {
		s.keep(err)
		return
	}
	ask := func(q *question) (uid uint32, known bool, err error) {
		return seg.ask(context.Background(), s.asked, q)
	}
	for round := range 2 {
		for s.killed != (round == 1) || round == 1 && s.asked == (ethertype.MAC{}) {
			s.keep(s.Sleep(time.Millisecond))
		}
		if _, known, err := ask(&question{what: whose, who: provider.Identity{Addr: ethertype.Addr{MAC: s.asked}}}); known {
			s.keep(fmt.Errorf("a ticket of zeros is known, %v", err))
		}
		heard := s.deaths
		for tries := 0; s.deaths == heard && tries < 50; tries++ {
			_, _, _ = ask(&question{what: died, who: provider.Identity{Addr: ethertype.Addr{MAC: station.MAC()}}})
		}
		if _, _, err := ask(&question{what: died, who: provider.Identity{Addr: ethertype.Addr{MAC: s.asked}}}); err == nil {
			s.keep(errors.New("a node reports the death of another one's process"))
		}
		uid := uint32(0)
		if !seg.persist(askTime, func() (known bool) {
			uid, known, _ = ask(&question{what: whose, who: provider.Identity{Addr: ethertype.Addr{MAC: s.asked}}, ticket: s.ticket})
			return known
		}) || uid != 7 {
			s.keep(fmt.Errorf("round %d: the ticket is not proven, user %d", round, uid))
			return
		}
		s.known++
	}
}
