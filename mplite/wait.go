package mplite

import "context"

// Wait blocks until the operation has completed (MPI_Wait), or ctx ends: then
// the request stays in use and may be waited for again.
func (r Request) Wait(ctx context.Context) (Status, error) {
	st, _, err := r.wait(ctx)
	return st, err
}

// wait is Wait and tells the end of r from that of ctx.
func (r Request) wait(ctx context.Context) (st Status, ended bool, err error) {
	if err := checkContext(ctx); err != nil {
		return Status{}, false, err
	}
	if r.Null() {
		return empty, true, nil
	}
	w := r.of.w
	w.mu.Lock()
	defer w.mu.Unlock()
	o := r.operation()
	if o.Null() {
		return empty, true, nil
	}
	for !o.over() {
		o.of.waited = true
		if err := w.step(ctx); err != nil && !o.over() {
			return Status{}, false, err
		}
	}
	st, err = w.end("wait", r, o)
	return st, true, err
}

// Test reports whether the operation has completed, without blocking
// (MPI_Test). The status and the error are valid when done is true.
func (r Request) Test() (st Status, done bool, err error) {
	if r.Null() {
		return empty, true, nil
	}
	w := r.of.w
	w.mu.Lock()
	defer w.mu.Unlock()
	o := r.operation()
	if o.Null() {
		return empty, true, nil
	}
	if !o.over() {
		w.poll()
	}
	if !o.over() {
		return Status{}, false, nil
	}
	st, err = w.end("test", r, o)
	return st, true, err
}
