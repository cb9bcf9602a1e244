package mplite

import "context"

// The calls over several requests. What they have in common is said at Request.

// Waitall waits for all requests (MPI_Waitall). Statuses, if not nil, must be as
// long as reqs; a null or inactive request gives the empty Status. It waits for the
// others when one fails. When ctx ends, those that are left may be waited for again.
func Waitall(ctx context.Context, reqs []Request, statuses []Status) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	var failed *RequestsError
	for i, r := range reqs {
		st, ended, err := r.wait(ctx)
		if !ended && failed == nil {
			return err
		}
		if err != nil {
			failed = failed.with(len(reqs), i, err)
		}
		if !ended {
			continue
		}
		forget(reqs, i)
		if statuses != nil {
			statuses[i] = st
		}
	}
	return failed.orNil()
}

// Testall reports whether all requests have completed (MPI_Testall). If so it
// ends them all as Waitall does; if not, it ends none.
func Testall(reqs []Request, statuses []Status) (done bool, err error) {
	for polled := false; ; polled = true {
		if pending := firstPending(reqs); pending.Null() {
			return true, Waitall(context.Background(), reqs, statuses)
		} else if polled {
			return false, nil
		} else {
			w := pending.of.w
			w.mu.Lock()
			w.poll()
			w.mu.Unlock()
		}
	}
}

// firstPending returns the first request that a wait would block for, or the null one.
func firstPending(reqs []Request) Request {
	for _, r := range reqs {
		if r.Null() {
			continue
		}
		r.of.w.mu.Lock()
		o := r.operation()
		done := o.Null() || o.over() // Waitall reports stale ones
		r.of.w.mu.Unlock()
		if !done {
			return r
		}
	}
	return Request{}
}

// Waitany waits for one of the requests (MPI_Waitany) and returns its index,
// status and own error; the index is Undefined, with the empty Status, if all are
// null or inactive. When several have completed it takes the first in reqs.
func Waitany(ctx context.Context, reqs []Request) (int, Status, error) {
	if err := checkContext(ctx); err != nil {
		return Undefined, Status{}, err
	}
	w := worldOf(reqs)
	if w == nil {
		return Undefined, empty, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		i, active := firstEnded(reqs)
		switch {
		case i >= 0:
			st, err := w.endOf(reqs, i)
			return i, st, err
		case !active:
			return Undefined, empty, nil
		}
		if err := w.step(ctx); err != nil {
			return Undefined, Status{}, err
		}
	}
}

// Testany reports whether one of the requests has completed, without blocking
// (MPI_Testany), and if so returns what Waitany does. It is done, with the index
// Undefined, if all are null or inactive.
func Testany(reqs []Request) (index int, st Status, done bool, err error) {
	w := worldOf(reqs)
	if w == nil {
		return Undefined, empty, true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	i, active := firstEnded(reqs)
	if i < 0 && active {
		w.poll()
		i, active = firstEnded(reqs)
	}
	switch {
	case i < 0 && active:
		return Undefined, Status{}, false, nil
	case i < 0:
		return Undefined, empty, true, nil
	}
	st, err = w.endOf(reqs, i)
	return i, st, true, err
}

// Waitsome waits until at least one of the requests has completed and reports
// all that have (MPI_Waitsome): their number n, and in indices[:n] their places in
// reqs, in ascending order. Indices must be as long as reqs, and so must statuses,
// if not nil: statuses[k] is that of request indices[k]. If all are null or
// inactive, n is Undefined.
func Waitsome(ctx context.Context, reqs []Request, indices []int, statuses []Status) (n int, err error) {
	if err := checkContext(ctx); err != nil {
		return 0, err
	}
	w := worldOf(reqs)
	if w == nil {
		return Undefined, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		i, active := firstEnded(reqs)
		if i >= 0 || !active {
			return w.endAll(reqs, indices, statuses)
		}
		if err := w.step(ctx); err != nil {
			return 0, err
		}
	}
}

// Testsome is Waitsome without blocking (MPI_Testsome): n is 0 if no request has
// completed.
func Testsome(reqs []Request, indices []int, statuses []Status) (n int, err error) {
	w := worldOf(reqs)
	if w == nil {
		return Undefined, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.poll()
	return w.endAll(reqs, indices, statuses)
}

// worldOf returns the world of the requests, or nil if all are null.
func worldOf(reqs []Request) *world {
	for _, r := range reqs {
		if !r.Null() {
			return r.of.w
		}
	}
	return nil
}

// firstEnded returns the index of the first request that has ended, or -1: then
// all are waited for. Active says whether there is one that is neither null nor
// inactive.
func firstEnded(reqs []Request) (index int, active bool) {
	for i, r := range reqs {
		o := r.operation()
		switch {
		case o.Null():
		case o.over():
			return i, true
		default:
			o.of.waited = true
			active = true
		}
	}
	return -1, active
}

// forget takes the request i out of reqs, unless it can be started again.
func forget(reqs []Request, i int) {
	if r := reqs[i].of; r != nil && r.plan == nil {
		reqs[i] = Request{}
	}
}

// endOf reports the end of the request i.
func (w *world) endOf(reqs []Request, i int) (Status, error) {
	r := reqs[i]
	forget(reqs, i)
	return w.end("wait", r, r.operation())
}

// endAll reports the end of all requests that have ended: Undefined if none is
// left that could.
func (w *world) endAll(reqs []Request, indices []int, statuses []Status) (n int, err error) {
	var failed *RequestsError
	active := false
	for i, r := range reqs {
		o := r.operation()
		active = active || !o.Null()
		if o.Null() || !o.over() {
			continue
		}
		st, err := w.endOf(reqs, i)
		if err != nil {
			failed = failed.with(len(reqs), i, err)
		}
		indices[n] = i
		if statuses != nil {
			statuses[n] = st
		}
		n++
	}
	if !active {
		return Undefined, nil
	}
	return n, failed.orNil()
}
