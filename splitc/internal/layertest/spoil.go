package layertest

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Spoiled runs the suite's programs on four ranks while another goroutine overwrites the memory of
// a layer, which open has returned. It returns the error with which each rank has ended. The test
// fails if a rank does not end by itself.
func Spoiled(t *testing.T, open layer.Open, seed uint64) (ends []error) {
	t.Helper()
	for _, fn := range []func(r *rank) error{transfers, calls, controls, allToOne} {
		err := run(4, sim.Options{Seed: seed, Limit: time.Hour}, open, fn)
		if errors.Is(err, sim.ErrLimit) || errors.Is(err, sim.ErrDeadlock) || errors.Is(err, sim.ErrStanding) {
			t.Fatal(err)
		}
		ends = append(ends, err)
	}
	return ends
}
