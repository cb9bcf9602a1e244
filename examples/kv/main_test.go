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

const (
	clients  = 3
	keysEach = 50
)

// TestStore runs a server and three clients on a simulated segment that loses
// frames.
func TestStore(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1, Loss: 0.02})
	var errs []error
	for rank := range clients + 1 {
		link := w.Station(fmt.Sprint("host", rank))
		w.Go(fmt.Sprint("rank", rank), func() {
			if err := body(t, link, rank); err != nil {
				errs = append(errs, fmt.Errorf("rank %d: %w", rank, err))
			}
		})
	}
	if err := errors.Join(append(errs, w.Run())...); err != nil {
		t.Fatal(err)
	}
}

// TestStoreOnCards does so on cards of an emulated Myrinet.
func TestStoreOnCards(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	var errs []error
	for rank, c := range simjob.Cards(t, w, clients+1) {
		w.Go(fmt.Sprint("rank", rank), func() {
			if err := bodyOn(t, &endpoint.Config{Card: c}, rank); err != nil {
				errs = append(errs, fmt.Errorf("rank %d: %w", rank, err))
			}
		})
	}
	if err := errors.Join(append(errs, w.Run())...); err != nil {
		t.Fatal(err)
	}
}

func body(t *testing.T, link *sim.Station, rank int) error {
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: uint64(rank) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	return bodyOn(t, &endpoint.Config{NIC: nic}, rank)
}

func bodyOn(t *testing.T, cfg *endpoint.Config, rank int) error {
	node, err := endpoint.Open(t.Context(), cfg)
	if err != nil {
		return err
	}
	defer node.Close()
	if rank == 0 {
		keys, err := serve(t.Context(), node, "test", clients)
		if err == nil && keys != clients*keysEach {
			err = fmt.Errorf("the table has %d keys, want %d", keys, clients*keysEach)
		}
		return err
	}
	s, err := dial(t.Context(), node, "test")
	if err != nil {
		return err
	}
	if _, found, err := s.get(t.Context(), "nothing"); found || err != nil {
		return fmt.Errorf("found a key that was never put, %w", err)
	}
	return exercise(t.Context(), s, rank, keysEach)
}
