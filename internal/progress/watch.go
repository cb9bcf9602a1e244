package progress

import "context"

// watching is how an engine learns that a context has ended. Watching a context allocates, and a
// program that waits repeatedly usually passes the same context. The engine therefore keeps a watch
// after its waits have ended, until it must watch another context.
type watching struct {
	end   <-chan struct{} // the context's Done channel, nil if none is watched
	stop  func() bool
	users int // waits that have not ended
}

// watch makes the end of the wait's context wake all waits, which then check their own contexts.
// The caller must hold the lock.
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

// ended is called when a watched context has ended, perhaps after its last wait.
func (e *Engine) ended(end <-chan struct{}) {
	e.Lock()
	defer e.Unlock()
	if k := &e.watching; k.end == end && k.users > 0 {
		e.WakeAll()
	}
}

// unwatch ends a wait's use of the watch. The caller must hold the lock.
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

// forgetWatch ends the watch of an engine that is shut.
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
