package progress

import "context"

// watching is how an engine hears of the end of a context. To watch a context takes memory,
// and a program that waits again and again does so with the same one, as a rule. So a watch
// is kept when the waits with it have ended, until the engine is to watch another context.
type watching struct {
	end   <-chan struct{} // the context's Done, nil if none is watched
	stop  func() bool
	users int // waits that have not ended
}

// watch has the end of the wait's context wake all waits, which then check theirs. The lock is
// held.
func (e *Engine) watch(w *Waiter) {
	w.slept = true
	if w.stop != nil || w.watched || !w.cancellable(e) {
		return
	}
	k, end := &e.watching, w.ctx.Done()
	switch {
	case k.end == end && w.ctx.Err() == nil: // else it may have told already
	case k.users > 0 || e.shut:
		w.stop = context.AfterFunc(w.ctx, func() {
			e.Lock()
			defer e.Unlock()
			e.WakeAll()
		})
		return
	default:
		k.drop()
		k.end, k.stop = end, context.AfterFunc(w.ctx, func() { e.ended(end) })
	}
	k.users++
	w.watched = true
}

// ended is called when a context has ended whose watch was kept: perhaps by a program that
// does not wait any more.
func (e *Engine) ended(end <-chan struct{}) {
	e.Lock()
	defer e.Unlock()
	if k := &e.watching; k.end == end && k.users > 0 {
		e.WakeAll()
	}
}

// unwatch is for the end of a wait. The lock is held.
func (e *Engine) unwatch(w *Waiter) {
	if w.stop != nil {
		w.stop()
	}
	if w.watched {
		w.watched = false
		e.watching.users--
		e.forgetWatch()
	}
}

// forgetWatch gives up the watch of an engine that is shut.
func (e *Engine) forgetWatch() {
	if e.shut && e.watching.users == 0 {
		e.watching.drop()
	}
}

func (k *watching) drop() {
	if k.stop != nil {
		k.stop()
	}
	*k = watching{}
}
