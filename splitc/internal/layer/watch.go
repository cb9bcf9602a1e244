package layer

import (
	"context"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// ErrWaited is wrapped by the error of a wait that has exceeded the program's limit.
var ErrWaited = errclass.New(transport.ErrTimeout, "waited too long")

// Slice is how long a wait lasts before it checks whether to continue.
const Slice = 20 * time.Millisecond

// Watch bounds waits: by the caller's context, by the longest permitted wait, and by the failure of
// a rank. A wait consists of slices, each with its own context, and checks between them whether to
// end. One context serves many waits, so that a wait does not allocate.
type Watch struct {
	nic    *vipl.NIC
	member *job.Member
	limit  time.Duration
	ctx    context.Context
	cancel context.CancelFunc
	until  int64 // end of the slice
	began  int64 // end of the first slice of this wait; 0 before

	renewed  bool // a slice has begun since the last call of Renewed
	observer Observer
}

// Observer is notified of long waits, on the waiting goroutine.
type Observer interface {
	// Sliced is called when a slice begins.
	Sliced()
	// Stalled is called each time that a slice of a wait for a credit of a rank ends, with the
	// start of the wait.
	Stalled(rank int, since int64)
	// Resumed is called at the end of a wait for a credit, if a slice has begun or ended in it.
	Resumed()
}

// NewWatch returns a watch over a rank's waits, with limit as the longest permitted wait.
func NewWatch(nic *vipl.NIC, member *job.Member, limit time.Duration) *Watch {
	return &Watch{nic: nic, member: member, limit: limit}
}

// Tell sets the watch's observer.
func (w *Watch) Tell(o Observer) { w.observer = o }

// Renewed reports whether a slice has begun since its last call.
func (w *Watch) Renewed() bool {
	renewed := w.renewed
	w.renewed = false
	return renewed
}

// Begin starts a wait.
func (w *Watch) Begin() { w.began = 0 }

// Slice returns the context of the current slice.
func (w *Watch) Slice() context.Context {
	if w.Expired() {
		w.End()
		w.until = w.nic.Now() + int64(Slice)
		w.ctx, w.cancel = w.nic.WithTimeout(context.Background(), Slice)
		w.renewed = true
		if w.observer != nil {
			w.observer.Sliced()
		}
	}
	return w.ctx
}

// Expired reports whether the slice has ended.
func (w *Watch) Expired() bool {
	return w.ctx == nil || w.nic.Now() >= w.until || seam.EngineOf(w.nic).Ended(w.ctx) != nil
}

// Check returns why a wait must end: ctx has ended, a rank has failed, or the wait has taken too
// long. It checks once in a slice. ctx is the caller's.
func (w *Watch) Check(ctx context.Context) error {
	if !w.Expired() {
		return nil
	}
	return w.check(ctx)
}

func (w *Watch) check(ctx context.Context) error {
	if err := w.member.Err(); err != nil {
		return err
	}
	return w.late(ctx)
}

// late returns why a wait must end although no rank has failed.
func (w *Watch) late(ctx context.Context) error {
	if err := w.ended(ctx); err != nil {
		return err
	}
	now := w.nic.Now()
	switch {
	case w.began == 0:
		w.began = now
	case time.Duration(now-w.began) > w.limit:
		return fmt.Errorf("%w: longer than WaitTimeout (%v)", ErrWaited, w.limit)
	}
	return nil
}

// ended returns the error of a context that has ended on the NIC's clock.
func (w *Watch) ended(ctx context.Context) error {
	if err := seam.EngineOf(w.nic).Ended(ctx); err != nil {
		return err
	}
	if seam.EngineOf(w.nic).Left(ctx, time.Second) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// End releases the resources of a watch.
func (w *Watch) End() {
	if w.cancel != nil {
		w.cancel()
	}
	w.ctx, w.cancel = nil, nil
}
