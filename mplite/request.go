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

// request is what a Request stands for. It serves one operation after another; its
// generation tells which one a Request means.
type request struct {
	w          *world
	c          *Comm
	generation uint64 // counts the operations whose users are done with them
	id         uint32 // its index in w.requests, for ever
	state      state
	flags      uint8
	coll       bool // part of a collective
	timeWait   bool // ended here while the peer may still answer
	gone       bool // released by its user
	waited     bool // somebody waits for it
	asked      bool // part of a collective, and nothing is to be asked about it any more
	env        envelope
	peer       *peer // the other rank, nil for this rank itself or not yet known
	buf        []byte
	typ        *element
	call       uint64 // of a collective: see callSig
	status     Status
	err        error

	mem       vipl.MemHandle // buf's, in a rendezvous
	remote    target         // where a send's payload goes
	remoteID  uint32         // the receiver's request
	remoteSig uint32         // what the sender says of its elements
	accepted  int            // bytes that the receiver takes
	written   int            // bytes that have been written
	self      *inbound       // what a send to this rank waits as

	sched *schedule // that it is part of
	stage []byte    // staging memory that buf is, or nil
	shape strided   // where the receive's elements go from there
	plan  *plan     // of a persistent request, which only stands for what it starts

	number uint64        // order of posting
	place  node[request] // among the posted receives, or the sends that wait for credits
	desc   vipl.Descriptor
	segs   [1]vipl.Segment
}

// Status describes a message that was received or probed (MPI_Status). After a
// send it is zero.
type Status struct {
	Source int // rank in the communicator
	Tag    int
	Count  int // bytes; see Elements

	// Canceled says that Cancel has ended the operation (MPI_Test_cancelled).
	Canceled bool
}

// empty is the status of what has not been started.
var empty = Status{Source: AnySource, Tag: AnyTag}

// request takes a free request, or makes one.
func (w *world) request(c *Comm, buf []byte, s spec) *request {
	if len(w.detached) > 0 {
		w.sweep()
	}
	var r *request
	if last := len(w.free) - 1; last >= 0 {
		r, w.free = w.free[last], w.free[:last]
	} else {
		r = &request{w: w, id: uint32(len(w.requests))}
		r.desc.Segs = r.segs[:]
		r.desc.Context = r
		w.requests = append(w.requests, r)
	}
	r.c, r.buf, r.typ, r.flags = c, buf, s.typ, s.flags
	r.call = s.call
	if r.coll = s.context&1 != 0; r.coll {
		r.asked = false
		w.unasked++
	}
	r.timeWait, r.gone, r.waited = false, false, false
	r.status, r.err = Status{}, nil
	return r
}

// release ends the user's claim on r: handles of it are stale from now on.
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

// endTimeWait gives up what is kept of a request whose answer has come, or never will.
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
	if r.err == nil || r.state == recvClear && err != nil { // then the message that r.err is about has not come
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

// cancel tries to end r now with err. It cannot when the buffer is in use: a
// write that is under way ends soon by itself, but a receive that has been
// cleared only when the sender's program has come by. To forbid the write
// instead would end the connection.
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
		if isMismatch(err) { // of which the receiver may not know yet
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
func (w *world) finish(ctx context.Context, r *request) (Status, error) {
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

// handle returns the caller's handle of an operation that has just been started.
func handle(r *request, err error) (Request, error) {
	if err != nil {
		return Request{}, err
	}
	return Request{r, r.generation}, nil
}

// Null reports whether r is the null request.
func (r Request) Null() bool { return r.of == nil }

// stale reports whether the end of the operation has been reported before, or the
// request has been freed. The caller must hold the mutex.
func (r Request) stale() bool { return r.of.generation != r.generation }

// over reports whether there is nothing to wait for: r is stale or its operation has
// ended. The caller must hold the mutex.
func (r Request) over() bool { return r.stale() || r.of.state == stateDone }

func stale(op string) error {
	return opError(op, ErrRequest, "its completion has been reported before, or it has been freed")
}
