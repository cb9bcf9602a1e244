package main

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

func TestRing(t *testing.T) {
	for seed := range uint64(12) {
		ranks := 2 + int(seed)%4
		if err := play(t, seed, ranks, 5000, func(*ring) {}); err != nil {
			t.Errorf("seed %d, %d ranks: %v", seed, ranks, err)
		}
	}
}

// TestRingNotices: a block that is not what its rank should have filled in is
// noticed by all, its own rank and those that it went to.
func TestRingNotices(t *testing.T) {
	err := play(t, 1, 3, 5000, func(r *ring) {
		if r.rank == 1 {
			r.block(1)[4999] ^= 1
		}
	})
	if err == nil {
		t.Error("a wrong block went round and nobody noticed")
	}
}

// play runs a ring in the simulator; spoil may change what a rank has filled in.
func play(t *testing.T, seed uint64, ranks, size int, spoil func(*ring)) error {
	w := sim.New(sim.Options{Seed: seed, Loss: 0.05, MTU: 1500})
	var failed error
	for rank := range ranks {
		name := fmt.Sprint("rank", rank)
		link := w.Station(name)
		w.Go(name, func() {
			err := func() error {
				nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: seed*100 + uint64(rank) + 1})
				if err != nil {
					return err
				}
				defer nic.Close()
				r, err := newRing(nic, "test", rank, ranks, size)
				if err != nil {
					return err
				}
				spoil(r)
				_, _, err = r.run(t.Context())
				return err
			}()
			if err != nil && failed == nil {
				failed = fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	if err := w.Run(); err != nil && failed == nil {
		failed = err
	}
	return failed
}
