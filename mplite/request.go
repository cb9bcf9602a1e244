package mplite

import (
	"context"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vipl"
)

// state is the state of an operation.
type state uint8

const (
	stateFree   state = iota
	sendQueued        // waits for credits or a bounce buffer
	sendSync          // eager, synchronous: waits for kindDone
	sendReady         // announced: waits for kindClear
	sendWriting       // the write is queued or under way
	sendSelf          // to this rank itself, waits for the receive
	recvMeet          // waits for other ranks in shared memory: see shared.go
	recvPosted        // waits for a message
	recvClear         // matched and cleared: the peer writes into buf
	recvPulling       // matched: this rank copies the message from the peer's memory, now or soon
	recvPulled        // copied: waits for a credit to release the peer
	collRunning       // a nonblocking collective: its schedule is being carried out
	stateDone         // result is in status and err
)

// Request is a handle of an operation that has been started and not yet waited for
// (MPI_Request). Wait, Test and the functions over several requests end the
// operation. From then on every copy of the handle is stale, and each call with it
// returns ErrRequest. A persistent request (SendInit) can be started again. The buffer
// belongs to the library until the operation ends. A Request may be handed from one
// goroutine to another, but only one at a time may wait for it.
//
// The zero Request is the null request (MPI_REQUEST_NULL; see Null). Every wait and test of it
// returns at once with an empty Status, which has Source AnySource, Tag AnyTag and
// Count 0. The same holds for a persistent request that has not been started.
//
// The calls over several requests (Waitall and so on) pass over null and inactive
// ones. They set the element of each request whose end they report to the null
// request, unless it is persistent. If some have failed they return a RequestsError.
type Request struct {
	of         *request
	generation uint64
}

// request is the state behind a Request. It serves one operation after another. Its generation
// identifies the operation that a Request refers to.
type request struct {
	w          *world
	c          *Comm
	generation uint64 // number of operations that the request has served
	id         uint32 // permanent index of the request in w.requests
	state      state
	flags      uint8
	coll       bool // part of a collective
	timeWait   bool // ended here while the peer may still answer
	gone       bool // released by its user
	waited     bool // a goroutine waits for it
	asked      bool // the request is part of a collective, and other ranks need not be asked about it again
	env        envelope
	peer       *peer // the other rank, nil for this rank itself or not yet known
	buf        []byte
	typ        *element
	call       uint64 // signature of the call, in a collective: see callSig
	status     Status
	err        error

	mem       vipl.MemHandle // handle of buf, in a rendezvous
	remote    target         // where a send's payload goes
	remoteID  uint32         // the receiver's request
	remoteSig uint32         // signature of the sender's elements
	accepted  int            // bytes that the receiver takes
	aim       aim            // in shared memory
	written   int            // bytes that have been written
	offer     offer          // the sender's offer, in a receive that copies from the sender's memory
	mark      atomic.Uint64  // the mark that this rank's own offer names
	landing   uint8          // first slot of the landing memory that a send goes to, as a bit
	self      *inbound       // the queued message of a send from this rank to itself

	sched *schedule // the schedule that it is part of
	stage []byte    // staging memory that contains buf, or nil
	shape strided   // destination of the received elements in stage
	plan  *plan     // the operation that a persistent request starts; nil in other requests

	number uint64        // order of posting
	place  node[request] // place in the list of posted receives, or of sends that wait for credits
	desc   vipl.Descriptor
	segs   [2]vipl.Segment
}

// Status describes a message that was received or probed (MPI_Status). The Status of a send is
// zero.
type Status struct {
	Source int // rank in the communicator
	Tag    int
	Count  int // bytes; see Elements

	// Canceled is true if Cancel has ended the operation (MPI_Test_cancelled).
	Canceled bool
}

// empty is the status of an operation that has not been started.
var empty = Status{Source: AnySource, Tag: AnyTag}

// request returns a free request, or a new one.
func (w *world) request(c *Comm, buf []byte, s spec) *request {
	if len(w.detached) > 0 {
		w.sweep()
	}
	var r *request
	if last := len(w.free) - 1; last >= 0 {
		r, w.free = w.free[last], w.free[:last]
	} else {
		r = &request{w: w, id: uint32(len(w.requests))}
		r.desc.Context = r
		w.requests = append(w.requests, r)
	}
	r.c, r.buf, r.typ, r.flags = c, buf, s.typ, s.flags
	r.call, r.landing = s.call, 0
	if r.coll = s.context&1 != 0; r.coll {
		r.asked = false
		w.unasked++
	}
	r.timeWait, r.gone, r.waited = false, false, false
	r.status, r.err = Status{}, nil
	return r
}

// release ends the user's ownership of r: from then on, handles of it are stale.
func (w *world) release(r *request) {
	r.gone = true
	r.generation++
	r.buf = nil
	if !r.timeWait {
		w.recycle(r)
	}
}

func (w *world) recycle(r *request) {
	r.state = stateFree
	r.peer, r.c, r.err = nil, nil, nil
	w.free = append(w.free, r)
}

// endTimeWait releases the state kept for a request whose answer has arrived, or never will.
func (w *world) endTimeWait(r *request) {
	r.timeWait = false
	if r.gone {
		w.recycle(r)
	}
}

// complete ends r with err, or with success.
func (w *world) complete(r *request, err error) {
	if r.mem != 0 {
		w.nic.DeregisterMem(r.mem)
		r.mem = 0
	}
	if r.mark.Load() != 0 {
		r.mark.Store(0)
	}
	if r.err == nil || r.state.matched() && err != nil { // then the message that r.err is about has not come
		r.err = err
	}
	r.state = stateDone
	w.stopAsking(r)
	if r.stage != nil {
		r.w.unstage(r)
	}
	if r.sched != nil {
		r.sched.ended(r)
	}
	if r.waited {
		w.notify()
	}
}

// cancel ends r now with err, if possible. It is not possible while the buffer is in use. A write
// in progress ends soon by itself. A granted receive ends only when the sender's program calls this
// package. Forbidding the write instead would end the connection.
func (w *world) cancel(r *request, err error) bool {
	switch r.state {
	case stateDone:
	case sendQueued:
		r.peer.queue.remove(&r.place)
		w.complete(r, err)
	case sendSync, sendReady:
		w.complete(r, err)
		r.timeWait = true
		r.remoteID = 0
	case sendWriting:
		if isMismatch(err) { // the receiver may not know of the mismatch yet
			return false
		}
		if !r.peer.pending.withdraw(r) {
			return false
		}
		w.complete(r, err)
	case sendSelf:
		if in := r.self; in.ticket != 0 {
			in.self, in.withdrawn = nil, true
		} else {
			w.match.removeMessage(in)
			w.spill.put(in)
		}
		w.complete(r, err)
	case recvMeet:
		w.unmeet(r)
		w.complete(r, err)
	case recvPosted:
		w.match.removeRecv(r)
		w.complete(r, err)
	default:
		return false
	}
	return true
}

// finish waits for r and releases it. If ctx ends first, finish cancels r if possible. Otherwise it
// continues to wait, because the peer writes to the buffer.
func (w *world) finish(ctx context.Context, r *request) (Status, error) {
	r.waited = true
	for r.state != stateDone {
		if err := w.step(ctx); err != nil && !w.cancel(r, r.interrupted(err)) {
			ctx = context.Background()
		}
	}
	st, err := r.status, r.err
	w.release(r)
	return st, err
}

// matched reports whether a message has been matched with the receive, which has not ended.
func (s state) matched() bool { return s == recvClear || s == recvPulling || s == recvPulled }

// handle returns the caller's handle of an operation that has just started.
func handle(r *request, err error) (Request, error) {
	if err != nil {
		return Request{}, err
	}
	return Request{r, r.generation}, nil
}

// Null reports whether r is the null request.
func (r Request) Null() bool { return r.of == nil }

// stale reports whether the end of the operation was already reported, or the request was freed.
// The caller must hold the mutex.
func (r Request) stale() bool { return r.of.generation != r.generation }

// over reports whether there is nothing to wait for: r is stale or its operation has ended. The
// caller must hold the mutex.
func (r Request) over() bool { return r.stale() || r.of.state == stateDone }

func stale(op string) error {
	return opError(op, ErrRequest, "its completion has been reported before, or it has been freed")
}

// Wait blocks until the operation has completed (MPI_Wait) or ctx ends. If ctx ends, the request
// stays in use and can be waited for again.
func (r Request) Wait(ctx context.Context) (Status, error) {
	st, _, err := r.wait(ctx)
	return st, err
}

// wait is Wait, and distinguishes the end of r from that of ctx.
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
			return Status{}, false, o.of.interrupted(err)
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

// Calls over several requests. The comment of Request describes their common rules.

// Waitall waits for all requests (MPI_Waitall), even if some of them fail. statuses, if not nil,
// must be as long as reqs; a null or inactive request gives the empty Status. If ctx ends, the
// incomplete requests can be waited for again.
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

// Testall reports whether all requests have completed (MPI_Testall). If so, it ends them all as
// Waitall does. Otherwise it ends none.
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

// firstPending returns the first request that a wait would block for, or the null request.
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

// Waitany waits for one of the requests (MPI_Waitany) and returns its index, status and error. If
// several have completed, it takes the first in reqs. If all are null or inactive, the index is
// Undefined and the Status is empty.
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
			return Undefined, Status{}, interrupted(reqs, err)
		}
	}
}

// Testany reports whether one of the requests has completed, without blocking (MPI_Testany). If so,
// it returns the results of Waitany. If all are null or inactive, done is true and the index is
// Undefined.
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

// Waitsome waits until at least one of the requests has completed and reports all completed ones
// (MPI_Waitsome). n is their number, and indices[:n] are their indices in reqs, in ascending order.
// indices must be as long as reqs, and so must statuses if it is not nil; statuses[k] belongs to
// request indices[k]. If all are null or inactive, n is Undefined.
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
			return 0, interrupted(reqs, err)
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

// firstEnded returns the index of the first request that has ended, or -1 if the caller must wait
// for all. active reports whether any request is neither null nor inactive.
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

// interrupted returns the error of a wait for one of the requests that err, of its context, has
// ended. It names the first request that has not completed.
func interrupted(reqs []Request, err error) error {
	for _, r := range reqs {
		if o := r.operation(); !o.Null() && !o.over() {
			return o.of.interrupted(err)
		}
	}
	return err
}

// forget removes request i from reqs, unless it is persistent.
func forget(reqs []Request, i int) {
	if r := reqs[i].of; r != nil && r.plan == nil {
		reqs[i] = Request{}
	}
}

// endOf reports the end of request i.
func (w *world) endOf(reqs []Request, i int) (Status, error) {
	r := reqs[i]
	forget(reqs, i)
	return w.end("wait", r, r.operation())
}

// endAll reports the end of all requests that have ended. n is Undefined if all are null or
// inactive.
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
