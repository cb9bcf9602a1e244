package perf

import "context"

// barriers makes as many barriers as rtt has places, and notes the nanoseconds that each
// took. Both halves do.
func barriers(ctx context.Context, now func() int64, barrier func(context.Context) error, rtt []int64) error {
	last := now()
	for i := range rtt {
		if err := barrier(ctx); err != nil {
			return err
		}
		t := now()
		rtt[i] = t - last
		last = t
	}
	return nil
}
