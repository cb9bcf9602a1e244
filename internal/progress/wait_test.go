package progress

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// await waits until mailbox i has got n, and returns the wait's error.
func (c *counter) await(ctx context.Context, i, n int) error {
	c.e.Lock()
	defer c.e.Unlock()
	w := c.e.Begin(ctx)
	defer c.e.End(&w)
	for c.boxes[i].count < n {
		if err := c.e.Wait(&w, &c.boxes[i].gate); err != nil {
			return err
		}
	}
	return nil
}

// TestFollowersUnderVirtualTime: several goroutines of one node wait for different
// things; each returns when its own has come, in the order of the frames, and whoever
// leads hands over when it leaves.
func TestFollowersUnderVirtualTime(t *testing.T) {
	w, c, peer := pair(t)
	var order []string
	for i := range c.boxes {
		w.Go(fmt.Sprint("waiter ", i), func() {
			if err := c.await(context.Background(), i, 2); err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
			order = append(order, fmt.Sprint(i))
		})
	}
	w.Go("peer", func() {
		for _, m := range []byte{3, 1, 0, 2, 2, 0, 3, 1} {
			c.post(t, peer, m)
			w.Sleep(time.Millisecond)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"2", "0", "3", "1"}; !slices.Equal(order, want) {
		t.Errorf("they return in the order %q, want %q", order, want)
	}
	if s := c.e.State(w.Now()); s.Followers != 0 || s.Driver != "nobody" || c.e.Led() {
		t.Errorf("the engine is %+v", s)
	}
}

// TestDeadlinesUnderVirtualTime: a follower's time ends when it should, to the
// nanosecond, though the leader waits for ever, and says which end it was.
func TestDeadlinesUnderVirtualTime(t *testing.T) {
	w, c, peer := pair(t)
	const patience = 3 * time.Millisecond
	var ended int64
	var err error
	w.Go("leader", func() { c.await(context.Background(), 0, 1) })
	w.Go("follower", func() {
		ctx, cancel := c.e.WithTimeout(context.Background(), patience)
		defer cancel()
		err = c.await(ctx, 1, 1)
		ended = w.Now()
	})
	start := w.Now()
	w.Go("peer", func() {
		w.Sleep(5 * patience)
		c.post(t, peer, 0)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if ended-start != int64(patience) {
		t.Errorf("it ends after %v, want %v", time.Duration(ended-start), patience)
	}
	if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want both ErrTimeout and DeadlineExceeded", err)
	}
}

// TestBeginFor: a wait with a time of its own ends then.
func TestBeginFor(t *testing.T) {
	w, c, _ := pair(t)
	w.Go("waiter", func() {
		c.e.Lock()
		defer c.e.Unlock()
		wait := c.e.BeginFor(context.Background(), time.Second)
		defer c.e.End(&wait)
		start := w.Now()
		var err error
		for err == nil {
			err = c.e.Wait(&wait, &c.boxes[0].gate)
		}
		var end *EndError
		if !errors.As(err, &end) || end.After != time.Second || end.Context != nil || w.Now()-start != int64(time.Second) {
			t.Errorf("%v after %v", err, time.Duration(w.Now()-start))
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestTimer: a sleeping leader is there when a timer is due, also one that somebody
// else has set meanwhile.
func TestTimer(t *testing.T) {
	w, c, _ := pair(t)
	start := w.Now()
	w.Go("waiter", func() {
		if err := c.await(context.Background(), 0, 1); err != nil {
			t.Error(err)
		}
		if took := w.Now() - start; took != int64(2*time.Millisecond) {
			t.Errorf("the timer came after %v", time.Duration(took))
		}
	})
	w.Go("setter", func() {
		w.Sleep(time.Millisecond)
		c.e.Lock()
		c.timer = w.Now() + int64(time.Millisecond)
		c.e.WakeBefore(c.timer)
		c.e.Unlock()
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestFailed: waits of a machine that has failed end with its reason, those that are
// under way as well.
func TestFailed(t *testing.T) {
	w, c, _ := pair(t)
	broken := errors.New("broken")
	var errs [3]error
	for i := range errs {
		w.Go("waiter", func() { errs[i] = c.await(context.Background(), i, 1) })
	}
	w.Go("breaker", func() {
		w.Sleep(time.Millisecond)
		c.e.Lock()
		c.failed = broken
		c.e.WakeAll()
		c.e.Unlock()
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if !errors.Is(err, broken) {
			t.Errorf("waiter %d: %v", i, err)
		}
	}
}

// TestOpenedBefore: what happened between a look under another lock and the wait ends
// the wait at once.
func TestOpenedBefore(t *testing.T) {
	w, c, _ := pair(t)
	w.Go("waiter", func() {
		c.e.Lock()
		defer c.e.Unlock()
		seen := c.boxes[0].gate.Opened()
		c.add(0)
		wait := c.e.Begin(context.Background())
		defer c.e.End(&wait)
		if err := c.e.WaitSince(&wait, &c.boxes[0].gate, seen); err != nil {
			t.Error(err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestPark: who is parked is woken by its gate, its time and the end of the machine, and
// by nothing else: it never leads, though nobody does.
func TestPark(t *testing.T) {
	w, c, peer := pair(t)
	park := func(name string, box int, d time.Duration, want error, takes time.Duration) {
		w.Go(name, func() {
			c.e.Lock()
			defer c.e.Unlock()
			wait := c.e.BeginFor(context.Background(), d)
			defer c.e.End(&wait)
			start, seen := w.Now(), c.boxes[box].gate.Opened()
			err := c.e.Park(&wait, &c.boxes[box].gate, seen)
			if took := time.Duration(w.Now() - start); !errors.Is(err, want) || took != takes {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, took, want, takes)
			}
			if c.e.Park(&wait, &c.boxes[box].gate, seen-1) != nil {
				t.Errorf("%s: parked at a gate that had been opened", name)
			}
		})
	}
	park("woken", 0, time.Minute, nil, 5*time.Millisecond)
	park("timed", 1, 3*time.Millisecond, ErrTimeout, 3*time.Millisecond)
	w.Go("peer", func() {
		w.Sleep(time.Millisecond)
		c.post(t, peer, 0)
		w.Sleep(3 * time.Millisecond)
		if c.polls > 0 {
			t.Error("one that is parked has polled")
		}
	})
	w.Go("poller", func() {
		w.Sleep(5 * time.Millisecond)
		c.e.Lock()
		defer c.e.Unlock()
		if s := c.e.State(w.Now()); s.Followers != 1 || s.Driver != "nobody" {
			t.Errorf("the engine is %+v", s)
		}
		c.e.Poll()
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestParkedCancel: the end of its context ends the wait of one that is parked, in real
// time too, and of one who follows a leader.
func TestParkedCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan struct{})
	woken := make(chan bool)
	p := &place{ch: make(chan struct{}, 1)}
	go func() { p.sleep(ctx.Done()); woken <- true }()
	cancel()
	<-woken
	go func() { p.sleep(end); p.sleep(nil); woken <- true }()
	p.wake()
	for ended := false; !ended; {
		select {
		case ended = <-woken:
		default:
			p.wake()
			runtime.Gosched()
		}
	}
}

// TestIdle: the machine is told when a poll has found nothing, before anybody sleeps.
func TestIdle(t *testing.T) {
	w, c, peer := pair(t)
	w.Go("waiter", func() { c.await(context.Background(), 0, 1) })
	w.Go("peer", func() {
		if c.idles == 0 {
			t.Error("it sleeps, and Idle was not called")
		}
		c.post(t, peer, 0)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestNotIdle: a wait that a timer ends does not call Idle, because the caller may be about to answer.
func TestNotIdle(t *testing.T) {
	w, c, _ := pair(t)
	c.timer = w.Now()
	w.Go("waiter", func() {
		if err := c.await(context.Background(), 0, 1); err != nil || c.idles > 0 {
			t.Errorf("the wait ends with %v, after %d calls of Idle", err, c.idles)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

var _ Machine = (*counter)(nil)
