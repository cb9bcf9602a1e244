package splitc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// stalledOps is more than there are credits for operations of any kind.
const stalledOps = 2000

// TestShortStalls: over active messages waits for credits that are short, because the others
// answer, count by their time, too.
func TestShortStalls(t *testing.T) {
	check(t, runProgram(2, sim.Options{}, splitc.Config{Layer: "am"}, func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
		if err != nil {
			return err
		}
		if w.MyProc() == 1 {
			return w.StoreSync(bg, 8*stalledOps)
		}
		for range stalledOps {
			if err := splitc.Store(bg, w, a.On(1), 1); err != nil {
				return err
			}
		}
		if err := newSnapshot(w); err != nil {
			return err
		}
		if s := w.Snapshot().Below; s.CreditWaits == 0 || s.CreditTime <= 0 || s.CreditTime > time.Second {
			return fmt.Errorf("%d looks for a credit in vain have taken %v", s.CreditWaits, s.CreditTime)
		}
		return nil
	}))
}

// newSnapshot has a process show itself as it is.
func newSnapshot(w *splitc.World) error {
	for range 64 { // as often as it takes until a snapshot is made
		if err := w.Poll(); err != nil {
			return err
		}
	}
	return nil
}
