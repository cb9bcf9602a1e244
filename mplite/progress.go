package mplite

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/sparse"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// world is one rank's end of a job: everything that its communicators share. One mutex
// guards all of it. Goroutines wait at the completion queue, with the mutex released. A
// goroutine that returns from this wait handles the completions with the mutex held, and
// therefore in order. Each goroutine then checks whether its own condition is met.
type world struct {
	cfg      Config
	nic      *vipl.NIC
	own      bool // we opened nic
	cq       *seam.Queue
	job      joining.Job // finds the other ranks
	rank     int         // this rank's number, as in job
	size     int
	maxWrite int
	order    uint8                 // flagBig if programs here have big-endian numbers
	hosts    []int32               // by rank: the lowest rank on its host, see findHosts
	reader   optional.MemoryReader // nil if the memory of other processes cannot be read

	onUse  bool        // ranks connect on first use
	member *job.Member // set only if onUse, and used by this package alone

	mu        guard
	peers     sparse.Table[peer] // by rank; nil for this rank, and before the first use
	match     matcher
	requests  []*request // all requests, by id
	free      []*request
	detached  []*request // requests that their users freed before the end
	spill     spillPool
	landings  int // bytes of landing memory that others write to
	stages    stagePool
	emptied   *rxBuf // the receive buffer that was emptied last and is not posted again yet
	context   uint32 // next unused communicator number
	self      *Comm  // communicator of this rank alone, once Self was called
	dead      []*peer
	fatal     error // ends everything: abort, or the NIC failed
	ending    bool  // Finalize has been called
	saidBye   bool  // the others have been notified that this rank leaves
	leaving   bool  // the barrier in Finalize is over
	finalized bool
	comms     map[uint32]*Comm     // by context
	told      []toldOf             // reports about communicators that do not exist yet
	questions []question           // questions about calls that this rank has not made yet
	unasked   int                  // operations of collectives about which others have not been asked
	steps     int                  // steps since unasked is not 0, or since other ranks were asked
	due       []*schedule          // nonblocking collectives that can continue
	pulls     fifo.Queue[*request] // receives whose messages are to be copied from their senders
	shares    bool                 // the ranks share memory
	meets     []*request           // reads of shared memory that wait for other ranks
	waiting   int                  // goroutines that wait for an event
	probing   int                  // goroutines that wait for a message to probe
	changed   chan struct{}        // without a cq: closed when something has changed
	stats     Stats
	dialing   []*peer // attempts to connect on first use
	later     []*peer // ranks to ask again
	laterAt   int64   // when to ask them, on the NIC's clock
	parted    bool    // all ranks leave
	cause     error   // what Finalize returns
}

// step waits until an event has occurred and handles it. The mutex is held on entry and
// on return. The error is ctx's error, or the error that had already ended all work. All
// other errors end requests.
func (w *world) step(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if w.met() || w.canAdvance() {
		w.advance()
		return nil
	}
	w.askAgain()
	over := w.fatal
	err := w.wait(ctx)
	late := errors.Is(err, vipl.ErrNotDone)
	if late {
		err = nil
	}
	if w.cq != nil {
		done := w.cq.Reap()
		late = late && len(done) == 0
		w.handle(done)
	}
	w.stepped(late)
	w.advance()
	if err != nil {
		return w.waitFailed(ctx, err, over)
	}
	return nil
}

// wait releases the mutex until an event may have occurred. The error is vipl.ErrNotDone
// when this rank must ask other ranks; see patience.
func (w *world) wait(ctx context.Context) error {
	w.waiting++
	defer func() { w.waiting-- }()
	cq, patience := w.cq, w.patience()
	if cq == nil {
		return w.waitAlone(ctx)
	}
	seen := cq.Seen()
	w.repostEmptied()
	w.mu.Unlock()
	defer w.mu.Lock()
	return cq.WaitSince(ctx, patience, seen)
}

// waitAlone is wait in a job of one rank, which needs no network.
func (w *world) waitAlone(ctx context.Context) error {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	changed := w.changed
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitFailed distinguishes the end of a context from the end of the completion queue.
// over is the error that had already ended all work when the wait began.
func (w *world) waitFailed(ctx context.Context, err, over error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	switch {
	case errors.Is(err, vipl.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return err
	case over != nil: // it fails again
		return over
	default:
		w.shutdown(fmt.Errorf("mplite: %w", err))
	}
	return nil
}

// notify makes all waiting goroutines check their conditions again, because the caller
// has ended an operation that another goroutine waits for. If no other goroutine of the
// rank waits, there is nothing to wake.
func (w *world) notify() {
	switch {
	case w.waiting == 0:
	case w.cq != nil:
		w.cq.Wake()
	case w.changed != nil:
		close(w.changed)
		w.changed = nil
	}
}

// reapBatch is the maximum number of completions that one step or poll handles.
const reapBatch = 32

// poll handles completions without waiting. It may release the mutex meanwhile.
func (w *world) poll() {
	w.askAgain()
	w.reap()
	w.advance()
}

// reap handles only completions: it repeats no requests to connect, and runs neither
// schedules nor copies.
func (w *world) reap() {
	if w.cq == nil {
		return
	}
	w.repostEmptied()
	done, err := w.cq.Poll()
	if err != nil && !errors.Is(err, vipl.ErrNotDone) {
		w.shutdown(fmt.Errorf("mplite: %w", err))
	}
	w.handle(done)
}

// handle processes completions.
func (w *world) handle(done []seam.Completion) {
	for i := range done {
		c := &done[i]
		if c.Request != nil {
			w.job.Requested(c.Request)
			continue
		}
		p := c.VI.Context.(*peer)
		if p.state == peerAbsent && w.onUse {
			if w.connected(); p.state == peerAbsent {
				continue // the attempt to connect has failed
			}
		}
		if c.Recv {
			p.received(c.Descriptor)
		} else {
			p.sent(c.Descriptor)
		}
		if p.leaving {
			p.left()
		}
	}
}

// shutdown ends every operation, now and later, with err.
func (w *world) shutdown(err error) {
	if w.fatal != nil {
		return
	}
	w.fatal = err
	for _, p := range w.peers.All() {
		if p.state < peerDead {
			p.state, p.err = peerDead, err
			p.taken.Clear()
		}
	}
	for _, r := range w.requests {
		if r.state != stateFree && r.state != stateDone && r.state != collRunning && r.state != recvPulling && !w.cancel(r, err) {
			w.complete(r, err)
		}
	}
	w.notify()
}
