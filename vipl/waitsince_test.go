package vipl_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// withQueue runs fn, as a process of a simulated world, with a completion queue.
func withQueue(t *testing.T, fn func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ)) {
	t.Helper()
	w := sim.New(sim.Options{})
	station := w.Station("waits")
	w.Go("waits", func() {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: station})
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
		fn(w, nic, cq)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestWaitSinceLimit: its time and the context's are told apart, whichever is first.
func TestWaitSinceLimit(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		q := seam.OnQueue(cq, 1)
		q.Reap()
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
			want := vipl.ErrNotDone
			if tc.want == tc.context {
				want = vipl.ErrTimeout
			}
			began := w.Now()
			err := q.WaitSince(ctx, tc.limit, q.Seen())
			cancel()
			if took := time.Duration(w.Now() - began); took != tc.want || !errors.Is(err, want) {
				t.Errorf("%+v: %v after %v", tc, err, took)
			}
		}
	})
}

// TestWaitSinceLooks: what has come, or been said by Wake, since the look that seen is
// of ends a wait at once; so do entries that were left, and the queue's end.
func TestWaitSinceLooks(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		vi, err := nic.CreateVI(nil, cq, nil)
		if err != nil {
			t.Error(err)
			return
		}
		var descs [3]vipl.Descriptor
		q := seam.OnQueue(cq, 1)
		began := w.Now()
		q.Reap()
		for i := range descs {
			if err := vi.PostSend(&descs[i]); err != nil { // it completes at once, flushed: the VI is idle
				t.Error(err)
			}
		}
		for range descs {
			if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
				t.Errorf("wait with an entry: %v", err)
			}
			if n := len(q.Reap()); n != 1 {
				t.Errorf("reaped %d", n)
			}
		}
		q.Wake()
		if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
			t.Errorf("wait after Wake: %v", err)
		}
		for i := range descs {
			if err := vi.PostSend(&descs[i]); err != nil {
				t.Error(err)
			}
		}
		q.Reap()
		seam.OnQueue(cq, len(descs)).Reap() // by another goroutine
		if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
			t.Errorf("wait after entries that were left: %v", err)
		}
		vi.Close()
		q.Reap()
		if err := cq.Close(); err != nil {
			t.Error(err)
		}
		q.WaitSince(bg, 0, q.Seen()) // the end counts as something new
		q.Reap()
		if err := q.WaitSince(bg, 0, q.Seen()); !errors.Is(err, vipl.ErrClosed) {
			t.Errorf("wait at a closed queue: %v", err)
		}
		if took := w.Now() - began; took != 0 {
			t.Errorf("that took %v", time.Duration(took))
		}
	})
}

// TestWaitSinceShared: goroutines that wait under one lock each get on when what they
// wait for is done, whoever has taken the completion, or when another one does it.
func TestWaitSinceShared(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		const waiters = 4
		vi, err := nic.CreateVI(nil, cq, nil)
		if err != nil {
			t.Error(err)
			return
		}
		var mu sync.Mutex
		q := seam.OnQueue(cq, 2)
		var done [waiters + 1]bool
		var order []int
		for i := range done {
			w.Go(fmt.Sprint("waiter ", i), func() {
				mu.Lock()
				defer mu.Unlock()
				for !done[i] {
					looked := q.Seen()
					mu.Unlock()
					err := q.WaitSince(bg, 0, looked)
					mu.Lock()
					if err != nil {
						t.Errorf("waiter %d: %v", i, err)
						return
					}
					for _, c := range q.Reap() {
						done[c.Descriptor.Context.(int)] = true
					}
				}
				order = append(order, i)
			})
		}
		w.Sleep(time.Millisecond)
		for _, i := range []int{2, 0, 3, 1} {
			if err := vi.PostSend(&vipl.Descriptor{Context: i}); err != nil {
				t.Error(err)
			}
			w.Sleep(time.Millisecond)
		}
		mu.Lock()
		done[waiters] = true
		mu.Unlock()
		q.Wake()
		w.Sleep(time.Millisecond)
		if want := []int{2, 0, 3, 1, waiters}; !slices.Equal(order, want) {
			t.Errorf("they get on in the order %v, want %v", order, want)
		}
	})
}
