package endpoint

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// sliceContext is a context that ends early, so that a wait for completions
// ends in time for a look at the listener. One is used for wait after wait,
// because waits must not allocate, until something has kept it.
type sliceContext struct {
	context.Context
	nic     *vipl.NIC
	until   int64
	kept    bool            // by AfterFunc: it must not change any more
	virtual context.Context // in its place, under virtual time
	cancel  context.CancelFunc
}

// limit returns ctx, ending in a while, and when.
func (w *viWay) limit(ctx context.Context) (context.Context, int64) {
	now := w.nic.Now()
	if w.slice == nil || w.slice.kept {
		w.slice = &sliceContext{nic: w.nic}
	}
	s := w.slice
	if !w.nic.Link().Info().Virtual {
		s.Context, s.until = ctx, now+waitSlice
		return s, s.until
	}
	if until := now - now%waitSlice + waitSlice; s.Context != ctx || s.until != until {
		if s.cancel != nil {
			s.cancel()
		}
		s.Context, s.until = ctx, until
		s.virtual, s.cancel = w.nic.WithTimeout(ctx, time.Duration(until-now))
	}
	return s.virtual, s.until
}

var never = make(chan struct{})

// Done makes a wait look at Err now and then, as it does for contexts that can
// end, and call AfterFunc before it sleeps for long.
func (s *sliceContext) Done() <-chan struct{} { return never }

// Err tells the end of the context, or of the slice.
func (s *sliceContext) Err() error {
	if err := s.Context.Err(); err != nil {
		return err
	}
	if s.nic.Now() >= s.until {
		return context.DeadlineExceeded
	}
	return nil
}

// AfterFunc is what context.AfterFunc calls: f runs when either has ended.
func (s *sliceContext) AfterFunc(f func()) (stop func() bool) {
	s.kept = true
	timer := time.AfterFunc(time.Duration(s.until-s.nic.Now()), f)
	stopParent := context.AfterFunc(s.Context, f)
	return func() bool {
		early := stopParent()
		return timer.Stop() && early
	}
}
