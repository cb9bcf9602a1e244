package endpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Request sends a short request of at most MaxShort arguments to the endpoint at index dest of the
// translation table (AM_Request). It may run handlers, as Poll does. Without a credit it waits and
// polls until ctx ends. Nil means that the request has been sent, or has been returned to the
// ReturnHandler because the connection broke. The caller may change args afterwards, and likewise
// data in the calls below.
//
// The error is a *ReturnedError if dest is not mapped or the arguments are invalid; the
// ReturnHandler has run then. Without a ReturnHandler this ends the process
// (SetReturnHandler). The error is ErrInHandler in a handler, that of ctx if no credit came
// back in time, and ErrInUse without a credit if Config.FailWithoutCredit is set.
func (ep *Endpoint) Request(ctx context.Context, dest int, handler uint8, args ...uint32) error {
	return ep.request(ctx, dest, &message{op: OpRequest, handler: handler, wait: true}, args, nil, nil)
}

// RequestMedium sends a request with a payload of at most Config.MaxMedium bytes (AM_RequestI). The
// handler gets the payload in the receive buffer. See Request.
func (ep *Endpoint) RequestMedium(ctx context.Context, dest int, handler uint8, data []byte, args ...uint32) error {
	return ep.request(ctx, dest, &message{op: OpRequestMedium, handler: handler, wait: true}, args, data, nil)
}

// RequestBulk places data, at most MaxBulk bytes, at offset in the destination's segment, and then runs
// the handler there (AM_RequestXfer). Data that do not fit into a medium message are sent straight from
// the caller's memory, usually after the destination has named the place. The call returns when they
// have arrived. If ctx ends before they are on their way, the call copies them and returns. After that
// it waits until they have arrived, or until the peer counts as dead (Config.PeerTimeout). See Request.
func (ep *Endpoint) RequestBulk(ctx context.Context, dest int, handler uint8, data []byte, offset uint64, args ...uint32) error {
	return ep.request(ctx, dest, &message{op: OpRequestBulk, handler: handler, offset: offset, wait: true, sync: true}, args, data, nil)
}

// RequestBulkAsync is RequestBulk without waiting (AM_RequestXferAsync). If there is no credit,
// even after a poll, it fails with ErrInUse. data must not change until the request has been
// answered or returned.
func (ep *Endpoint) RequestBulkAsync(dest int, handler uint8, data []byte, offset uint64, args ...uint32) error {
	return ep.request(context.Background(), dest, &message{op: OpRequestBulk, handler: handler, offset: offset}, args, data, nil)
}

// Get fetches length bytes at offset from of the destination's segment to offset to of this
// endpoint's segment. Then it runs the handler here, as a reply handler (AM_GetXfer). No handler
// runs at the destination. See Request.
func (ep *Endpoint) Get(ctx context.Context, dest int, handler uint8, from, to uint64, length int, args ...uint32) error {
	return ep.request(ctx, dest, &message{op: OpGet, handler: handler, offset: from, to: to, length: length, wait: true}, args, nil, nil)
}

// getSize is the size of a get's payload, in bytes: the destination offset of the data.
const getSize = 8

// message is a request, without the parts that would make it escape to the heap.
type message struct {
	op      Op
	handler uint8
	wait    bool // for a credit
	sync    bool // until bulk data may be changed
	offset  uint64
	to      uint64 // of a get
	length  int    // of a get
}

// request sends m.
func (ep *Endpoint) request(ctx context.Context, dest int, m *message, args []uint32, data []byte, call *call) error {
	n := ep.node
	n.lock()
	defer n.leave()
	if err := ep.bundle.enter(); err != nil {
		return err
	}
	if n.pacing.due(len(data)) {
		if err := n.pollIfDue(); err != nil {
			return err
		}
	}
	served := 0
	if ep.bundle.waits() {
		served = ep.bundle.serve(pollBatch)
	}
	if ep.freed {
		return ep.gone()
	}
	c, err := ep.send(ctx, dest, m, args, data, call)
	if err != errNoCredit {
		if n.pacing.oneByOne {
			n.pacing.left = n.way.Now()
		}
		return err
	}
	return ep.requestLater(ctx, dest, m, args, data, call, c, served)
}

// requestLater continues a request that had no credit, after served messages were handled. c is its
// connection, or nil if there is none yet.
func (ep *Endpoint) requestLater(ctx context.Context, dest int, m *message, args []uint32, data []byte, call *call, c *client, served int) error {
	var at stall
	defer at.leave()
	began := ep.node.way.Now()
	defer ep.node.waited(began)
	for polled := false; ; polled = true {
		if c != nil {
			at.join(c)
		}
		if err := ep.stall(ctx, dest, m, served, polled); err != nil {
			return err
		}
		served = 0
		if ep.bundle.waits() {
			served = ep.bundle.serve(pollBatch)
		}
		switch {
		case ep.freed:
			return ep.gone()
		case at.broken() && at.due():
			return at.comeBack(dest, m, args, data, call)
		case !at.broken():
			var err error
			if c, err = ep.send(ctx, dest, m, args, data, call); err != errNoCredit {
				return err
			}
		}
	}
}

// waited counts the time since began as spent waiting for a credit.
func (n *Node) waited(began int64) { n.stats.StallTime += time.Duration(n.way.Now() - began) }

// errNoCredit is send's internal result for a request that must wait.
var errNoCredit = errors.New("endpoint: no credit")

// send sends m if there is a credit. Otherwise it returns errNoCredit and the connection without
// credit. The connection is nil while requests of the previous one are still to return.
func (ep *Endpoint) send(ctx context.Context, dest int, m *message, args []uint32, data []byte, call *call) (*client, error) {
	if reason, detail := ep.examine(dest, m, args, data); reason != 0 {
		err := &ReturnedError{Op: m.op, Reason: reason, Detail: detail}
		if call == nil {
			ep.returnAtOnce(dest, m, args, data, err)
		}
		return nil, err
	}
	t := ep.translations[dest]
	if t.last != nil && t.returning() {
		return nil, errNoCredit
	}
	c, err := ep.connect(dest, t)
	if err != nil {
		return nil, err
	}
	i := c.claimSlot(m.op)
	if i < 0 {
		return c, errNoCredit
	}
	c.send(i, m, args, data, call, m.sync && ctx.Err() != nil)
	if n := ep.node; n.leader != nil { // another goroutine waits for what arrives
		n.way.Flush(wire.Asking)
	}
	if m.sync && c.slots[i].data != nil {
		ep.await(ctx, c, i)
	}
	return nil, nil
}

// stall waits until there may be a credit, after served messages were handled and no credit was
// found.
func (ep *Endpoint) stall(ctx context.Context, dest int, m *message, served int, polled bool) error {
	n := ep.node
	wait := m.wait && !n.cfg.FailWithoutCredit
	if wait || polled {
		n.stats.Stalls++
	}
	switch {
	case !wait && polled:
		return provider.OpError(m.op.String(), ErrInUse, "all credits of index %d are in use, or requests have yet to come back", dest)
	case !wait: // the answer may be there
		return n.poll()
	case served > 0:
		if err := n.poll(); err != nil {
			return err
		}
	}
	return ep.bundle.pause(ctx, served)
}

// examine returns the reason why a request is invalid, as far as this side can determine, or 0.
func (ep *Endpoint) examine(dest int, m *message, args []uint32, data []byte) (Reason, string) {
	if dest < 0 || dest >= len(ep.translations) || ep.translations[dest] == nil {
		return ReasonBadEntry, fmt.Sprintf("index %d of the translation table is not in use (call Map first)", dest)
	}
	if m.length < 0 || m.length > MaxBulk {
		return ReasonBadArgs, fmt.Sprintf("length %d is not in 0..%d (MaxBulk)", m.length, MaxBulk)
	}
	if detail := badArgs(m.op, args, data, ep.node.cfg.MaxMedium); detail != "" {
		return ReasonBadArgs, detail
	}
	return 0, ""
}

// returnAtOnce returns a request that cannot be sent.
func (ep *Endpoint) returnAtOnce(dest int, m *message, args []uint32, data []byte, err *ReturnedError) {
	var to Name
	if err.Reason != ReasonBadEntry {
		to = ep.translations[dest].to
	}
	ep.returnUnsent(dest, to, m, args, data, err.Reason, err)
}

// returnUnsent returns a request that was not sent.
func (ep *Endpoint) returnUnsent(dest int, to Name, m *message, args []uint32, data []byte, reason Reason, err error) {
	ep.giveBack(&Returned{Endpoint: ep, Reason: reason, Op: m.op, Dest: dest, To: to, Handler: m.handler,
		Args: append([]uint32(nil), args...), Data: data, Offset: m.offset, Length: max(len(data), m.length), Err: err})
}

// send builds the message in slot i and posts it. hurried means that the caller will not wait for bulk
// data to arrive: they are announced then, and meanwhile it copies them.
func (c *client) send(i int, m *message, args []uint32, data []byte, call *call, hurried bool) {
	s := &c.slots[i]
	s.call, s.awaited = call, m.sync && !hurried
	var h wire.Header
	h.Handler, h.Args, h.Slot, h.Use = m.handler, uint8(len(args)), uint16(i), s.use
	h.Tag, h.ReplyTag, h.Offset, h.Underway = c.tr.tag, c.ep.tag, m.offset, uint8(min(c.used, 255))
	switch m.op {
	case OpRequest:
		h.Kind = wire.KindShort
	case OpRequestMedium:
		h.Kind = wire.KindMedium
	case OpGet:
		h.Kind, h.Length = wire.KindGet, uint32(m.length)
	default:
		h.Kind, h.Length = wire.KindBulk, uint32(len(data))
		if len(data) > c.medium {
			h.Kind = wire.KindAnnounce
			s.data = data
			data = nil
		}
	}
	b := c.ch.Buffer(i)
	n := wire.PutArgs(b, h.Put(b), args)
	if m.op == OpGet {
		binary.LittleEndian.PutUint64(b[n:], m.to)
		n += getSize
	}
	s.n = n + copy(b[n:], data)
	c.ep.node.stats.Sent++
	c.ep.node.sent(s)
	if h.Kind == wire.KindAnnounce && !hurried && c.ch.Land(i, i, s.n, s.data, s.awaited) {
		s.cleared = true
		return
	}
	together := provider.CoalesceMost
	switch {
	case c.used == 1:
		together = 0
	case c.ep.node.pacing.oneByOne:
		together = provider.Uncork
	}
	c.ch.Post(i, s.n, together)
}

// await waits until the caller may change the data of the bulk request in slot i.
func (ep *Endpoint) await(ctx context.Context, c *client, i int) {
	s := &c.slots[i]
	use := s.use
	pending := func() bool { return s.use == use && s.state != slotFree && s.data != nil && !c.closed }
	for pending() {
		served := ep.bundle.serve(pollBatch)
		if !pending() {
			return
		}
		if err := ep.bundle.pause(ctx, served); err != nil {
			if s.use == use && s.data != nil && !s.cleared {
				s.data = append([]byte(nil), s.data...)
				return
			}
			if c.closed || ep.freed || ep.node.closed {
				return
			}
			ctx = context.Background() // it is being written, which does not take long
		}
	}
}
