package mplite

import (
	"context"

	"github.com/bobnet-go/bobnet/vipl"
)

// A send, from the call to the wire:
//
//	send, isend   check rank and tag; a message that is clear to send takes no request
//	beginSend     makes a request, which waits for credits if there are none
//	launch        sends the message; beyond the receiver's eager size to landing memory (landing.go),
//	              or announces it (rendezvous.go)
//	sendEager     spends a credit (peer.go)
//	post          puts header and payload into a bounce buffer and posts it
//	sent          frees the bounce buffer, and sends what waits
//
// The walk of a receive is in receive.go.

// spec is what a call adds to buffer, rank and tag.
type spec struct {
	context uint32
	flags   uint8 // flagBig, flagSync
	typ     *element
	call    uint64 // of a collective: see callSig
}

// user is the spec of a call by the user with elements of the given type.
func (c *Comm) user(typ *element) spec { return spec{context: c.context, flags: c.w.order, typ: typ} }

func (s spec) sync() spec {
	s.flags |= flagSync
	return s
}

// Send sends buf to rank dst (MPI_Send, MP_Send). It returns when buf may be reused: at once for
// messages up to the eager size while the receiver has room, and otherwise when the receiver has
// taken the message. A Send that waits ends when the receiver takes the message or dies, or when
// ctx ends.
func (c *Comm) Send(ctx context.Context, buf []byte, dst, tag int) error {
	return c.send(ctx, buf, dst, tag, c.user(rawBytes))
}

// Ssend is like Send, but returns only after a receive has matched (MPI_Ssend, MP_SSend).
func (c *Comm) Ssend(ctx context.Context, buf []byte, dst, tag int) error {
	return c.send(ctx, buf, dst, tag, c.user(rawBytes).sync())
}

// Isend starts a Send (MPI_Isend, MP_ASend). buf belongs to the library until the request has
// completed.
func (c *Comm) Isend(buf []byte, dst, tag int) (Request, error) {
	return handle(c.isend(buf, dst, tag, c.user(rawBytes)))
}

// Issend starts an Ssend (MPI_Issend).
func (c *Comm) Issend(buf []byte, dst, tag int) (Request, error) {
	return handle(c.isend(buf, dst, tag, c.user(rawBytes).sync()))
}

// Sendrecv sends and receives at the same time (MPI_Sendrecv, MP_SShift), so that a ring of ranks
// does not deadlock. The buffers must not overlap. It returns when both operations have ended, even
// if one of them fails. If both fail, it returns the error of the receive.
func (c *Comm) Sendrecv(ctx context.Context, sendbuf []byte, dst, sendtag int, recvbuf []byte, src, recvtag int) (Status, error) {
	return c.exchange(ctx, sendbuf, dst, sendtag, recvbuf, src, recvtag, c.user(rawBytes))
}

// send is every blocking send. The first branch is the fast path.
func (c *Comm) send(ctx context.Context, buf []byte, dst, tag int, s spec) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	w := c.w
	w.mu.Lock()
	if uint(dst) >= uint(c.ranks) || uint(tag) > MaxTag {
		err := c.badPeer("send", dst, tag)
		w.mu.Unlock()
		return err
	}
	if p := w.peers.At(int(c.group[dst])); p != nil && s.flags&flagSync == 0 && p.clearToSend(len(buf)) {
		p.sendEager(buf, tag, s, 0)
		w.mu.Unlock()
		return nil
	}
	_, err := w.finish(ctx, w.beginSend(c, c.peer(dst), buf, tag, s))
	w.mu.Unlock()
	return err
}

func (c *Comm) isend(buf []byte, dst, tag int, s spec) (*request, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.startSend(buf, dst, tag, s)
}

// startSend starts a send.
func (c *Comm) startSend(buf []byte, dst, tag int, s spec) (*request, error) {
	w := c.w
	if uint(dst) >= uint(c.ranks) || uint(tag) > MaxTag {
		if err := c.badPeer("send", dst, tag); err != nil {
			return nil, err
		}
		return c.nothing(s, Status{}), nil
	}
	return w.beginSend(c, c.peer(dst), buf, tag, s), nil
}

func (c *Comm) exchange(ctx context.Context, sendbuf []byte, dst, sendtag int, recvbuf []byte, src, recvtag int, s spec) (Status, error) {
	if err := checkContext(ctx); err != nil {
		return Status{}, err
	}
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if uint(dst) >= uint(c.ranks) || uint(sendtag) > MaxTag {
		if err := c.badPeer("send", dst, sendtag); err != nil {
			return Status{}, err
		}
	}
	recv, err := c.postRecv(recvbuf, src, recvtag, s)
	if err != nil {
		return Status{}, err
	}
	if dst == None {
		return w.finish(ctx, recv)
	}
	if p := w.peers.At(int(c.group[dst])); p != nil && p.clearToSend(len(sendbuf)) {
		p.sendEager(sendbuf, sendtag, s, 0)
		return w.finish(ctx, recv)
	}
	send := w.beginSend(c, c.peer(dst), sendbuf, sendtag, s)
	st, err := w.finish(ctx, recv)
	if err != nil && send.coll && !isTruncate(err) { // the collective has failed: no rank can use the data
		w.cancel(send, err)
	}
	if _, sendErr := w.finish(ctx, send); err == nil {
		err = sendErr
	}
	return st, err
}

func isTruncate(err error) bool {
	_, ok := err.(*TruncateError)
	return ok
}

// nothing returns an operation with None, which has ended.
func (c *Comm) nothing(s spec, st Status) *request {
	r := c.w.request(c, nil, s)
	r.status = st
	c.w.complete(r, nil)
	return r
}

// beginSend begins a send that cannot complete at once, or whose end must be reported.
func (w *world) beginSend(c *Comm, p *peer, buf []byte, tag int, s spec) *request {
	// Poll before the request exists: a message that arrives now may end all existing
	// requests.
	if p != nil && p.queue.head == nil && (p.credits == 0 || !p.Room()) {
		w.reap()
	}
	r := w.request(c, buf, s)
	r.env = envelope{context: s.context, src: int32(w.rank), tag: int32(tag)}
	r.peer = p
	r.state = sendQueued
	if w.fatal != nil {
		w.complete(r, w.fatal)
		return r
	}
	if p == nil {
		w.sendSelf(r)
		return r
	}
	switch {
	case p.state >= peerDead:
		w.complete(r, p.err)
	case r.coll && c.casualty() != nil:
		w.complete(r, c.casualty())
	case r.coll && c.log.overruled(int32(tag)) != nil:
		w.complete(r, c.log.overruled(int32(tag)))
	case p.state == peerAbsent:
		p.queue.push(&r.place, r)
		p.need()
	case p.queue.head != nil || p.credits == 0 || !p.Room() || p.state != peerLive:
		w.stats.CreditStalls++
		p.queue.push(&r.place, r)
	default:
		p.launch(r)
	}
	return r
}

// launch sends r's first message. The caller must have a credit and a bounce buffer. Up
// to the receiver's eager size, that is the message itself. Beyond this size, launch
// writes the message to landing memory or announces it.
func (p *peer) launch(r *request) {
	w := p.w
	s := spec{context: r.env.context, flags: r.flags, typ: r.typ, call: r.call}
	if len(r.buf) > p.eagerMax {
		if !p.sendLanding(r) {
			p.announce(r)
		}
		return
	}
	if r.flags&flagSync != 0 {
		r.state = sendSync
		p.sendEager(r.buf, int(r.env.tag), s, r.id)
		return
	}
	w.complete(r, nil) // the bounce buffer has it
	p.sendEager(r.buf, int(r.env.tag), s, 0)
}

// clearToSend reports whether an eager message of n bytes could go now.
func (p *peer) clearToSend(n int) bool {
	return p.credits > 0 && n <= p.eagerMax && p.queue.head == nil && p.Room() && p.state == peerLive
}

// sendEager sends buf at once. clearToSend must have returned true.
func (p *peer) sendEager(buf []byte, tag int, s spec, id uint32) {
	h := header{
		kind: kindEager, flags: s.flags, context: s.context,
		tag: int32(tag), size: uint64(len(buf)), sendID: id, recvID: s.typ.sig, call: s.call,
	}
	p.spend(&h)
	st := &p.w.stats
	st.EagerSent++
	st.BytesSent += uint64(len(buf))
	p.post(&h, buf)
}

// spend takes a data credit for h. If it was the last one, h notifies the receiver.
func (p *peer) spend(h *header) {
	if p.credits--; p.credits == 0 {
		h.flags |= flagHungry
	}
}

// post sends the header h and payload through the next bounce buffer, which
// must be free, with whatever credits are owed.
func (p *peer) post(h *header, payload []byte) {
	p.returns(h)
	mem := p.Next()
	n := h.put(mem)
	n += copy(mem[n:], payload)
	if err := p.Send(n); err != nil {
		p.refuses(err)
	}
}

// returns puts all credits and slots that this rank owes p into h.
func (p *peer) returns(h *header) {
	h.data, h.control, h.land = uint16(p.owed), uint8(p.owedControl), p.land.owed
	p.hungry = p.hungry && p.owed == 0 // p is hungry until h returns data credits
	p.owed, p.owedControl, p.land.owed = 0, 0, 0
}

// returned adds the credits and slots that h returns. It reports false if p returns slots that are
// already free.
func (p *peer) returned(h *header) bool {
	if l := &p.land; h.land != 0 {
		if l.at.handle == 0 || l.free&h.land != 0 {
			return false
		}
		l.free |= h.land
	}
	p.credits += int(h.data)
	p.control += int(h.control)
	return true
}

// refuses handles the case that p's VI accepts no descriptor, because the connection has
// ended. After this rank's goodbye, p's goodbye may still be in the completion queue. The
// posted receives complete after it. They report the failure if there is no goodbye.
func (p *peer) refuses(err error) {
	if !p.w.saidBye {
		p.fail(err)
	}
}

// sent takes back a send descriptor.
func (p *peer) sent(d *vipl.Descriptor) {
	if r, ok := d.Context.(*request); ok {
		p.writes--
		p.wrote(r, d)
	} else {
		p.Sent()
	}
	if d.Status.Failed() {
		p.fail(p.VI.Err())
		return
	}
	p.pump()
}

// Messages of a rank to itself never touch the network. Small ones are
// buffered in the spill pool, so that the send completes at once; large and
// synchronous ones wait in the matcher, their payload where it lies.

// sendSelf begins a send to this rank itself.
func (w *world) sendSelf(r *request) {
	w.stats.SelfMessages++
	if recv := w.match.arrive(&r.env); recv != nil {
		w.deliver(recv, r.env.tag, r.env.src, r.buf, w.order, r.typ.sig)
		w.complete(r, nil)
		return
	}
	var in *inbound
	if r.flags&flagSync == 0 && len(r.buf) <= w.cfg.EagerSize {
		in = w.spill.get(r.buf)
	}
	if in != nil {
		w.complete(r, nil)
	} else {
		in = w.spill.node()
		in.self, r.self = r, in
		r.state = sendSelf
	}
	in.env, in.kind, in.flags, in.sig, in.size = r.env, kindEager, w.order, r.typ.sig, uint64(len(r.buf))
	w.keepMessage(in)
}
