package endpoint

import (
	"context"
	"runtime"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/internal/fifo"
)

// BundleType determines which goroutines may use a bundle.
type BundleType uint8

// The types of bundles.
const (
	// Sequential (AM_SEQ): one goroutine at a time. Handlers run one at a time. Calls that handlers
	// must not make fail with ErrInHandler.
	Sequential BundleType = iota
	// Parallel (AM_PAR): any number of goroutines. Handlers of messages from different connections
	// may run at the same time. Handlers of messages from one connection run one after the other,
	// in order. Handlers must not send requests, although this cannot be detected: two handlers
	// that wait for each other's credits wait for ever.
	Parallel
)

// EventMask selects the events that post a bundle's semaphore.
type EventMask uint8

// The event masks.
const (
	NoEvents EventMask = iota // AM_NOEVENTS
	NotEmpty                  // AM_NOTEMPTY: a message waits for its handler
)

// pollBatch is the maximum number of messages that one poll handles. AMUDP's is 10 or the depth
// (AM2 reference, section 9).
const pollBatch = 64

// Bundle is a set of endpoints that are polled and waited for together (eb_t). Its type determines
// whether goroutines may share it.
type Bundle struct {
	node      *Node
	kind      BundleType
	endpoints set[*Endpoint]
	replies   fifo.Queue[*client] // with answers to handle
	requests  fifo.Queue[*server] // with requests to handle
	mask      EventMask
	posted    bool // the semaphore
	running   int  // handlers
	following int  // goroutines that wait for the leader
	freed     bool
}

// NewBundle creates a bundle (AM_AllocateBundle).
func (n *Node) NewBundle(t BundleType) (*Bundle, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errNodeClosed
	}
	if t > Parallel {
		return nil, provider.OpError("new bundle", ErrArgument, "unknown type %d", t)
	}
	b := &Bundle{node: n, kind: t}
	n.bundles.add(b)
	return b, nil
}

// Free frees the bundle and its endpoints (AM_FreeBundle). Calls that wait return ErrClosed. It
// fails with ErrInUse while a handler of the bundle is running. Freeing twice does nothing.
func (b *Bundle) Free() error {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	if b.running > 0 {
		return provider.OpError("free bundle", ErrInUse, "%d of its handlers are running", b.running)
	}
	b.free()
	return nil
}

func (b *Bundle) free() {
	b.freed = true
	for _, ep := range b.endpoints.all() {
		ep.free()
	}
	b.changed()
	b.node.bundles.remove(b)
}

// enter must be called first in every call that polls or sends.
func (b *Bundle) enter() error {
	switch {
	case b.freed || b.node.closed:
		return b.gone()
	case b.running > 0 && (b.kind == Sequential || inHandler()):
		return ErrInHandler
	}
	return nil
}

// Poll receives messages and runs their handlers, at most a few dozen per call (AM_Poll). It
// returns the number of handled messages, and does not block.
func (b *Bundle) Poll() (int, error) {
	served, crowded, err := b.poll()
	if crowded { // another goroutine may be about to send what the next poll would find
		runtime.Gosched()
	}
	return served, err
}

// poll implements Poll. It also reports whether to yield the processor to others.
func (b *Bundle) poll() (served int, crowded bool, err error) {
	n := b.node
	n.lock()
	defer n.mu.Unlock()
	if err := b.enter(); err != nil {
		return 0, false, err
	}
	if err := n.poll(); err != nil {
		return 0, false, err
	}
	served = b.serve(pollBatch)
	n.flush()
	n.stamp()
	if crowded = served == 0 && n.crowded > 0; crowded {
		n.crowded--
	}
	return served, crowded, nil
}

// serve handles up to limit messages. It handles answers first, because goroutines wait for them
// and they need no resources. Connections take turns, so that no sender waits for another's flood
// of messages.
//
// While answers are batched, serve checks whether more requests arrive. So a busy server answers in
// fewer VI messages. Then it sends the batch.
func (b *Bundle) serve(limit int) (served int) {
	defer b.sendAnswers() // also if a handler ends the goroutine
	for more := true; more && served < limit; more = b.moreComes() {
		served += b.handle(limit - served)
	}
	if b.pending() { // remaining messages count as a new event
		b.event(b.posts())
	}
	return served
}

// pending reports whether messages wait for their handlers.
func (b *Bundle) pending() bool { return b.replies.Len()+b.requests.Len() > 0 }

// waits reports whether serve has anything to handle.
func (b *Bundle) waits() bool {
	return b.pending() || b.node.corked[wire.Serving] > 0
}

// sendAnswers sends the batched answers.
func (b *Bundle) sendAnswers() {
	if b.node.corked[wire.Serving] > 0 {
		b.node.way.Flush(wire.Serving)
	}
}

// answerPolls is how often moreComes polls. That takes a few microseconds, in which the sender of a
// stream of messages sends the next one.
const answerPolls = 32

// moreComes polls for further messages while answers are batched.
func (b *Bundle) moreComes() bool {
	n := b.node
	for i := 0; i < answerPolls && n.corked[wire.Serving] > 0 && n.leader == nil; i++ {
		if n.poll() != nil {
			return false
		}
		if b.pending() {
			return true
		}
	}
	return false
}

// handle is serve without polling for further messages.
func (b *Bundle) handle(limit int) (served int) {
	for served < limit {
		if b.replies.Len() > 0 {
			c := b.replies.Pop()
			c.queued = false
			served += c.serve(b, limit-served)
			continue
		}
		if b.requests.Len() == 0 {
			break
		}
		s := b.requests.Pop()
		s.queued = false
		served += s.serve(b, limit-served)
	}
	return served
}

// posts reports whether messages wait for handlers of endpoints whose events post the semaphore.
func (b *Bundle) posts() bool {
	for i := range b.replies.Len() {
		if !(*b.replies.At(i)).ep.silent {
			return true
		}
	}
	for i := range b.requests.Len() {
		if !(*b.requests.At(i)).ep.silent {
			return true
		}
	}
	return false
}

// event records that there is a message to handle. posts reports whether the endpoint's events post
// the semaphore.
func (b *Bundle) event(posts bool) {
	if posts && b.mask == NotEmpty {
		b.posted = true
	}
	if b.following > 0 || b.node.leader == b {
		b.changed()
	}
}

// EventMask returns the mask (AM_GetEventMask).
func (b *Bundle) EventMask() EventMask {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	return b.mask
}

// SetEventMask sets the mask (AM_SetEventMask). The initial mask is NoEvents. A message that
// already waits is an event. Endpoint.SetEventMask masks single endpoints.
func (b *Bundle) SetEventMask(mask EventMask) error {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	if mask > NotEmpty {
		return provider.OpError("set event mask", ErrArgument, "unknown event mask %d", mask)
	}
	b.mask = mask
	b.posted = mask == NotEmpty && b.posts()
	return nil
}

// Wait blocks until the semaphore is posted, and takes it (AM_WaitSema), or until ctx ends. It runs
// no handler: Poll does. In the pattern of the virtual-network paper a server waits, clears the
// mask, polls until no message is left, sets the mask, and waits again. The message that posted the
// semaphore may already have been handled.
func (b *Bundle) Wait(ctx context.Context) error {
	n := b.node
	n.mu.Lock()
	defer n.leave()
	for first := true; ; first = false {
		if err := b.enter(); err != nil {
			return err
		}
		if b.mask == NoEvents {
			return ErrNoEvents
		}
		if b.posted {
			b.posted = false
			n.way.Flush(wire.Asking)
			return nil
		}
		if first {
			if err := n.poll(); err != nil {
				return err
			}
			continue
		}
		if _, err := b.step(ctx, false); err != nil {
			return err
		}
	}
}

// WaitPoll polls until it has handled a message. It blocks until a message arrives or ctx
// ends. It ignores the event mask.
func (b *Bundle) WaitPoll(ctx context.Context) (int, error) {
	n := b.node
	n.mu.Lock()
	defer n.leave()
	for {
		if err := b.enter(); err != nil {
			return 0, err
		}
		served, err := b.serve(pollBatch), error(nil)
		if served == 0 {
			var handled bool
			if handled, err = b.step(ctx, true); handled {
				served = 1
			}
		}
		if served > 0 && n.corked[wire.Asking] > 0 {
			n.way.Flush(wire.Asking)
		}
		if served > 0 || err != nil {
			return served, err
		}
	}
}
