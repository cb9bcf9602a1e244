package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestTree sums over trees of several sizes on a simulated segment that loses
// frames.
func TestTree(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 12} {
		w := sim.New(sim.Options{Seed: uint64(size), Loss: 0.02})
		var errs []error
		for rank := range size {
			link := w.Station(fmt.Sprint("host", rank))
			w.Go(fmt.Sprint("rank", rank), func() {
				if err := body(t, link, rank, size); err != nil {
					errs = append(errs, fmt.Errorf("rank %d: %w", rank, err))
				}
			})
		}
		if err := errors.Join(append(errs, w.Run())...); err != nil {
			t.Fatalf("%d ranks: %v", size, err)
		}
	}
}

func body(t *testing.T, link *sim.Station, rank, size int) error {
	nic, err := vipl.Open(&vipl.Config{Link: link, Seed: uint64(rank) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	node, err := endpoint.Open(&endpoint.Config{NIC: nic})
	if err != nil {
		return err
	}
	defer node.Close()
	tr, err := join(t.Context(), node, "test", rank, size)
	if err != nil {
		return err
	}
	if err := rounds(t.Context(), tr, 20); err != nil {
		return err
	}
	return tr.leave(t.Context())
}
