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
	for rank, c := range cards(t, w, size) {
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
