package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
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
	for rank, c := range cards(t, w, clients+1) {
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

// cards joins so many cards of an emulated Myrinet by a switch.
func cards(t *testing.T, w *sim.World, n int) (all []*lanai.Card) {
	t.Helper()
	f, err := myrinet.New(w, myrinet.Options{Ports: 16})
	if err != nil {
		t.Fatal(err)
	}
	hub := f.Switch("hub")
	mac := func(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 0, byte(i)} }
	for i := range n {
		cfg := lanai.Config{MAC: mac(i), Seed: uint64(i + 1)}
		for k := range n {
			if k != i {
				cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(k), Turns: myrinet.Route{int8(k - i)}})
			}
		}
		var port *myrinet.Port
		c, err := lanai.NewVirtual(myrinet.Virtual{World: w, Waiter: func() myrinet.Waiter { return w.Waiter() }}, func(h myrinet.Host) *myrinet.Port {
			port = f.Host(fmt.Sprint("host", i), h)
			return port
		}, &cfg)
		if err == nil {
			_, err = f.Join(port, hub.Port(i))
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
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
