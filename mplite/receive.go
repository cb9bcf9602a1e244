package mplite

import (
	"context"

	"github.com/bobnet-go/bobnet/vipl"
)

// A receive, from both sides:
//
//	postRecv        takes a message that waits (receiveKept), or waits among the posted receives (match.go)
//	received        takes each message that comes from a peer, of any kind
//	arrived         finds the receive of an eager message or an announcement; without one, keep (spill.go)
//	deliver         copies the payload and ends the receive; rendezvous.go has long messages
//	repostEmptied   posts the receive buffer again, whose credit goes back (peer.go)

// Recv receives the oldest message from src or AnySource, with tag or AnyTag (MPI_Recv, MP_Recv).
// The message may be shorter than buf. If it is longer, it fills buf and the error is a
// TruncateError. ctx ends the call unless a message beyond the eager size has been matched: see
// Progress in the package comment.
func (c *Comm) Recv(ctx context.Context, buf []byte, src, tag int) (Status, error) {
	return c.recv(ctx, buf, src, tag, c.user(rawBytes))
}

// Irecv starts a Recv (MPI_Irecv, MP_ARecv). buf belongs to the library until the request has
// completed.
func (c *Comm) Irecv(buf []byte, src, tag int) (Request, error) {
	return handle(c.irecv(buf, src, tag, c.user(rawBytes)))
}

func (c *Comm) recv(ctx context.Context, buf []byte, src, tag int, s spec) (Status, error) {
	if err := checkContext(ctx); err != nil {
		return Status{}, err
	}
	w := c.w
	w.mu.Lock()
	r, err := c.postRecv(buf, src, tag, s)
	if err != nil {
		w.mu.Unlock()
		return Status{}, err
	}
	st, err := w.finish(ctx, r)
	w.mu.Unlock()
	return st, err
}

func (c *Comm) irecv(buf []byte, src, tag int, s spec) (*request, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.postRecv(buf, src, tag, s)
}

// postRecv starts a receive.
func (c *Comm) postRecv(buf []byte, src, tag int, s spec) (*request, error) {
	w := c.w
	env, err := c.envelope("receive", src, tag, s.context)
	if err != nil {
		return nil, err
	}
	if src == None {
		return c.nothing(s, fromNone), nil
	}
	r := w.request(c, buf, s)
	r.env = env
	r.state = recvPosted
	if in := w.match.post(r); in != nil {
		w.receiveKept(r, in)
		return r, nil
	}
	if len(w.dead) > 0 || w.leaving {
		err := c.unreachable(env)
		if err == nil && r.coll {
			err = c.casualty()
		}
		if err != nil {
			w.cancel(r, err)
		}
	}
	if r.coll {
		if err := c.log.overruled(env.tag); err != nil {
			w.cancel(r, err)
		}
	}
	return r, nil
}

// fromNone is the status of a receive from None.
var fromNone = Status{Source: None, Tag: AnyTag}

// envelope checks and translates the arguments of a receive or probe. It keeps the source None.
func (c *Comm) envelope(op string, src, tag int, context uint32) (envelope, error) {
	env := envelope{context: context, src: AnySource, tag: int32(tag)}
	if c.ranks == 0 || c.w.fatal != nil {
		return env, c.usable()
	}
	switch {
	case src == AnySource:
	case src == None:
		env.src = None
	case uint(src) >= uint(c.ranks):
		return env, c.badPeer(op, src, tag)
	default:
		env.src = c.group[src]
	}
	if uint(tag) > MaxTag && tag != AnyTag {
		return env, c.badPeer(op, 0, tag)
	}
	return env, nil
}

// unreachable returns an error if no message can arrive from the source of a receive: it is dead,
// or all ranks are, or a rank has died and the program has not acknowledged it.
func (c *Comm) unreachable(env envelope) error {
	w := c.w
	if w.fatal != nil {
		return w.fatal
	}
	if env.src != AnySource {
		if p := w.peers.At(int(env.src)); p != nil && p.state >= peerDead {
			return p.err
		}
		return nil
	}
	last := c.unacknowledged()
	if last != nil {
		return last
	}
	for rank, g := range c.group {
		p := w.peers.At(int(g))
		if rank != c.rank && (p == nil || p.state < peerDead) {
			return nil
		}
		if p != nil {
			last = p.err
		}
	}
	return last
}

// received handles a message of any kind.
func (p *peer) received(d *vipl.Descriptor) {
	rx := d.Context.(*rxBuf)
	if d.Status.Failed() {
		p.fail(p.VI.Err())
		return
	}
	if d.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
		if d.Immediate&landMark != 0 {
			p.landed(d.Immediate&^landMark, int(d.Length), rx)
			return
		}
		p.writtenTo(d.Immediate)
		p.repostControl(rx)
		return
	}
	var h header
	payload, ok := h.parse(rx.Data())
	if !ok {
		p.fail(errGarbled)
		return
	}
	if h.kind == kindReady && p.state >= peerDead {
		return // the announced message can no longer arrive
	}
	if !p.returned(&h) {
		p.fail(errGarbled)
		return
	}
	switch h.kind {
	case kindEager, kindReady:
		p.arrived(&h, payload, rx, 0)
		p.followUp(&h)
		return
	case kindClear:
		p.cleared(&h, payload)
	case kindTaken:
		p.released(payload)
	case kindLand:
		p.mayLand(h.size, payload)
	case kindDone:
		p.acknowledged(&h)
	case kindNack:
		p.refused(&h)
	case kindHello:
		p.greeted(payload)
	case kindBye:
		p.left()
	case kindFail:
		p.told(int(h.tag), payload)
	case kindAbort:
		p.w.shutdown(&AbortError{Rank: p.rank, Code: int(h.tag)})
	case kindAsk:
		p.inquired(&h, payload)
	case kindDiffer:
		p.differed(&h, payload)
	}
	p.repostControl(rx)
}

// followUp sends what may follow a data message of p.
func (p *peer) followUp(h *header) {
	if h.flags&flagHungry != 0 {
		p.hungry = true
		p.grow()
	}
	if p.pending.Len() > 0 || p.queue.head != nil || p.owed >= p.due || p.hungry {
		p.pump()
	}
}

// arrived handles an eager message or an announcement that has arrived in rx. The message itself
// may be in slots of landing memory.
func (p *peer) arrived(h *header, payload []byte, rx *rxBuf, slots uint8) {
	w := p.w
	env := envelope{context: h.context, src: int32(p.rank), tag: h.tag}
	r := w.match.arrive(&env)
	if r == nil {
		p.keep(h, env, payload, rx, slots)
		return
	}
	switch {
	case r.coll && w.conflict(r, p, h):
	case h.kind == kindReady:
		p.accept(r, h.tag, h.size, h.sendID, h.flags, h.recvID, payload)
	default:
		w.deliver(r, h.tag, int32(p.rank), payload, h.flags, h.recvID)
		if h.flags&flagSync != 0 {
			p.say(control{kind: kindDone, sendID: h.sendID})
		}
	}
	p.vacate(slots)
	w.repostEmptied()
	w.emptied = rx
	rx.With.from = p
}

// deliver completes a receive with an eager payload.
func (w *world) deliver(r *request, tag, src int32, payload []byte, flags uint8, sig uint32) {
	n := r.setStatus(tag, src, uint64(len(payload)), sig)
	copy(r.buf[:n], payload)
	w.putRight(r.buf[:n], r.typ, flags, sig)
	w.stats.BytesReceived += uint64(n)
	w.stats.EagerReceived++
	w.complete(r, nil)
}

// setStatus sets the status of a receive for a message of size bytes, and the errors that the
// message causes. It returns how many bytes of the message the receive stores.
func (r *request) setStatus(tag, src int32, size uint64, sig uint32) int {
	n := int(min(size, uint64(len(r.buf))))
	r.status = Status{Source: int(r.c.index[src]), Tag: int(tag), Count: n}
	switch {
	case !r.typ.matches(sig) && size > 0:
		n, r.status.Count = 0, 0
		r.err = opError("receive", ErrType, "rank %d sent %s with tag %d, the receive wants %s",
			r.status.Source, sigName(sig), tag, sigName(r.typ.sig))
	case uint64(n) < size:
		r.err = &TruncateError{Source: r.status.Source, Tag: int(tag), Size: int(size), Room: n}
	}
	return n
}

// repostEmptied posts the receive buffer that was emptied last. This is delayed until the next one,
// or until a goroutine polls or waits, because a program that has just received a message usually
// answers it first.
func (w *world) repostEmptied() {
	rx := w.emptied
	if rx == nil {
		return
	}
	w.emptied = nil
	p := rx.With.from
	p.repost(rx)
	p.returnSoon()
}

// receiveKept passes an unexpected message to its matching receive r.
func (w *world) receiveKept(r *request, in *inbound) {
	p := in.from
	switch {
	case in.self != nil:
		w.takeSelf(r, in)
		return
	case r.coll && w.conflict(r, p, &header{kind: in.kind, tag: in.env.tag, recvID: in.sig, call: in.call, sendID: in.sendID}):
	case in.kind == kindReady:
		p.accept(r, in.env.tag, in.size, in.sendID, in.flags, in.sig, in.data)
	default:
		w.deliver(r, in.env.tag, in.env.src, in.data, in.flags, in.sig)
		if p != nil && in.flags&flagSync != 0 {
			p.say(control{kind: kindDone, sendID: in.sendID})
		}
	}
	w.drop(in)
}

// takeSelf passes a waiting send to this rank to the receive r.
func (w *world) takeSelf(r *request, in *inbound) {
	send := in.self
	w.deliver(r, in.env.tag, in.env.src, send.buf, w.order, send.typ.sig)
	w.spill.put(in)
	w.complete(send, nil)
}
