package splitc_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestAgain: a seed gives a program the same run each time, down to the last frame of its end.
func TestAgain(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		var first sim.Stats
		for k := range 4 {
			p := newProgram(5, sim.Options{Seed: 1, Loss: 0.1, Dup: 0.1, Reorder: 0.1}, splitc.Config{Layer: layer})
			p.start(reduceHeap)
			if err := p.run(); err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				first = p.Stats()
			}
			if p.Stats() != first {
				t.Fatalf("first %+v\nthen %+v", first, p.Stats())
			}
		}
	})
}
