package progress

import (
	"context"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
)

// watcher is an engine whose waits watch contexts as those in real time do.
func watcher() *Engine {
	c := newCounter(sim.New(sim.Options{Seed: 1}).Station("watcher"), nil)
	c.e.virtual = false
	return &c.e
}

// beginSleep begins a wait that sleeps, and so watches ctx. endSleep ends it.
func (e *Engine) beginSleep(ctx context.Context) Waiter {
	e.Lock()
	defer e.Unlock()
	w := e.Begin(ctx)
	e.watch(&w)
	return w
}

func (e *Engine) endSleep(w Waiter) {
	e.Lock()
	defer e.Unlock()
	e.unwatch(&w)
}

// TestWatchKept: waits that sleep one after another with the same context take memory for the
// first only, also if another context was waited with beside them.
func TestWatchKept(t *testing.T) {
	e := watcher()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sleep := func() { e.endSleep(e.beginSleep(ctx)) }
	sleep()
	if n := testing.AllocsPerRun(100, sleep); n != 0 {
		t.Errorf("%v allocations for each wait", n)
	}
	first := e.beginSleep(ctx)
	other, cancelOther := context.WithCancel(t.Context())
	defer cancelOther()
	second := e.beginSleep(other)
	if !first.watched || second.watched || second.stop == nil {
		t.Errorf("of two contexts at a time, watched %v and %v", first.watched, second.watched)
	}
	e.endSleep(second)
	e.endSleep(first)
	if e.watching.end != ctx.Done() || e.watching.users != 0 {
		t.Errorf("%d users when all waits have ended", e.watching.users)
	}
	third := e.beginSleep(other)
	if !third.watched || e.watching.end != other.Done() {
		t.Error("the watch of a context that nobody waits with is not given up for another one's")
	}
	e.endSleep(third)
}

// TestWatchShut: an engine that is shut keeps no watch, so that no context refers to it.
func TestWatchShut(t *testing.T) {
	e := watcher()
	e.endSleep(e.beginSleep(t.Context()))
	w := e.beginSleep(t.Context())
	e.Lock()
	e.Shut()
	e.Unlock()
	if e.watching.end == nil {
		t.Error("the watch of a wait under way was given up")
	}
	e.endSleep(w)
	if e.watching.end != nil || e.watching.stop != nil {
		t.Error("the watch was kept")
	}
	if w = e.beginSleep(t.Context()); w.stop == nil || e.watching.end != nil {
		t.Error("a wait after that is kept")
	}
	e.endSleep(w)
}

// TestWatchEnded: the end of a context that nobody waits with any more wakes nobody; the next
// wait with it ends at once.
func TestWatchEnded(t *testing.T) {
	e := watcher()
	ctx, cancel := context.WithCancel(t.Context())
	e.endSleep(e.beginSleep(ctx))
	e.lead.followers = append(e.lead.followers, &place{ch: make(chan struct{}, 1)})
	cancel()
	e.ended(ctx.Done())
	if len(e.lead.followers[0].ch) != 0 {
		t.Error("a wait with another context was woken")
	}
	w := e.Begin(ctx)
	if err := w.expired(e); err == nil {
		t.Error("a wait with a context that has ended goes on")
	}
}
