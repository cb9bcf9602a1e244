package vipl_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// manySeeds is how many seeds CI runs each simulated survival test under.
const manySeeds = 500

// TestSurvive wants every reliable message exactly once, in order and intact,
// both ways at once, whatever the network does. The seed picks the level.
func TestSurvive(t *testing.T) {
	for _, c := range []struct {
		name string
		opts sim.Options
	}{
		{"Loss30", sim.Options{Loss: 0.3}},
		{"Corruption30", sim.Options{Corrupt: 0.3}},
		{"DuplicationReordering64", sim.Options{Dup: 0.2, Reorder: 0.3, ReorderBy: 64}},
		{"BurstLoss", sim.Options{Burst: sim.Burst{Enter: 0.05, Leave: 0.2, Loss: 0.7}, Jitter: 100 * time.Microsecond}},
		{"SlowShortQueues", sim.Options{Bandwidth: 100e6, Queue: 8, TxSlots: 4, RxSlots: 64}},
		{"Everything", sim.Options{Loss: 0.15, Corrupt: 0.1, Dup: 0.1, Reorder: 0.2, ReorderBy: 64, Jitter: 30 * time.Microsecond, Bandwidth: 1e9, Queue: 64, TxSlots: 16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seeds(t, manySeeds, func(seed uint64) error {
				opts := c.opts
				opts.Seed = seed
				opts.MTU = []int{1500, 400, 9000}[seed%3]
				attr := vipl.Attributes{Reliability: reliableLevels[seed%2], PeerTimeout: time.Minute}
				vis, big := 1+int(seed%4)/3, 0
				if seed%50 == 0 {
					big = 1 << 20
				}
				return converse(opts, attr, vis, 30, big)
			})
		})
	}
}
