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
	for r.state != stateDone || r.gone {
		if r.reported() {
			return Status{}, true, stale("wait")
		}
		r.waited = true
		if err := w.step(ctx); err != nil && r.state != stateDone {
			return Status{}, false, err
		}
	}
	st, err = w.finish(ctx, r)
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
	if r.reported() {
		return Status{}, true, stale("test")
	}
	if r.state != stateDone {
		w.poll()
	}
	if r.state != stateDone {
		return Status{}, false, nil
	}
	st, err = w.finish(context.Background(), r)
	return st, true, err
}
