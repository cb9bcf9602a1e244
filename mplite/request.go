package mplite

import (
	"context"

	"github.com/bobnet-go/bobnet/vipl"
)

// state says where an operation stands.
type state uint8

const (
	stateFree   state = iota
	sendQueued        // waits for credits or a bounce buffer
	sendSync          // eager, synchronous: waits for kindDone
	sendReady         // announced: waits for kindClear
	sendWriting       // the write is queued or under way
	sendSelf          // to this rank itself, waits for the receive
	recvPosted        // waits for a message
	recvClear         // matched and cleared: the peer writes into buf
	stateDone         // result is in status and err
)

// Request is a send or receive that has been started and not yet waited for
// (MPI_Request). Wait, Test and the functions over several requests end it;
// after the call that reports its completion it must not be used again, since
// the object may by then serve another operation. The buffer belongs to the
// library until then. A Request may be handed from one goroutine to another,
// but only one at a time may wait for it.
type Request struct {
	w      *world
	c      *Comm
	id     uint32 // its index in w.requests, for ever
	state  state
	flags  uint8
	coll   bool // part of a collective
	zombie bool // ended here while the peer may still answer
	gone   bool // released by its user
	waited bool // somebody waits for it
	env    envelope
	peer   *peer // the other rank, nil for this rank itself or not yet known
	buf    []byte
	typ    *element
	status Status
	err    error

	mem       vipl.MemHandle // buf's, in a rendezvous
	remote    target         // where a send's payload goes
	remoteID  uint32         // the receiver's request
	remoteSig uint32         // what the sender says of its elements
	accepted  int            // bytes that the receiver takes
	written   int            // bytes that have been written
	self      *inbound       // what a send to this rank waits as

	number uint64        // order of posting
	place  node[Request] // among the posted receives, or the sends that wait for credits
	desc   vipl.Descriptor
	segs   [1]vipl.Segment
}

// Status describes a message that was received or probed (MPI_Status). After a
// send it is zero.
type Status struct {
	Source int // rank in the communicator
	Tag    int
	Count  int // bytes; see Elements
}

// request takes a free request, or makes one.
func (w *world) request(c *Comm, buf []byte, s spec) *Request {
	var r *Request
	if last := len(w.free) - 1; last >= 0 {
		r, w.free = w.free[last], w.free[:last]
	} else {
		r = &Request{w: w, id: uint32(len(w.requests))}
		r.desc.Segs = r.segs[:]
		r.desc.Context = r
		w.requests = append(w.requests, r)
	}
	r.c, r.buf, r.typ, r.flags = c, buf, s.typ, s.flags
	r.coll = s.context&1 != 0
	r.zombie, r.gone, r.waited = false, false, false
	r.status, r.err = Status{}, nil
	return r
}

// release is called when the user has been told how r ended.
func (w *world) release(r *Request) {
	r.gone = true
	r.buf = nil
	if !r.zombie {
		w.recycle(r)
	}
}

func (w *world) recycle(r *Request) {
	r.state = stateFree
	r.peer, r.c, r.err = nil, nil, nil
	w.free = append(w.free, r)
}

// bury ends a zombie whose answer has come, or never will.
func (w *world) bury(r *Request) {
	r.zombie = false
	if r.gone {
		w.recycle(r)
	}
}

// complete ends r with err, or with success.
func (w *world) complete(r *Request, err error) {
	if r.mem != 0 {
		w.nic.DeregisterMem(r.mem)
		r.mem = 0
	}
	if r.err == nil || r.state == recvClear && err != nil { // then the message that r.err is about has not come
		r.err = err
	}
	r.state = stateDone
	if r.waited {
		w.notify()
	}
}

// cancel tries to end r now with err. It cannot when the buffer is in use: a
// write that is under way ends soon by itself, but a receive that has been
// cleared only when the sender's program has come by. To forbid the write
// instead would end the connection.
func (w *world) cancel(r *Request, err error) bool {
	switch r.state {
	case stateDone:
	case sendQueued:
		r.peer.queue.remove(&r.place)
		w.complete(r, err)
	case sendSync, sendReady:
		w.complete(r, err)
		r.zombie = true
		r.remoteID = 0
	case sendWriting:
		if !r.peer.pending.withdraw(r) {
			return false
		}
		w.complete(r, err)
	case sendSelf:
		w.match.removeMessage(r.self)
		w.spill.put(r.self)
		w.complete(r, err)
	case recvPosted:
		w.match.removeRecv(r)
		w.complete(r, err)
	default:
		return false
	}
	return true
}

// finish waits for r and gives it back. When ctx ends first, r is cancelled if
// it still can be, else finish goes on waiting: the peer is at the buffer.
func (w *world) finish(ctx context.Context, r *Request) (Status, error) {
	r.waited = true
	for r.state != stateDone {
		if err := w.step(ctx); err != nil && !w.cancel(r, err) {
			ctx = context.Background()
		}
	}
	st, err := r.status, r.err
	w.release(r)
	return st, err
}

// reported reports whether the caller has been told before how r ended, and has
// no right to it any more.
func (r *Request) reported() bool { return r.state == stateFree || r.gone }

func (r *Request) stale(op string) error {
	return opError(op, ErrRequest, "its completion has been reported before")
}

// Wait blocks until the operation has completed (MPI_Wait), or ctx ends: then
// the request stays in use and may be waited for again.
func (r *Request) Wait(ctx context.Context) (Status, error) {
	st, _, err := r.wait(ctx)
	return st, err
}

// wait is Wait and tells the end of r from that of ctx.
func (r *Request) wait(ctx context.Context) (st Status, ended bool, err error) {
	if err := checkContext(ctx); err != nil {
		return Status{}, false, err
	}
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for r.state != stateDone || r.gone {
		if r.reported() {
			return Status{}, true, r.stale("wait")
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
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.reported() {
		return Status{}, true, r.stale("test")
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

// Waitall waits for all requests (MPI_Waitall) and sets each element of reqs
// to nil as it completes; nil elements are passed over. Statuses, if not nil,
// must be as long as reqs. It waits for the others when one fails and returns
// the first error. When ctx ends, what is left of reqs is not nil.
func Waitall(ctx context.Context, reqs []*Request, statuses []Status) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	var first error
	for i, r := range reqs {
		if r == nil {
			continue
		}
		st, ended, err := r.wait(ctx)
		if !ended {
			return err
		}
		reqs[i] = nil
		if statuses != nil {
			statuses[i] = st
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Waitany waits for one of the requests (MPI_Waitany), sets its element of
// reqs to nil and returns its index; -1 if all elements are nil. When several
// have completed it takes the first in reqs.
func Waitany(ctx context.Context, reqs []*Request) (int, Status, error) {
	if err := checkContext(ctx); err != nil {
		return -1, Status{}, err
	}
	var w *world
	for _, r := range reqs {
		if r != nil {
			w = r.w
		}
	}
	if w == nil {
		return -1, Status{}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for i, r := range reqs {
			switch {
			case r == nil:
			case r.reported():
				reqs[i] = nil
				return i, Status{}, r.stale("wait")
			case r.state == stateDone:
				reqs[i] = nil
				st, err := w.finish(ctx, r)
				return i, st, err
			default:
				r.waited = true
			}
		}
		if err := w.step(ctx); err != nil {
			return -1, Status{}, err
		}
	}
}

// Testall reports whether all requests have completed (MPI_Testall). If so it
// ends them all, sets the elements of reqs to nil and returns the first error;
// if not, it ends none. Statuses is as for Waitall.
func Testall(reqs []*Request, statuses []Status) (done bool, err error) {
	for polled := false; ; polled = true {
		if pending := firstPending(reqs); pending == nil {
			return true, Waitall(context.Background(), reqs, statuses)
		} else if polled {
			return false, nil
		} else {
			pending.w.mu.Lock()
			pending.w.poll()
			pending.w.mu.Unlock()
		}
	}
}

func firstPending(reqs []*Request) *Request {
	for _, r := range reqs {
		if r == nil {
			continue
		}
		r.w.mu.Lock()
		done := r.state == stateDone || r.reported() // which Waitall tells
		r.w.mu.Unlock()
		if !done {
			return r
		}
	}
	return nil
}
