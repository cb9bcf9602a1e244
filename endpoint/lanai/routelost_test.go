package lanai_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// ask sends request n, and waits for its answer or its return, which is the only one.
func (p *party) ask(ctx context.Context, n int) error {
	before := len(p.got) + len(p.returned)
	if err := p.ep.RequestMedium(ctx, 0, hEcho, make([]byte, n%2*3000), uint32(n)); err != nil {
		return fmt.Errorf("request %d: %w", n, err)
	}
	ended := func() int { return len(p.got) + len(p.returned) - before }
	if err := p.until("its end", func() bool { return ended() > 0 }); err != nil {
		return fmt.Errorf("request %d, %d answered, %d returned: %w", n, len(p.got), len(p.returned), err)
	}
	if ended() > 1 {
		return fmt.Errorf("request %d has ended %d times", n, ended())
	}
	return nil
}

// TestRouteLost: while cards lose their routes for a while, as they do when a mapper has found
// nobody, each request has an end. What a driver had to say to the other while it had no route
// may be lost, that it accepts a connection, refuses it or has ended it, and so may a reply.
func TestRouteLost(t *testing.T) {
	seeds := 100
	if !need.Full() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { loseRoutes(t, uint64(seed)) })
	}
}

func loseRoutes(t *testing.T, seed uint64) {
	s := newSegment(t, myrinet.Options{Seed: seed})
	a, b := s.pair(lanai.Config{})
	rng := rand.New(rand.NewPCG(seed, 1))
	done := false
	s.w.Go("cutter", func() {
		for !done {
			s.w.Sleep(time.Duration(rng.Int64N(400_000)))
			card := []*lanai.Card{a, b}[rng.IntN(2)]
			if err := card.SetRoutes([]myrinet.HostRoute{}); err != nil {
				t.Error(err)
			}
			s.w.Sleep(time.Duration(rng.Int64N(1 << rng.IntN(25))))
			if err := card.SetRoutes([]myrinet.HostRoute{{To: ethertype.Broadcast}}); err != nil {
				t.Error(err)
			}
		}
	})
	converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
		defer func() { done = true }()
		to := p.targets[0]
		for n := range 300 {
			back := len(p.returned)
			if err := p.ask(context.Background(), n); err != nil {
				return err
			}
			if err := s.w.Sleep(100 * time.Microsecond); err != nil {
				return err
			}
			if len(p.returned) > back { // a new connection
				if err := p.ep.Unmap(0); err != nil {
					return err
				}
				if err := p.ep.Map(0, to, tag); err != nil {
					return err
				}
			}
		}
		if len(p.got) == 0 || len(p.returned) == 0 {
			return fmt.Errorf("%d answered, %d returned: want some of each", len(p.got), len(p.returned))
		}
		return nil
	})
}
