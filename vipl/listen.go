package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// Listener accepts connection requests for one port. It may be shared between goroutines. It queues
// up to 256 requests. If the queue is full, a requester's VI repeats its request automatically.
//
// A Listener queues only requests whose senders have proven their address. The NIC answers a first
// request with a token, and the requester's NIC repeats the request with the token. This adds one
// round trip to each connection. The NIC stores nothing for requests without the token.
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
			return nil, opError("listen", ErrResource, "no port in %d..%d is free; open the NIC with a wider Config.Ports", n.m.Info.Ports.Lo, n.m.Info.Ports.Hi)
		}
	}
	switch {
	case !n.m.Info.Ports.Contains(port) || port == n.m.Info.Ports.Lo:
		return nil, opError("listen", ErrArgument, "port %d is not in %d..%d (open the NIC with other Config.Ports)",
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

// Poll returns the next request, or ErrNotDone if there is none. It polls the NIC once if
// necessary.
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

// listenerOwner is the listener as the handshake accesses it.
type listenerOwner Listener

// listenerOf returns the Listener that owns l.
func listenerOf(l *handshake.Listener) *Listener { return (*Listener)(l.Owner.(*listenerOwner)) }

// Arrived implements handshake.ListenerOwner: a request has arrived, and may have displaced another
// one.
func (l *listenerOwner) Arrived() {
	l.notice.Limit(l.in.Backlog.Waiting() - 1)
	if l.cq != nil {
		l.cq.ring.Announce(&l.notice)
	}
	l.gate.Open(&l.nic.eng)
}

// Close stops the listener. It refuses requests that Wait or Poll has not returned. Calls
// that wait return ErrClosed. Closing twice does nothing.
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

// Remote returns the requester's address.
func (r *Request) Remote() ethertype.Addr { return r.in.From }

// Data returns the private data that came with the request.
func (r *Request) Data() []byte { return r.in.Info.Data }

// Attributes returns the attributes of the requester's VI (RemoteViAttribs of VipConnectWait):
// Reliability, MaxTransferSize and QoS, which must be equal on both sides, and EnableRDMAWrite,
// EnableRDMARead, ReadDepth and WholeCRC. WholeCRC is also set if the requester's link has no
// protection of its own. The other fields are zero, because they are local to the requester.
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

// AcceptStart starts to accept as Accept does and returns at once. VI.ConnectDone reports the
// outcome. The attempt fails after Attributes.ConnectTimeout of the VI.
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

// Reject refuses the request (VipConnectReject). The requester gets ErrReject with the text, which
// is truncated to MaxConnData bytes.
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
