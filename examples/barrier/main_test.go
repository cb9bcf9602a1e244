package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/examples/simjob"
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

// TestTreeOnCards does so on cards of an emulated Myrinet.
func TestTreeOnCards(t *testing.T) {
	const size = 7
	w := sim.New(sim.Options{Seed: 1})
	var errs []error
	for rank, c := range simjob.Cards(t, w, size) {
		w.Go(fmt.Sprint("rank", rank), func() {
			if err := bodyOn(t, &endpoint.Config{Card: c}, rank, size); err != nil {
				errs = append(errs, fmt.Errorf("rank %d: %w", rank, err))
			}
		})
	}
	if err := errors.Join(append(errs, w.Run())...); err != nil {
		t.Fatal(err)
	}
}

func body(t *testing.T, link *sim.Station, rank, size int) error {
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: uint64(rank) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	return bodyOn(t, &endpoint.Config{NIC: nic}, rank, size)
}

func bodyOn(t *testing.T, cfg *endpoint.Config, rank, size int) error {
	node, err := endpoint.Open(t.Context(), cfg)
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
