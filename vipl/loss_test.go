package vipl_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// lossyGoodput sends a message of size bytes over a 10 Gb/s segment that loses
// a share of the frames without need, and returns the goodput as a share of the
// line.
func lossyGoodput(seed uint64, loss float64, size int) (goodput float64, err error) {
	const line = 10e9
	opts := sim.Options{Seed: seed, MTU: 1500, Bandwidth: line, Jitter: 2 * time.Microsecond, Loss: loss}
	in := &inbox{count: 1, size: size, seed: seed}
	var begin, end int64
	err = pair(opts, nil, func(v *vipl.VI) error {
		driveFor(v.NIC(), time.Second) // the client may not know yet that it is connected
		begin = v.NIC().Now()
		return sendAll(v, 1, size, seed)
	}, in.post, func(v *vipl.VI) error {
		err := in.receive(v)
		end = v.NIC().Now()
		driveFor(v.NIC(), time.Second) // the last acknowledgement may be lost
		return err
	})
	return float64(size) * 8 / line * 1e9 / float64(end-begin), err
}

// TestGoodputUnderLoss wants most of the line for a stream over the whole
// stack when frames are lost that no queue was too full for.
func TestGoodputUnderLoss(t *testing.T) {
	const seeds, size = 3, 4 << 20
	for _, c := range []struct{ loss, least float64 }{{0, .9}, {.01, .8}, {.02, .7}, {.05, .55}} {
		t.Run(fmt.Sprint(c.loss), func(t *testing.T) {
			mean := 0.0
			for seed := range uint64(seeds) {
				goodput, err := lossyGoodput(seed+1, c.loss, size)
				if err != nil {
					t.Fatalf("seed %d: %v", seed+1, err)
				}
				mean += goodput / seeds
			}
			t.Logf("%.3f of the line", mean)
			if mean < c.least {
				t.Errorf("%.3f of the line, want %v", mean, c.least)
			}
		})
	}
}
