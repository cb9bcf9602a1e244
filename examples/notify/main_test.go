package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNotify runs a server and three clients in the simulator.
func TestNotify(t *testing.T) {
	for seed := range uint64(20) {
		play(t, seed)
	}
}

func play(t *testing.T, seed uint64) {
	const clients, numbers = 3, 100
	var out strings.Builder
	w := sim.New(sim.Options{Seed: seed, Loss: 0.05, Dup: 0.02})
	for rank := range clients + 1 {
		link := w.Station(fmt.Sprint("host", rank))
		w.Go(fmt.Sprint("rank", rank), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 100*seed + uint64(rank) + 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			if rank == 0 {
				err = serve(t.Context(), nic, "test", clients, &out)
			} else {
				var sum uint64
				sum, err = send(t.Context(), nic, "test", rank, numbers)
				if want := uint64(rank * numbers * (numbers + 1) / 2); err == nil && sum != want {
					err = fmt.Errorf("the sum is %d, want %d", sum, want)
				}
			}
			if err != nil {
				t.Errorf("seed %d, rank %d: %v", seed, rank, err)
			}
		})
	}
	if err := w.Run(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for rank := 1; rank <= clients; rank++ {
		want := fmt.Sprintf(": %d numbers, their sum is %d\n", numbers, rank*numbers*(numbers+1)/2)
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("seed %d: the server has not said %q:\n%s", seed, want, out.String())
		}
	}
}
