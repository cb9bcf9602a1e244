package mplite

import "slices"

// plan is the operation that a persistent request starts each time.
type plan struct {
	recv      bool
	buf       []byte
	shape     strided // sent or received instead of buf, unless it is zero
	peer, tag int
	spec      spec
	active    Request // the operation that it has started, until a caller has waited for it
}

// SendInit creates a persistent Send (MPI_Send_init). The request is inactive, like a null one,
// until Start sends the current contents of buf. It becomes inactive again when a wait or test has
// reported the end of the send. Calls on several requests, such as Waitall, keep it in their
// slices. Between Start and that report, buf belongs to the library.
func (c *Comm) SendInit(buf []byte, dst, tag int) (Request, error) {
	return c.sendInit(buf, dst, tag, c.user(rawBytes))
}

// SsendInit creates a persistent Ssend (MPI_Ssend_init).
func (c *Comm) SsendInit(buf []byte, dst, tag int) (Request, error) {
	return c.sendInit(buf, dst, tag, c.user(rawBytes).sync())
}

// RecvInit creates a persistent Recv (MPI_Recv_init).
func (c *Comm) RecvInit(buf []byte, src, tag int) (Request, error) {
	return c.recvInit(buf, src, tag, c.user(rawBytes))
}

// SendInit is Comm.SendInit for elements of T.
func SendInit[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	return c.sendInit(asBytes(buf), dst, tag, c.user(elementOf[T]()))
}

// SsendInit is Comm.SsendInit for elements of T.
func SsendInit[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	return c.sendInit(asBytes(buf), dst, tag, c.user(elementOf[T]()).sync())
}

// RecvInit is Comm.RecvInit for elements of T.
func RecvInit[T any](c *Comm, buf []T, src, tag int) (Request, error) {
	return c.recvInit(asBytes(buf), src, tag, c.user(elementOf[T]()))
}

func (c *Comm) sendInit(buf []byte, dst, tag int, s spec) (Request, error) {
	return c.persistent(plan{buf: buf, peer: dst, tag: tag, spec: s})
}

func (c *Comm) recvInit(buf []byte, src, tag int, s spec) (Request, error) {
	return c.persistent(plan{recv: true, buf: buf, peer: src, tag: tag, spec: s})
}

// persistent creates an inactive request, if its arguments are valid.
func (c *Comm) persistent(p plan) (Request, error) {
	if p.spec.typ.err != nil {
		return Request{}, p.spec.typ.err
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	var err error
	if p.recv {
		_, err = c.envelope("receive", p.peer, p.tag, c.context)
	} else if uint(p.peer) >= uint(c.ranks) || uint(p.tag) > MaxTag {
		err = c.badPeer("send", p.peer, p.tag)
	}
	if err != nil {
		return Request{}, err
	}
	return handle(&request{w: c.w, c: c, plan: &p}, nil)
}

// Start starts a persistent request (MPI_Start). It returns ErrRequest if r is not persistent, or
// was started and not waited for.
func (r Request) Start() error {
	if r.Null() {
		return opError("start", ErrRequest, "it is null")
	}
	w := r.of.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p := r.of.plan
	switch {
	case r.stale():
		return stale("start")
	case p == nil:
		return opError("start", ErrRequest, "it is not persistent: SendInit and RecvInit make those that are")
	case !p.active.Null():
		return opError("start", ErrRequest, "it has been started and not waited for")
	}
	var err error
	p.active, err = handle(r.of.c.carryOut(p))
	return err
}

// Startall starts all of the requests (MPI_Startall), even if some cannot be started. A
// RequestsError lists those.
func Startall(reqs []Request) error {
	var failed *RequestsError
	for i, r := range reqs {
		if err := r.Start(); err != nil {
			failed = failed.with(len(reqs), i, err)
		}
	}
	return failed.orNil()
}

// operation returns the request of the operation: r itself or, if r is persistent, the request that
// it has started. It returns the null request if there is none. The caller must hold the mutex.
func (r Request) operation() Request {
	if r.of != nil && r.of.plan != nil {
		return r.of.plan.active
	}
	return r
}

// end reports the end of o, the operation of r, to the caller of op, and releases o.
func (w *world) end(op string, r, o Request) (Status, error) {
	if o.stale() {
		return Status{}, stale(op)
	}
	if r.of.plan != nil {
		r.of.plan.active = Request{}
	}
	st, err := o.of.status, o.of.err
	w.release(o.of)
	return st, err
}

// Free releases a request (MPI_Request_free). An operation in progress continues to use its buffer,
// and its end is not reported. A persistent request cannot be started again.
func (r Request) Free() error {
	if r.Null() {
		return opError("free", ErrRequest, "it is null")
	}
	w := r.of.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.stale() {
		return stale("free")
	}
	o := r.operation()
	if r.of.plan != nil {
		r.of.plan = nil
		r.of.generation++
	}
	if !o.Null() {
		o.of.generation++
		w.detached = append(w.detached, o.of)
	}
	return nil
}

// sweep releases ended requests whose end no caller waits for.
func (w *world) sweep() {
	w.detached = slices.DeleteFunc(w.detached, func(r *request) bool {
		if r.state != stateDone {
			return false
		}
		w.release(r)
		return true
	})
}

// Cancel ends an operation that has not been matched (MPI_Cancel): a receive without a message, or
// a send that no receive is known to have taken. The request's wait then returns at once, whatever
// the other rank does, without an error and with Canceled set in the Status. If the operation has
// been matched, Cancel does nothing. The request must still be waited for or tested.
//
// A send may have been announced to its receiver already. A receive that takes the
// announcement of a cancelled long message ends with ErrCanceled. A short synchronous
// message (Issend) has left with its announcement, and may still be received. So may a long
// message that a receiver on the same host has already copied.
func (r Request) Cancel() {
	if r.Null() {
		return
	}
	w := r.of.w
	w.mu.Lock()
	defer w.mu.Unlock()
	o := r.operation()
	if o.Null() || o.over() {
		return
	}
	if in := o.of.self; o.of.state == sendSelf && in.ticket != 0 { // a matched probe has reserved the message
		return
	}
	if w.cancel(o.of, nil) {
		o.of.status = Status{Source: AnySource, Tag: AnyTag, Canceled: true}
	}
}
