package mplite

import "context"

// Probe waits for a message that Recv would take and describes it, without taking it (MPI_Probe,
// MP_Probe). If several goroutines receive, another one may take the message first: use Mprobe. A
// Probe from AnySource ends when a rank of the communicator dies, like a Recv: see AckFailed.
func (c *Comm) Probe(ctx context.Context, src, tag int) (Status, error) {
	m, err := c.probe(ctx, src, tag, false)
	return m.st, err
}

// Iprobe reports whether Recv would find a message, without blocking (MPI_Iprobe, MP_AProbe).
func (c *Comm) Iprobe(src, tag int) (st Status, found bool, err error) {
	m, found, err := c.iprobe(src, tag, false)
	return m.st, found, err
}

// Mprobe is a Probe that reserves the message (MPI_Mprobe): no other receive or probe can find it,
// and only Mrecv and Imrecv of the result receive it. The message keeps its receive buffer until
// then.
func (c *Comm) Mprobe(ctx context.Context, src, tag int) (Matched, error) {
	return c.probe(ctx, src, tag, true)
}

// Improbe is Mprobe without blocking (MPI_Improbe).
func (c *Comm) Improbe(src, tag int) (m Matched, found bool, err error) {
	return c.iprobe(src, tag, true)
}

// noMessage is the message from None.
var noMessage = &inbound{}

// probe waits for a message that a receive would take, and takes it if take is true. The
// result describes the message.
func (c *Comm) probe(ctx context.Context, src, tag int, take bool) (Matched, error) {
	if err := checkContext(ctx); err != nil {
		return Matched{}, err
	}
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probing++
	defer func() { w.probing-- }()
	for {
		in, err := c.find(src, tag)
		if err != nil {
			return Matched{}, err
		}
		if in != nil {
			return c.matched(in, take), nil
		}
		if err := w.step(ctx); err != nil {
			return Matched{}, w.interrupted("probe for a message "+from(src, tag), err)
		}
	}
}

// iprobe is probe without blocking: it polls once if necessary.
func (c *Comm) iprobe(src, tag int, take bool) (m Matched, found bool, err error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	in, err := c.find(src, tag)
	if in == nil {
		w.poll()
		in, err = c.find(src, tag)
	}
	if err != nil || in == nil {
		return Matched{}, false, err
	}
	return c.matched(in, take), true, nil
}

// find returns the message that a receive would take now, or nil if there is none. The
// error is the reason why no such message can arrive.
func (c *Comm) find(src, tag int) (*inbound, error) {
	env, err := c.envelope("probe", src, tag, c.context)
	if err != nil {
		return nil, err
	}
	if src == None {
		return noMessage, nil
	}
	if in := c.w.match.peek(env); in != nil {
		return in, nil
	}
	return nil, c.unreachable(env)
}

func (in *inbound) status(c *Comm) Status {
	if in == noMessage {
		return fromNone
	}
	return Status{Source: int(c.index[in.env.src]), Tag: int(in.env.tag), Count: int(in.size)}
}

// Matched is a message that Mprobe or Improbe has reserved (MPI_Message). Any goroutine can receive
// it, and one must receive it: until then it occupies a receive buffer that its sender needs. Calls
// on the zero Matched, and on one that was already received, return ErrRequest.
type Matched struct {
	c      *Comm
	in     *inbound
	ticket uint64 // equals in.ticket while in holds this message
	st     Status
}

// Status describes the message.
func (m Matched) Status() Status { return m.st }

// matched describes a message, and removes it from the matcher if take is true.
func (c *Comm) matched(in *inbound, take bool) Matched {
	m := Matched{c: c, in: in, st: in.status(c)}
	if take && in != noMessage {
		m.ticket = c.w.match.claim(in)
	}
	return m
}

// Mrecv receives the message (MPI_Mrecv). buf and errors are as for Recv. The message is gone even
// if it is truncated or its type does not match. If its sender has died or withdrawn it before it
// was received, the error says so.
func (m Matched) Mrecv(ctx context.Context, buf []byte) (Status, error) {
	return m.recv(ctx, buf, rawBytes)
}

// Imrecv starts to receive the message (MPI_Imrecv). buf belongs to the library until the request
// has completed.
func (m Matched) Imrecv(buf []byte) (Request, error) { return handle(m.irecv(buf, rawBytes)) }

// Mrecv is Matched.Mrecv for elements of T.
func Mrecv[T any](ctx context.Context, m Matched, buf []T) (Status, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Status{}, typ.err
	}
	return m.recv(ctx, asBytes(buf), typ)
}

// Imrecv is Matched.Imrecv for elements of T.
func Imrecv[T any](m Matched, buf []T) (Request, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Request{}, typ.err
	}
	return handle(m.irecv(asBytes(buf), typ))
}

func (m Matched) recv(ctx context.Context, buf []byte, typ *element) (Status, error) {
	if err := checkContext(ctx); err != nil {
		return Status{}, err
	}
	r, err := m.irecv(buf, typ)
	if err != nil {
		return Status{}, err
	}
	w := m.c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.finish(ctx, r)
}

func (m Matched) irecv(buf []byte, typ *element) (*request, error) {
	if m.in == nil {
		return nil, opError("receive", ErrRequest, "no message has been matched")
	}
	w := m.c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := m.c.usable(); err != nil {
		return nil, err
	}
	in, s := m.in, m.c.user(typ)
	if in == noMessage {
		return m.c.nothing(s, fromNone), nil
	}
	if in.ticket != m.ticket {
		return nil, opError("receive", ErrRequest, "the matched message has been received before")
	}
	w.match.unclaim(in)
	r := w.request(m.c, buf, s)
	r.env = in.env
	r.state = recvPosted
	switch {
	case in.withdrawn:
		w.spill.put(in)
		w.complete(r, opError("receive", ErrCanceled, "this rank has withdrawn its message of %d bytes with tag %d to itself", m.st.Count, m.st.Tag))
	case in.kind == kindReady && in.from.state >= peerDead:
		err := in.from.err
		w.drop(in)
		w.complete(r, err)
	default:
		w.receiveKept(r, in)
	}
	return r, nil
}
