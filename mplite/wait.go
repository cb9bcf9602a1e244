package mplite

import "context"

// Wait blocks until the operation has completed (MPI_Wait), or ctx ends: then
// the request stays in use and may be waited for again.
func (r *Request) Wait(ctx context.Context) (Status, error) {
	st, _, err := r.wait(ctx)
	return st, err
}

// null reports whether r is the null request.
func (r *Request) null() bool { return r == nil || r.w == nil }

// wait is Wait and tells the end of r from that of ctx.
func (r *Request) wait(ctx context.Context) (st Status, ended bool, err error) {
	if err := checkContext(ctx); err != nil {
		return Status{}, false, err
	}
	if r.null() {
		return empty, true, nil
	}
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	o := r.current()
	if o == nil {
		return empty, true, nil
	}
	for o.state != stateDone || o.gone {
		if o.reported() {
			return Status{}, true, stale("wait")
		}
		o.waited = true
		if err := w.step(ctx); err != nil && o.state != stateDone {
			return Status{}, false, err
		}
	}
	st, err = w.end(r)
	return st, true, err
}

// Test reports whether the operation has completed, without blocking
// (MPI_Test). The status and the error are valid when done is true.
func (r *Request) Test() (st Status, done bool, err error) {
	if r.null() {
		return empty, true, nil
	}
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	o := r.current()
	if o == nil {
		return empty, true, nil
	}
	if o.reported() {
		return Status{}, true, stale("test")
	}
	if o.state != stateDone {
		w.poll()
	}
	if o.state != stateDone {
		return Status{}, false, nil
	}
	st, err = w.end(r)
	return st, true, err
}
