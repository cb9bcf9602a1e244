package mplite

import "context"

// user is the spec of a call by the user with elements of the given type.
func (c *Comm) user(typ *element) spec { return spec{context: c.context, flags: c.w.order, typ: typ} }

// Send sends buf to rank dst (MPI_Send, MP_Send). It returns when buf may be
// used again: at once for messages up to the eager size while the receiver has
// room, else when the receiver has taken the message. Only the receiver's
// copying of the message, or its death, ends it then, besides ctx.
func (c *Comm) Send(ctx context.Context, buf []byte, dst, tag int) error {
	return c.send(ctx, buf, dst, tag, c.user(rawBytes))
}

// Ssend is a Send that returns only when a receive has matched (MPI_Ssend,
// MP_SSend).
func (c *Comm) Ssend(ctx context.Context, buf []byte, dst, tag int) error {
	return c.send(ctx, buf, dst, tag, c.user(rawBytes).sync())
}

// Isend starts a Send (MPI_Isend, MP_ASend). buf must be left alone until the
// request has completed.
func (c *Comm) Isend(buf []byte, dst, tag int) (Request, error) {
	return handle(c.isend(buf, dst, tag, c.user(rawBytes)))
}

// Issend starts an Ssend (MPI_Issend).
func (c *Comm) Issend(buf []byte, dst, tag int) (Request, error) {
	return handle(c.isend(buf, dst, tag, c.user(rawBytes).sync()))
}

// Recv receives the oldest message from src, or AnySource, with tag, or AnyTag
// (MPI_Recv, MP_Recv). The message may be shorter than buf. If it is longer,
// buf is filled and the error is a TruncateError. Ctx ends it as long as no
// message beyond the eager size has been matched: see Progress in the package
// comment.
func (c *Comm) Recv(ctx context.Context, buf []byte, src, tag int) (Status, error) {
	return c.recv(ctx, buf, src, tag, c.user(rawBytes))
}

// Irecv starts a Recv (MPI_Irecv, MP_ARecv). buf must be left alone until the
// request has completed.
func (c *Comm) Irecv(buf []byte, src, tag int) (Request, error) {
	return handle(c.irecv(buf, src, tag, c.user(rawBytes)))
}

// Sendrecv sends and receives at the same time (MPI_Sendrecv, MP_SShift), so
// that rings of it do not deadlock. The buffers must not overlap. It ends when
// both have ended, also if one of them fails, and returns the receive's error
// if both do.
func (c *Comm) Sendrecv(ctx context.Context, sendbuf []byte, dst, sendtag int, recvbuf []byte, src, recvtag int) (Status, error) {
	return c.exchange(ctx, sendbuf, dst, sendtag, recvbuf, src, recvtag, c.user(rawBytes))
}

func (s spec) sync() spec {
	s.flags |= flagSync
	return s
}

// send is every blocking send. The first branch is the fast path.
func (c *Comm) send(ctx context.Context, buf []byte, dst, tag int, s spec) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	w := c.w
	w.mu.Lock()
	if uint(dst) >= uint(len(c.peers)) || uint(tag) > MaxTag {
		err := c.badPeer("send", dst, tag)
		w.mu.Unlock()
		return err
	}
	if p := c.peers[dst]; p != nil && s.flags&flagSync == 0 && p.clearToSend(len(buf)) {
		p.sendEager(buf, tag, s, 0)
		w.mu.Unlock()
		return nil
	}
	_, err := w.finish(ctx, w.start(c, c.peers[dst], buf, tag, s))
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
	if uint(dst) >= uint(len(c.peers)) || uint(tag) > MaxTag {
		if err := c.badPeer("send", dst, tag); err != nil {
			return nil, err
		}
		return c.nothing(s, Status{}), nil
	}
	return w.start(c, c.peers[dst], buf, tag, s), nil
}

// nothing returns an operation with None, which has ended.
func (c *Comm) nothing(s spec, st Status) *request {
	r := c.w.request(c, nil, s)
	r.status = st
	c.w.complete(r, nil)
	return r
}

// fromNone is the status of a message from None.
var fromNone = Status{Source: None, Tag: AnyTag}

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

func (c *Comm) exchange(ctx context.Context, sendbuf []byte, dst, sendtag int, recvbuf []byte, src, recvtag int, s spec) (Status, error) {
	if err := checkContext(ctx); err != nil {
		return Status{}, err
	}
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if uint(dst) >= uint(len(c.peers)) || uint(sendtag) > MaxTag {
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
	if p := c.peers[dst]; p != nil && p.clearToSend(len(sendbuf)) {
		p.sendEager(sendbuf, sendtag, s, 0)
		return w.finish(ctx, recv)
	}
	send := w.start(c, c.peers[dst], sendbuf, sendtag, s)
	st, err := w.finish(ctx, recv)
	if err != nil && send.coll && !isTruncate(err) { // no rank can use it
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

// envelope checks and translates what a receive or probe asks for. The source
// None stays that.
func (c *Comm) envelope(op string, src, tag int, context uint32) (envelope, error) {
	env := envelope{context: context, src: AnySource, tag: int32(tag)}
	if len(c.peers) == 0 || c.w.fatal != nil {
		return env, c.usable()
	}
	switch {
	case src == AnySource:
	case src == None:
		env.src = None
	case uint(src) >= uint(len(c.peers)):
		return env, c.badPeer(op, src, tag)
	default:
		env.src = c.group[src]
	}
	if uint(tag) > MaxTag && tag != AnyTag {
		return env, c.badPeer(op, 0, tag)
	}
	return env, nil
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
		w.take(r, in)
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

// unreachable returns an error if no message can come from where a receive
// wants it: the source is dead, or everybody is, or somebody of whom the program
// has not said that it knows.
func (c *Comm) unreachable(env envelope) error {
	w := c.w
	if w.fatal != nil {
		return w.fatal
	}
	if env.src != AnySource {
		if p := w.peers[env.src]; p != nil && p.state >= peerDead {
			return p.err
		}
		return nil
	}
	last := c.unacknowledged()
	if last != nil {
		return last
	}
	for _, p := range c.peers {
		if p != nil && p.state < peerDead {
			return nil
		}
		if p != nil {
			last = p.err
		}
	}
	return last
}
