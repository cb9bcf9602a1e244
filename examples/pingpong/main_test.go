package main

import (
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

func TestPingPong(t *testing.T) {
	*count, *size = 50, 3000
	for seed := range uint64(20) {
		play(t, seed)
	}
}

// play runs both sides in the simulator.
func play(t *testing.T, seed uint64) {
	w := sim.New(sim.Options{Seed: seed, Loss: 0.05, MTU: 1500})
	for i, side := range []func(*vipl.NIC, *end) error{
		func(nic *vipl.NIC, e *end) error { return client(t.Context(), nic, e, "test") },
		func(nic *vipl.NIC, e *end) error { return server(t.Context(), nic, e, "test") },
	} {
		name := []string{"client", "server"}[i]
		link := w.Station(name)
		w.Go(name, func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 2*seed + uint64(i) + 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			e, err := newEnd(nic)
			if err != nil {
				t.Error(err)
				return
			}
			if err := side(nic, e); err != nil {
				t.Errorf("seed %d, %s: %v", seed, name, err)
			}
		})
	}
	if err := w.Run(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}
