package vipl

import (
	"context"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// Listener takes connection requests for one port. It may be shared between
// goroutines. Requests that nobody has taken yet wait in it, backlogMax at the
// most; a requester that finds it full tries again by itself.
type Listener struct {
	nic      *NIC
	port     uint16
	queue    []*Request
	pending  map[requestKey]*Request // taken or not, until decided and a while after
	decided  []*Request              // of them, in the order of their decisions
	closed   bool
	doubtful int  // requests that are, see Request
	strict   bool // takes none that is
	gate     progress.Gate

	cq     *CQ // that announces requests, or nil
	notice conn.Notice

	discriminator string // that requests name instead of the port, or ""
}

const (
	backlogMax  = 256
	decidedMax  = MaxVIs      // requests that are remembered
	decidedLife = 10 * 1000e6 // ns
)

// requestKey tells repetitions of one request from a new one.
type requestKey struct {
	from ethertype.Addr
	tag  uint32
}

// Request is a connection request (VIP_CONN_HANDLE). Accept or reject it.
type Request struct {
	listener *Listener
	key      requestKey
	info     conninfo.Info
	decided  bool
	refusal  []byte // payload of the rejection, once rejected, or accepted and given up
	at       int64  // when it was decided
	heard    int64  // when it has come last
	proven   bool   // the requester is where it says it is
	credit   int    // bytes that may be sent there before
	doubtful bool   // it is not proven yet, nor rejected, nor has its handshake ended
}

// Listen starts to take requests for a port of the NIC's range; 0 picks a free
// one. Close the listener to stop.
func (n *NIC) Listen(port uint16) (*Listener, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.listen(port)
}

func (n *NIC) listen(port uint16) (*Listener, error) {
	if n.closed {
		return nil, ErrClosed
	}
	if port == 0 {
		var ok bool
		if port, ok = n.freePort(); !ok {
			return nil, opError("listen", ErrResource, "no port in %d..%d is free", n.info.Ports.Lo, n.info.Ports.Hi)
		}
	}
	switch {
	case !n.info.Ports.Contains(port) || port == n.info.Ports.Lo:
		return nil, opError("listen", ErrInvalidParameter, "port %d is not in %d..%d: open the NIC with Config.Ports around it",
			port, n.info.Ports.Lo+1, n.info.Ports.Hi)
	case n.ports.listeners[port] != nil || n.viAt(port) != nil:
		return nil, opError("listen", ErrResource, "port %d is already in use on this NIC", port)
	}
	l := &Listener{nic: n, port: port, pending: map[requestKey]*Request{}}
	l.notice.Owner = l
	n.ports.listeners[port] = l
	return l, nil
}

// Addr returns the address to connect to.
func (l *Listener) Addr() ethertype.Addr { return ethertype.Addr{MAC: l.nic.info.MAC, Port: l.port} }

// RequireProof has the listener take only requests whose senders have proven that
// they are where they say: they have asked again with a token that was sent there.
// Nothing is kept of the others. Connecting then takes a round trip more, so it is for
// servers that give much to whoever asks, buffers for example. VIPL has no such thing.
func (l *Listener) RequireProof() {
	l.nic.eng.Lock()
	defer l.nic.eng.Unlock()
	l.strict = true
}

// Wait returns the next request, blocking until there is one (VipConnectWait)
// or ctx ends, which returns an error that is both ErrTimeout and the
// context's. It returns ErrLink when the NIC is of no use any more.
func (l *Listener) Wait(ctx context.Context) (*Request, error) {
	n := l.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	for {
		if r, err := l.take(); err != ErrNotDone {
			return r, err
		}
		if err := n.wait(&w, &l.gate); err != nil {
			return nil, err
		}
	}
}

// Poll returns the next request, or ErrNotDone. It polls the NIC once if need be.
func (l *Listener) Poll() (*Request, error) {
	n := l.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if len(l.queue) == 0 && !n.closed {
		n.eng.Poll()
	}
	return l.take()
}

func (l *Listener) take() (*Request, error) {
	if err := l.isClosed(); err != nil {
		return nil, err
	}
	if len(l.queue) == 0 {
		return nil, ErrNotDone
	}
	i := slices.IndexFunc(l.queue, func(r *Request) bool { return !r.silent() && !r.doubtful })
	if i < 0 {
		i = max(slices.IndexFunc(l.queue, func(r *Request) bool { return !r.silent() }), 0)
	}
	r := l.queue[i]
	l.queue = slices.Delete(l.queue, i, i+1)
	l.notice.Limit(len(l.queue))
	return r, nil
}

// Close stops listening. Requests that were not taken are refused, waiters
// return ErrClosed. Closing twice does nothing.
func (l *Listener) Close() error {
	n := l.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if l.closed || n.closed {
		return nil
	}
	for _, r := range l.queue {
		r.refuse(rejectNoListener, "")
	}
	n.conns.Flush()
	l.shut()
	delete(n.ports.listeners, l.port)
	return nil
}

func (l *Listener) shut() {
	l.closed = true
	l.queue = nil
	if l.discriminator != "" {
		delete(l.nic.ports.discriminators, l.discriminator)
	}
	l.unbind()
	l.gate.Open(&l.nic.eng)
}

// receiveRequest handles KindRequest.
func (n *NIC) receiveRequest(h *ethertype.Header, payload []byte) {
	c, ok := conninfo.Parse(payload)
	if !ok || h.Src.IsGroup() {
		n.conns.Drop(DropFormat)
		return
	}
	if n.cannotReach(h.Src) {
		n.conns.Drop(DropPeer)
		return
	}
	if c.Peer {
		n.receivePeer(h, &c)
		return
	}
	l := n.listenerFor(h, &c)
	if l == nil {
		n.conns.Drop(DropNoListener)
		n.sendReject(h, &c, []byte{rejectNoListener})
		return
	}
	proven := n.proven(h, &c)
	if !proven {
		n.sendRetry(h, &c)
	}
	key := requestKey{ethertype.Addr{MAC: h.Src, Port: h.SrcPort}, c.Tag}
	if r := l.pending[key]; r != nil {
		r.again(len(payload), proven)
		if r.refusal != nil { // it did not hear
			r.reject()
		}
		return
	}
	switch {
	case proven:
	case l.strict: // it has its answer
		return
	case l.doubtful >= doubtfulMax:
		n.conns.Drop(DropBacklog)
		return
	}
	if !l.room() {
		n.conns.Drop(DropBacklog)
		n.sendReject(h, &c, []byte{rejectBacklog})
		return
	}
	r := &Request{listener: l, key: key, info: c, doubtful: true}
	l.doubtful++
	r.again(len(payload), proven)
	l.pending[key] = r
	l.queue = append(l.queue, r)
	if l.cq != nil {
		l.cq.ring.Announce(&l.notice)
	}
	l.gate.Open(&n.eng)
}

// proven reports whether a request carries a token of this NIC's.
func (n *NIC) proven(h *ethertype.Header, c *conninfo.Info) bool {
	return n.strangers.tokens.Proven(h, guard.Identity{Tag: c.Tag, Seq: c.Seq}, n.conns.Now)
}

// sendRetry has who sent a request ask again with a token.
func (n *NIC) sendRetry(h *ethertype.Header, c *conninfo.Info) {
	token := n.strangers.tokens.Token(h, guard.Identity{Tag: c.Tag, Seq: c.Seq}, n.conns.Now)
	n.conns.SendControl(ethertype.Header{Dst: h.Src, Kind: ethertype.KindRetry, DstPort: h.SrcPort, SrcPort: h.DstPort, Tag: c.Tag, Ack: c.Seq, Sack: token})
}

// sendReject refuses the request that h and c are.
func (n *NIC) sendReject(h *ethertype.Header, c *conninfo.Info, body []byte) {
	if n.strangers.answers.Take(guard.Reject, n.conns.Now) {
		n.conns.SendControl(ethertype.Header{Dst: h.Src, Kind: ethertype.KindReject, DstPort: h.SrcPort, SrcPort: h.DstPort, Tag: c.Tag, Ack: c.Seq}, body)
	}
}

// Listener returns the listener that the request came to.
func (r *Request) Listener() *Listener { return r.listener }

// Remote returns who asks.
func (r *Request) Remote() ethertype.Addr { return r.key.from }

// Data returns the private data that came with the request.
func (r *Request) Data() []byte { return r.info.Data }

// Attributes returns the attributes of the requester's VI (RemoteViAttribs of
// VipConnectWait): Reliability, MaxTransferSize and QoS, which both sides must
// agree on, and EnableRDMAWrite, EnableRDMARead, ReadDepth and WholeCRC, which is
// set, too, if nothing protects the requester's link. The others concern nobody else
// and are zero.
func (r *Request) Attributes() Attributes { return attributesOf(&r.info.Terms) }

// Accept binds an idle VI to the request and waits until both sides are
// connected (VipConnectAccept). If attributes do not match it returns
// ErrInvalidReliability, ErrInvalidMTU or ErrInvalidQoS as a *ConnError, which
// names both sides and what each has, and the requester is not told: try another
// VI, or Reject. A requester that has given up meanwhile is ErrDisconnected.
// Without a deadline in ctx it gives up after Attributes.ConnectTimeout of the VI; and
// after a second without a sign of the requester if others wait at the listener, so
// that who does not answer keeps nobody from a server that accepts one after another.
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
	if n.closed {
		return ErrClosed
	}
	if err := v.isClosed(); err != nil {
		return err
	}
	switch {
	case v.nic != n:
		return opError("accept", ErrInvalidParameter, "the VI belongs to another NIC")
	case r.decided:
		return opError("accept", ErrInvalidState, "the request was already accepted or rejected")
	case v.conn.State != StateIdle:
		return opError("accept", ErrInvalidState, "the VI is %v, want idle", v.conn.State)
	}
	if err := n.lookAtLink(); err != nil {
		return &ConnError{Local: v.Local(), Remote: r.key.from, Err: err}
	}
	if _, err := v.match(r.key.from, &r.info); err != nil {
		return err
	}
	n.conns.Now = n.link.Now()
	r.decide()
	v.begin(phaseAccept, int64(n.eng.Left(ctx, v.attr.ConnectTimeout)), nil)
	v.hs.request, v.hs.serial = r, serial
	v.adopt(r.key.from, &r.info)
	v.hs.step(v)
	n.conns.Flush()
	return nil
}

// Reject refuses the request; the requester gets ErrReject and the text, which
// is cut at MaxConnData bytes (VipConnectReject).
func (r *Request) Reject(text string) error {
	n := r.listener.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	switch {
	case n.closed:
		return ErrClosed
	case r.decided:
		return opError("reject", ErrInvalidState, "the request was already accepted or rejected")
	}
	r.refuse(rejectRefused, text)
	n.conns.Flush()
	return nil
}

func (r *Request) refuse(code byte, text string) {
	r.decide()
	r.clearDoubt()
	r.refusal = append([]byte{code}, text[:min(len(text), MaxConnData)]...)
	r.reject()
}

// reject tells the requester that it is refused, if that is not too much for one that
// is not proven; then it asks again.
func (r *Request) reject() {
	if r.affords(len(r.refusal)) {
		h := ethertype.Header{Src: r.key.from.MAC, SrcPort: r.key.from.Port, DstPort: r.askedAt()}
		r.listener.nic.sendReject(&h, &r.info, r.refusal)
	}
}
