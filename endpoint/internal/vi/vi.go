// Package vi is the provider over virtual interfaces.
//
// A channel is one VI: one for each translation that has been used, as in AMVIA, and not one for
// each pair of programs or bundles. An idle VI uses 1.1 KB. The rest of a connection's memory is
// the buffers that its credits stand for, which are needed in any case. In return no virtual
// network can use another's buffers or delay its messages. The window of a bulk transfer is open to
// exactly one peer, because each connection has its own protection tag. The connections of an
// endpoint end with the endpoint. AMVIA uses three VIs, one for each size of messages. Here one
// suffices, and keeps requests of all sizes in order, because every receive buffer holds every
// size.
//
// All VIs of a node share one completion queue. AMVIA has one for each bundle, but a VI is bound to
// its queue for life, and endpoints move between bundles.
package vi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/gate"
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// A bulk message is one RDMA write, so a VI has to carry the longest one.
const _ = uint(vipl.MaxTransferSize - provider.MaxBulk)

// Config configures Open.
type Config struct {
	NIC         *vipl.NIC // nil: Open opens one, on Interface and Ports
	Interface   string
	Ports       transport.PortRange
	PeerTimeout time.Duration
}

// Provider implements provider.Provider. NIC is the one that it uses.
type Provider struct {
	up        provider.Host
	memory    *provider.Budget
	count     *provider.Corked
	NIC       *vipl.NIC
	own       bool          // Open opened the NIC
	timeout   time.Duration // of silent peers
	cq        *seam.Queue
	entries   int // entries that the completion queue needs
	listener  *vipl.Listener
	accepting []*channel    // channels whose handshakes are in progress
	failed    []*channel    // channels whose posts have failed
	corked    [2][]*channel // by side: channels that may have corked messages
	flying    int           // VI messages and writes in flight
	spare     provider.Packets
	late      []*channel // channels that have a receive to post
}

// Open opens the provider of the node up. Connections are charged to the budget memory. count
// returns to the node how many messages are corked. ctx limits only the call.
func Open(ctx context.Context, c Config, up provider.Host, memory *provider.Budget, count *provider.Corked) (*Provider, error) {
	w := &Provider{up: up, memory: memory, count: count, NIC: c.NIC, timeout: cmp.Or(c.PeerTimeout, defaultPeerTimeout), entries: 16}
	var err error
	if w.NIC == nil {
		if w.NIC, err = openNIC(ctx, &c); err != nil {
			return nil, err
		}
		w.own = true
	}
	if err = w.open(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *Provider) open() (err error) {
	if w.cq, err = seam.NewQueue(w.NIC, w.entries, 64); err != nil {
		return err
	}
	if w.listener, err = w.NIC.Listen(0); err == nil {
		err = w.listener.Bind(w.cq.CQ)
	}
	return err
}

// Addr returns the address at which the node accepts connections.
func (w *Provider) Addr() ethertype.Addr { return w.listener.Addr() }

// Now returns the time of the NIC, in nanoseconds.
func (w *Provider) Now() int64 { return w.NIC.Now() }

// Virtual reports whether that time is virtual.
func (w *Provider) Virtual() bool { return seam.Link(w.NIC).Info().Virtual }

// Opened does nothing: the provider learns of endpoints from requests for connections.
func (w *Provider) Opened(uint32) {}

// Tagged does nothing, like Opened.
func (w *Provider) Tagged(uint32, wire.Tag) {}

// Ended does nothing, like Opened.
func (w *Provider) Ended(uint32) {}

// Advertise lets others look up the node by a name.
func (w *Provider) Advertise(name string) error { return w.NIC.Advertise(name, w.Addr()) }

// Withdraw undoes Advertise.
func (w *Provider) Withdraw(name string) { w.NIC.Withdraw(name) }

// Lookup asks the segment, or the NIC at an address, for a name.
func (w *Provider) Lookup(ctx context.Context, at ethertype.Addr, name string) (ethertype.Addr, error) {
	return w.NIC.LookupAt(ctx, at, name)
}

// drainTime is long enough to retransmit lost messages several times.
const drainTime = time.Second

// Drain implements provider.Provider.
func (w *Provider) Drain(owes func() bool) {
	w.Flush(wire.Asking)
	w.Flush(wire.Serving)
	ctx, cancel := w.NIC.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for (w.flying > 0 || w.count[wire.Asking] > 0 || owes()) && w.Wait(ctx) == nil {
		w.Deliver(false)
		w.Flush(wire.Asking)
	}
}

// Close closes the NIC, too, if Open opened it.
func (w *Provider) Close() error {
	if w.listener != nil {
		w.listener.Close()
	}
	if w.cq != nil {
		w.cq.Close()
	}
	if w.own {
		return w.NIC.Close()
	}
	return nil
}

// Poll implements provider.Provider. Completions of sends in the queue would keep it from looking
// at the link, so it looks again if it found nothing else.
func (w *Provider) Poll() error {
	w.CatchUp()
	for more := true; more; {
		done, err := w.cq.Poll()
		if err != nil && !errors.Is(err, vipl.ErrNotDone) {
			return fmt.Errorf("%w: %w", provider.ErrClosed, err)
		}
		more = len(done) > 0
		for i := range done {
			more = more && done[i].Descriptor != nil && !done[i].Recv
		}
		w.handOn(done, false)
	}
	return nil
}

// Gate returns a gate of the NIC's engine.
func (w *Provider) Gate() provider.Gate { return gate.New(seam.EngineOf(w.NIC)) }

// defaultPeerTimeout is longer than vipl's. A message to a peer that counts as dead returns, which ends
// most programs, and a process on a busy host can be without a processor for 10 s.
const defaultPeerTimeout = 15 * time.Second

// patience returns the time limit of a handshake. It is at least the time limit of silent peers: a
// peer that does not answer a request may lack a processor, as one that does not acknowledge.
func (w *Provider) patience() time.Duration {
	return max(w.timeout, vipl.DefaultConnectTimeout)
}

// Wait implements provider.Provider. A failed handshake makes no completion. So while handshakes
// are in progress, Wait returns when their time limit has passed, and Deliver then checks them.
func (w *Provider) Wait(ctx context.Context) error {
	over := time.Duration(0) // no limit
	if len(w.accepting) > 0 {
		over = w.patience()
	}
	switch err := w.cq.WaitSince(ctx, over, w.cq.Seen()); {
	case err == nil, errors.Is(err, vipl.ErrNotDone):
		return nil
	case !errors.Is(err, vipl.ErrTimeout):
		return fmt.Errorf("%w: %w", provider.ErrClosed, err)
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// Wake implements provider.Provider.
func (w *Provider) Wake() { w.cq.Wake() }

// Deliver implements provider.Provider.
func (w *Provider) Deliver(atOnce bool) (handled bool) {
	return w.handOn(w.cq.Reap(), atOnce)
}

// handOn passes on reaped completions. If atOnce is set and the only one is a VI message, the half
// may handle it at once.
func (w *Provider) handOn(done []seam.Completion, atOnce bool) (handled bool) {
	if ch, x := onlyMessage(done); ch != nil && atOnce {
		handled = ch.arrivedAlone(x) // from here on another goroutine may be in Wait
	} else {
		for i := range done {
			w.complete(&done[i])
		}
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

// onlyMessage returns the VI message and its channel if it is the only completion, and nil
// otherwise.
func onlyMessage(done []seam.Completion) (*channel, *receiveBuffer) {
	if len(done) != 1 {
		return nil, nil
	}
	c := &done[0]
	if c.Err != nil || c.Descriptor == nil || c.Descriptor.Status != vipl.StatusDone|vipl.StatusOpReceive {
		return nil, nil
	}
	ch, _ := c.VI.Context.(*channel)
	x, _ := c.Descriptor.Context.(*receiveBuffer)
	if ch == nil || x == nil || ch.closed || ch.broken {
		return nil, nil
	}
	return ch, x
}

// complete passes on one completion.
func (w *Provider) complete(c *seam.Completion) {
	if c.Request != nil {
		w.accept(c.Request)
		return
	}
	ch, ok := c.VI.Context.(*channel)
	switch {
	case !ok || ch.closed || ch.broken:
		return
	case c.Err != nil:
		ch.fail()
		return
	}
	switch x := c.Descriptor.Context.(type) {
	case *receiveBuffer:
		if c.Descriptor.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
			ch.written(x)
			return
		}
		ch.arrived(x, int(c.Descriptor.Length))
	case *sendBuffer:
		ch.landed(x)
	case *bulkWrite:
		x.busy = false
		ch.writings--
		w.flying--
		w.NIC.DeregisterMem(x.data)
		ch.up.Wrote(x.slot)
	}
}

// handshakesEach is how many handshakes checkHandshakes checks in a call.
const handshakesEach = 64

// checkHandshakes removes finished handshakes from the list, and ends the channels of those that
// have failed. It checks the oldest ones and moves the unfinished ones to the end of the list, so
// that thousands of handshakes do not delay the messages of established connections. It reads each
// state only once: another goroutine may drive the NIC, and the state may change between two reads.
func (w *Provider) checkHandshakes() {
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

// accept accepts or refuses one request. It sends the reason of a refusal to the requester, by
// name.
func (w *Provider) accept(r *vipl.Request) {
	var h wire.Hello
	if !h.Parse(r.Data()) {
		w.up.Stray()
		r.Reject("this node speaks another version of AM-II's protocol: build all programs from one source")
		return
	}
	if own := r.Remote().MAC; h.From.Addr.MAC != own {
		w.up.Stray()
		r.Reject("the name says that its endpoint is at " + h.From.Addr.MAC.String() + ", and the request is from " + own.String())
		return
	}
	up, reason := w.up.Admit(&h)
	var ch *channel
	if reason == 0 {
		if ch = w.acceptChannel(r, &h, up); ch == nil {
			reason = wire.ReasonCongestion
		}
	}
	if reason != 0 {
		w.up.Refused(reason)
		r.Reject(reason.String())
		return
	}
	w.up.Attach(up, ch)
	w.accepting = append(w.accepting, ch)
}

// acceptChannel makes the channel of an accepted connection. It returns nil if it cannot, usually because
// the budget is exhausted.
func (w *Provider) acceptChannel(r *vipl.Request, h *wire.Hello, up provider.Half) *channel {
	size := h.Shape.Memory(wire.Serving)
	if !w.memory.Take(r.Remote().MAC, size) {
		return nil
	}
	ch, err := w.channel(h.Shape, wire.Serving, up)
	if err != nil {
		w.memory.Give(r.Remote().MAC, size)
		return nil
	}
	ch.station, ch.taken = r.Remote().MAC, size
	if r.AcceptStart(ch.vi) != nil {
		ch.Close()
		return nil
	}
	return ch
}

// Dial begins to connect a VI.
func (w *Provider) Dial(to wire.Name, greeting wire.Hello, up provider.Half) (provider.Channel, error) {
	ch, err := w.channel(greeting.Shape, wire.Asking, up)
	if err != nil {
		return nil, err
	}
	if err := ch.vi.ConnectStart(to.Addr, greeting.Append(make([]byte, 0, wire.HelloSize))); err != nil {
		ch.Close()
		return nil, provider.OpError("connect", orClosed(err, provider.ErrArgument), "to %v: %v", to, err)
	}
	return ch, nil
}
