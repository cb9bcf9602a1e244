package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// The provider over virtual interfaces.
//
// A channel is one VI: one for each translation that has been used, as AMVIA
// has it, and not one for each pair of programs or bundles. An idle VI takes 1.1
// KB, and what a connection takes else are the buffers that its credits stand
// for, which have to be somewhere. In return no virtual network can take
// another's buffers or hold up its messages, a bulk transfer's window is open
// to exactly one peer (each connection has a protection tag of its own), and an
// endpoint's end is its connections' end. AMVIA takes three VIs, one for each
// size; one is enough, and keeps requests of all sizes in order, because every
// receive buffer takes every size.
//
// All VIs of a node share one completion queue, not one for each bundle, as
// AMVIA has it: a VI is bound to its queue for life, and endpoints move.

// viWay is the provider.
type viWay struct {
	node      *Node
	nic       *vipl.NIC
	cq        *vipl.CQ
	entries   int // that the completion queue should have
	listener  *vipl.Listener
	accepting []*viChannel    // whose handshakes are under way
	failed    []*viChannel    // found broken by a post
	corked    [2][]*viChannel // by side: those that may have corked something
	flying    int             // VI messages and writes under way
	spare     packets
	late      []*viChannel // that have a receive to post
	reaped    [64]vipl.Completion
	n         int    // of reaped
	seen      uint32 // of the completion queue, at the last look
}

func openVIs(n *Node) (*viWay, error) {
	w := &viWay{node: n, nic: n.nic, entries: 16}
	var err error
	if w.cq, err = w.nic.CreateCQ(w.entries); err != nil {
		return nil, err
	}
	if w.listener, err = w.nic.Listen(0); err == nil {
		w.listener.RequireProof() // a connection takes memory, as much as who asks for it says
		err = w.listener.Bind(w.cq)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *viWay) addr() ethertype.Addr { return w.listener.Addr() }

func (w *viWay) now() int64 { return w.nic.Now() }

// It learns of endpoints when they are asked for.
func (w *viWay) opened(uint32) {}
func (w *viWay) ended(uint32)  {}

func (w *viWay) advertise(name string) error { return w.nic.Advertise(name, w.addr()) }
func (w *viWay) withdraw(name string)        { w.nic.Withdraw(name) }

func (w *viWay) lookup(ctx context.Context, name string) (ethertype.Addr, error) {
	return w.nic.Lookup(ctx, name)
}

// drainTime is long enough to send what was lost again a few times.
const drainTime = time.Second

// drain is provider's.
func (w *viWay) drain(owes func() bool) {
	w.flush(asking)
	w.flush(serving)
	ctx, cancel := w.nic.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for (w.flying > 0 || w.node.corked[asking] > 0 || owes()) && w.wait(ctx) == nil {
		w.deliver(nil)
		w.flush(asking)
	}
}

func (w *viWay) close() {
	if w.listener != nil {
		w.listener.Close()
	}
	w.cq.Close()
}

// poll is provider's. Completions of sends that wait in the queue would keep it
// from looking at the link, so it looks again if there was nothing else.
func (w *viWay) poll() error {
	w.catchUp()
	for more := true; more; {
		n, err := w.cq.ReapDone(w.reaped[:])
		if err != nil && !errors.Is(err, vipl.ErrNotDone) {
			return fmt.Errorf("%w: %w", ErrClosed, err)
		}
		w.n = n
		more = n > 0
		for i := range w.reaped[:n] {
			more = more && w.reaped[i].Descriptor != nil && !w.reaped[i].Recv
		}
		w.handOn(nil)
	}
	return nil
}

// wait is provider's. No completion tells of a handshake that has failed, so
// while some are under way it returns when they are over, for deliver to see.
func (w *viWay) wait(ctx context.Context) error {
	over := time.Duration(0) // never
	if len(w.accepting) > 0 {
		over = vipl.DefaultConnectTimeout
	}
	switch err := w.cq.WaitSince(ctx, over, w.seen); {
	case err == nil, errors.Is(err, vipl.ErrNotDone):
		return nil
	case !errors.Is(err, vipl.ErrTimeout):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// wake is provider's.
func (w *viWay) wake() { w.cq.Wake() }

// deliver is provider's.
func (w *viWay) deliver(b *Bundle) (handled int) {
	w.n, w.seen = w.cq.Reap(w.reaped[:])
	return w.handOn(b)
}

// handOn hands on what has been reaped. A message that is all of it may be handled at
// once, on behalf of bundle b.
func (w *viWay) handOn(b *Bundle) (handled int) {
	if ch, x := w.lone(b); ch != nil {
		w.reaped[0], w.n = vipl.Completion{}, 0
		handled = ch.arrivedAlone(x, b) // from here on another goroutine may be in wait
	} else {
		for i := range w.reaped[:w.n] {
			w.complete(&w.reaped[i])
			w.reaped[i] = vipl.Completion{}
		}
		w.n = 0
	}
	for len(w.failed) > 0 {
		ch := w.failed[0]
		w.failed = w.failed[1:]
		ch.fail()
	}
	if len(w.accepting) > 0 {
		w.checkHandshakes()
	}
	return handled
}

// lone returns the only completion that there is, if it is of a receive that bundle
// b may have been waiting for.
func (w *viWay) lone(b *Bundle) (*viChannel, *viReceive) {
	c := &w.reaped[0]
	if w.n != 1 || b == nil || c.Err != nil || c.Descriptor == nil || c.Descriptor.Status != vipl.StatusDone|vipl.StatusOpReceive {
		return nil, nil
	}
	ch, _ := c.VI.Context.(*viChannel)
	x, _ := c.Descriptor.Context.(*viReceive)
	if ch == nil || x == nil || ch.closed || ch.broken {
		return nil, nil
	}
	return ch, x
}

// complete hands on one completion.
func (w *viWay) complete(c *vipl.Completion) {
	if c.Request != nil {
		w.accept(c.Request)
		return
	}
	ch, ok := c.VI.Context.(*viChannel)
	switch {
	case !ok || ch.closed || ch.broken:
		return
	case c.Err != nil:
		ch.fail()
		return
	}
	switch x := c.Descriptor.Context.(type) {
	case *viReceive:
		if c.Descriptor.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
			ch.written(x)
			return
		}
		ch.arrived(x, int(c.Descriptor.Length))
	case *viSend:
		ch.landed(x)
	case *viWrite:
		x.busy = false
		ch.writings--
		w.flying--
		w.nic.DeregisterMem(x.segs[0].Handle)
		ch.up.wrote(x.slot)
	}
}

// handshakesEach is how many handshakes checkHandshakes looks at.
const handshakesEach = 64

// checkHandshakes forgets the handshakes that are over, and ends what failed. It looks at the
// oldest ones, and puts those that are not over behind the others, so that thousands do
// not hold up the messages of those that are. It looks once at each: others may drive
// the NIC, and a handshake end between two looks.
func (w *viWay) checkHandshakes() {
	for range min(handshakesEach, len(w.accepting)) {
		ch := w.accepting[0]
		w.accepting[0] = nil
		w.accepting = w.accepting[1:]
		switch state := ch.vi.State(); {
		case ch.closed || ch.broken || state == vipl.StateConnected:
		case state == vipl.StateConnectPending:
			w.accepting = append(w.accepting, ch)
		default:
			ch.fail()
		}
	}
}

// accept accepts or refuses one request. The requester learns the reason by its
// name.
func (w *viWay) accept(r *vipl.Request) {
	var h hello
	if !h.parse(r.Data()) {
		w.node.stats.Strays++
		r.Reject("this node speaks another version of AM-II's protocol: build all programs from one source")
		return
	}
	up, reason := w.node.admit(&h)
	if reason != 0 {
		w.node.stats.Refused[reason]++
		r.Reject(reason.String())
		return
	}
	ch, err := w.channel(h.shape, serving, up)
	if err == nil {
		if err = r.AcceptStart(ch.vi); err != nil {
			ch.close()
		}
	}
	if err != nil {
		w.node.stats.Refused[ReasonCongestion]++
		r.Reject(ReasonCongestion.String())
		return
	}
	w.node.attach(up, ch)
	w.accepting = append(w.accepting, ch)
}

func (w *viWay) dial(to Name, greeting hello, up half) (channel, error) {
	ch, err := w.channel(greeting.shape, asking, up)
	if err != nil {
		return nil, err
	}
	if err := ch.vi.ConnectStart(to.Addr, greeting.append(make([]byte, 0, helloSize))); err != nil {
		ch.close()
		return nil, opError("connect", orClosed(err, ErrBadArg), "to %v: %v", to, err)
	}
	return ch, nil
}
