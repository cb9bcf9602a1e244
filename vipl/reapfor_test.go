package vipl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestReapWaitFor: its time and the context's are told apart, whichever is first.
func TestReapWaitFor(t *testing.T) {
	w := sim.New(sim.Options{})
	station := w.Station("waits")
	w.Go("waits", func() {
		nic, err := vipl.Open(&vipl.Config{Link: station})
		if err != nil {
			t.Error(err)
			return
		}
		defer nic.Close()
		cq, err := nic.CreateCQ(4)
		if err != nil {
			t.Error(err)
			return
		}
		out := make([]vipl.Completion, 1)
		for _, tc := range []struct{ limit, context, want time.Duration }{
			{50 * time.Millisecond, 0, 50 * time.Millisecond},
			{50 * time.Millisecond, time.Second, 50 * time.Millisecond},
			{50 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},
			{0, 10 * time.Millisecond, 10 * time.Millisecond},
		} {
			ctx, cancel := bg, func() {}
			if tc.context > 0 {
				ctx, cancel = nic.WithTimeout(bg, tc.context)
			}
			began := w.Now()
			n, err := cq.ReapWaitFor(ctx, tc.limit, out)
			cancel()
			if took := time.Duration(w.Now() - began); n != 0 || took != tc.want || errors.Is(err, vipl.ErrTimeout) != (tc.want == tc.context) {
				t.Errorf("%+v: %d, %v after %v", tc, n, err, took)
			}
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
