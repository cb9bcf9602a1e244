package mplite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// world is one rank's end of a job: everything that its communicators share.
// One mutex guards it all. Whoever waits drives it: one goroutine at a time,
// the leader, waits on the completion queue with the mutex released, others
// wait until the leader tells them that something changed.
type world struct {
	cfg      Config
	nic      *vipl.NIC
	own      bool // we opened nic
	cq       *vipl.CQ
	job      *job.Job // finds the other ranks
	rank     int      // as in job
	size     int
	maxWrite int
	order    uint8 // flagBig if programs here have big-endian numbers

	bell bell

	mu        sync.Mutex
	peers     []*peer // by rank, nil for this rank
	match     matcher
	requests  []*Request // every one there is, by id
	free      []*Request
	detached  []*Request // freed by their users before they ended
	spill     spillPool
	stages    stagePool
	emptied   *rxBuf // the last one that was, not posted again yet
	context   uint32 // next unused communicator number
	self      *Comm  // this rank alone, once somebody has asked for it
	dead      []*peer
	fatal     error // ends everything: abort, or the NIC failed
	ending    bool  // Finalize has been called
	leaving   bool  // the barrier in Finalize is over
	evicting  bool  // everything has ended, and Finalize waits for other goroutines to go
	finalized bool
	reaped    [reapBatch]vipl.Completion // of the leader, or of poll
	comms     map[uint32]*Comm           // by context
	told      []toldOf                   // of communicators not made yet
	questions []question                 // about calls not made yet
	unasked   int                        // operations of collectives about which others have not been asked
	steps     int                        // since there are any, or since others were asked
	due       []*schedule                // nonblocking collectives that can go on
	leading   bool                       // a goroutine waits on cq
	probing   int                        // goroutines that wait for a message to probe
	following int                        // goroutines that wait for changed
	changed   chan struct{}              // closed when something has changed
	stats     Stats
}

// step waits until something has happened and handles it. The mutex is held
// on entry and on return. Its error is that of ctx; everything else ends
// requests.
func (w *world) step(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if len(w.due) > 0 {
		w.advance()
		return nil
	}
	if w.leading || w.cq == nil {
		return w.follow(ctx)
	}
	w.repostEmptied()
	w.leading = true
	patience := w.patience()
	w.mu.Unlock()
	n, err := w.cq.ReapWaitFor(ctx, patience, w.reaped[:])
	w.mu.Lock()
	w.leading = false
	w.handle(w.reaped[:n])
	w.stepped(n == 0 && err == nil)
	w.advance()
	if w.following > 0 {
		w.tellFollowers()
	}
	if err != nil {
		return w.waitFailed(ctx, err)
	}
	return nil
}

// waitFailed tells the end of a context from that of the completion queue.
func (w *world) waitFailed(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	switch {
	case errors.Is(err, vipl.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return err
	case w.fatal != nil: // it fails again
		return err
	default:
		w.shutdown(fmt.Errorf("mplite: %w", err))
	}
	return nil
}

// follow waits while another goroutine leads.
func (w *world) follow(ctx context.Context) error {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	ch := w.changed
	var late <-chan time.Time // the leader may have begun to wait before there was anything to ask
	if d := w.patience(); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		late = timer.C
	}
	w.following++
	w.mu.Unlock()
	var err error
	overdue := false
	select {
	case <-ch:
	case <-late:
		overdue = true
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	w.following--
	if overdue {
		w.stepped(true)
	}
	if w.evicting {
		w.tellFollowers()
	}
	return err
}

// evict waits until no other goroutine waits here, all of whose operations have
// ended. One that leads may hold completions of memory that is about to go.
func (w *world) evict() {
	w.evicting = true
	for w.leading || w.following > 0 {
		w.notify()
		w.follow(context.Background())
	}
}

func (w *world) tellFollowers() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// notify wakes every goroutine that waits, because this one has ended
// something that another waits for. On the usual path, one goroutine a rank,
// there is nobody to wake.
func (w *world) notify() {
	if w.leading {
		w.bell.ring()
	}
	w.tellFollowers()
}

// reapBatch is the most completions that one step or poll handles.
const reapBatch = 32

// poll handles what has completed, without waiting. It may release the mutex
// meanwhile.
func (w *world) poll() {
	w.reap()
	w.advance()
}

// reap is poll without what is due then.
func (w *world) reap() {
	if w.leading || w.cq == nil {
		return
	}
	w.repostEmptied()
	n, err := w.cq.ReapDone(w.reaped[:])
	if err != nil && !errors.Is(err, vipl.ErrNotDone) {
		w.shutdown(fmt.Errorf("mplite: %w", err))
	}
	w.handle(w.reaped[:n])
}

// handle sees to what has completed.
func (w *world) handle(done []vipl.Completion) {
	for i := range done {
		c := &done[i]
		if c.Request != nil {
			w.job.Requested(c.Request)
			continue
		}
		p, ok := c.VI.Context.(*peer)
		switch {
		case !ok:
			w.bell.ringing = false
			continue
		case c.Recv:
			p.received(c.Descriptor)
		default:
			p.sent(c.Descriptor)
		}
		if p.leaving {
			p.left()
		}
	}
	clear(done)
}

// shutdown ends every operation, now and later, with err.
func (w *world) shutdown(err error) {
	if w.fatal != nil {
		return
	}
	w.fatal = err
	for _, p := range w.peers {
		if p != nil && p.state < peerDead {
			p.state, p.err = peerDead, err
		}
	}
	for _, r := range w.requests {
		if r.state != stateFree && r.state != stateDone && r.state != collRunning && !w.cancel(r, err) {
			w.complete(r, err)
		}
	}
}
