package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// Listener takes connection requests for one port. It may be shared between
// goroutines. At most 256 requests wait in it. A requester that finds it full tries
// again by itself.
//
// A Listener takes only requests whose senders have proven their address: the NIC answers
// a first request by a token, which the requester's NIC repeats. So connecting takes one round trip
// more than request and acceptance would. The NIC keeps nothing of requests without the token.
type Listener struct {
	nic    *NIC
	port   uint16
	in     handshake.Listener
	closed bool
	gate   progress.Gate

	cq     *CQ // that announces requests, or nil
	notice conn.Notice

	discriminator string // that requests name instead of the port, or ""
}

// Request is a connection request (VIP_CONN_HANDLE). Accept or reject it.
type Request struct {
	listener *Listener
	in       *handshake.Request
}

// Listen starts to accept requests for a port of the NIC's range; 0 picks a free port
// (Listener.Addr). Close the listener to stop.
func (n *NIC) Listen(port uint16) (*Listener, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.listen(port)
}

func (n *NIC) listen(port uint16) (*Listener, error) {
	if n.m.Closed {
		return nil, ErrClosed
	}
	if port == 0 {
		var ok bool
		if port, ok = n.m.Ports.Free(); !ok {
			return nil, opError("listen", ErrResource, "no port in %d..%d is free", n.m.Info.Ports.Lo, n.m.Info.Ports.Hi)
		}
	}
	switch {
	case !n.m.Info.Ports.Contains(port) || port == n.m.Info.Ports.Lo:
		return nil, opError("listen", ErrArgument, "port %d is not in %d..%d: open the NIC with Config.Ports around it",
			port, n.m.Info.Ports.Lo+1, n.m.Info.Ports.Hi)
	case n.m.Ports.InUse(port):
		return nil, opError("listen", ErrResource, "port %d is already in use on this NIC", port)
	}
	l := &Listener{nic: n, port: port}
	l.in.Owner = (*listenerOwner)(l)
	l.notice.Owner = l
	n.m.Ports.Listeners[port] = &l.in
	return l, nil
}

// Addr returns the address to connect to.
func (l *Listener) Addr() ethertype.Addr { return ethertype.Addr{MAC: l.nic.m.Info.MAC, Port: l.port} }

// Wait returns the next request. It blocks until there is a request (VipConnectWait) or ctx
// ends; then the error is both ErrTimeout and the context's. It returns ErrLink if the NIC's
// link has failed.
func (l *Listener) Wait(ctx context.Context) (*Request, error) {
	n := l.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	for {
		if r, err := l.nextRequest(); err != ErrNotDone {
			return r, err
		}
		if err := n.m.Wait(&w, &l.gate); err != nil {
			return nil, err
		}
	}
}

// Poll returns the next request, or ErrNotDone. It polls the NIC once if need be.
func (l *Listener) Poll() (*Request, error) {
	n := l.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if l.in.Backlog.Waiting() == 0 && !n.m.Closed {
		n.eng.Poll()
	}
	return l.nextRequest()
}

func (l *Listener) nextRequest() (*Request, error) {
	if err := l.isClosed(); err != nil {
		return nil, err
	}
	r := l.in.Backlog.Pop(l.nic.m.Now())
	if r == nil {
		return nil, ErrNotDone
	}
	l.notice.Limit(l.in.Backlog.Waiting())
	return &Request{l, r}, nil
}

// listenerOwner is the listener as what it keeps of requests sees it.
type listenerOwner Listener

// listenerOf returns the listener that keeps l.
func listenerOf(l *handshake.Listener) *Listener { return (*Listener)(l.Owner.(*listenerOwner)) }

// Arrived implements handshake.ListenerOwner: a request has come, and may have displaced
// another one.
func (l *listenerOwner) Arrived() {
	l.notice.Limit(l.in.Backlog.Waiting() - 1)
	if l.cq != nil {
		l.cq.ring.Announce(&l.notice)
	}
	l.gate.Open(&l.nic.eng)
}

// Close stops listening. Requests that were not taken are refused, waiters
// return ErrClosed. Closing twice does nothing.
func (l *Listener) Close() error {
	n := l.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if l.closed || n.m.Closed {
		return nil
	}
	n.m.Connects.Shut(&l.in)
	n.m.Flush()
	l.shut()
	delete(n.m.Ports.Listeners, l.port)
	return nil
}

func (l *Listener) shut() {
	l.closed = true
	l.in.Backlog.Clear()
	if l.discriminator != "" {
		delete(l.nic.m.Ports.Names, l.discriminator)
	}
	l.unbind()
	l.gate.Open(&l.nic.eng)
}

// Listener returns the listener that the request came to.
func (r *Request) Listener() *Listener { return r.listener }

// Remote returns who asks.
func (r *Request) Remote() ethertype.Addr { return r.in.From }

// Data returns the private data that came with the request.
func (r *Request) Data() []byte { return r.in.Info.Data }

// Attributes returns the attributes of the requester's VI (RemoteViAttribs of
// VipConnectWait): Reliability, MaxTransferSize and QoS, which both sides must
// agree on, and EnableRDMAWrite, EnableRDMARead, ReadDepth and WholeCRC, which is
// set, too, if nothing protects the requester's link. The others concern nobody else
// and are zero.
func (r *Request) Attributes() Attributes { return attributesOf(&r.in.Info.Terms) }

// Accept binds an idle VI to the request and waits until both sides are connected
// (VipConnectAccept). If attributes do not match it returns ErrInvalidReliability,
// ErrInvalidMTU or ErrInvalidQoS as a *ConnError with the values of both sides. The requester
// is not notified: try another VI, or call Reject. If the requester has given up, the error
// is ErrDisconnected. Without a deadline in ctx Accept fails after Attributes.ConnectTimeout of
// the VI, and after a second without an answer if other requests wait: a
// silent requester cannot block a server that accepts requests one by one.
func (r *Request) Accept(ctx context.Context, v *VI) error {
	if err := r.acceptStart(ctx, v, true); err != nil {
		return err
	}
	return v.awaitConnect(ctx)
}

// AcceptStart begins what Accept does and returns at once; VI.ConnectDone
// tells how it went. It gives up after Attributes.ConnectTimeout of the VI.
func (r *Request) AcceptStart(v *VI) error { return r.acceptStart(context.Background(), v, false) }

func (r *Request) acceptStart(ctx context.Context, v *VI, serial bool) error {
	n := r.listener.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return ErrClosed
	}
	if err := v.isClosed(); err != nil {
		return err
	}
	switch {
	case v.nic != n:
		return opError("accept", ErrArgument, "the VI belongs to another NIC")
	case r.in.Decided():
		return opError("accept", ErrInvalidState, "the request was already accepted or rejected")
	case v.conn.State != code.StateIdle:
		return opError("accept", ErrInvalidState, "the VI is %v, want idle", v.conn.State)
	}
	if err := n.m.CheckLink(); err != nil {
		return &ConnError{Local: v.Local(), Remote: r.in.From, Err: err}
	}
	if err := v.side.Match(r.in); err != nil {
		return err
	}
	n.m.ReadClock()
	v.left = false
	v.side.Answer(r.in, serial, int64(n.eng.Left(ctx, v.attr.ConnectTimeout)))
	n.m.Flush()
	return nil
}

// Reject refuses the request; the requester gets ErrReject and the text, which
// is cut at MaxConnData bytes (VipConnectReject).
func (r *Request) Reject(text string) error {
	n := r.listener.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	switch {
	case n.m.Closed:
		return ErrClosed
	case r.in.Decided():
		return opError("reject", ErrInvalidState, "the request was already accepted or rejected")
	}
	n.m.Connects.Refuse(r.in, text)
	n.m.Flush()
	return nil
}
