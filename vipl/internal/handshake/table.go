package handshake

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// Table is the common state of a NIC's handshakes.
type Table struct {
	shared    *conn.Shared
	info      *transport.Info
	nic       ethertype.Addr // address of the NIC itself
	strangers *guard.Strangers
	hooks     Hooks
	attempts  Turns[*Side]
	peers     peerTable
}

// Hooks are the functions of the NIC that handshakes use.
type Hooks struct {
	// Side returns the side at a port, or nil.
	Side func(port uint16) *Side
	// Listener returns the listener at a port, or with a discriminator if name is not nil. It
	// returns nil if there is none.
	Listener func(port uint16, name []byte) *Listener
	Reaches  func(mac ethertype.MAC) bool // reports whether a station can be reached
	MTU      func(to ethertype.MAC) int   // of the path to a station
	Stray    func(h *ethertype.Header)    // answers a frame of an unknown handshake
	Trouble  func(to ethertype.MAC) error // checks the path to a station and returns its error
}

// Listener is the destination of requests.
type Listener struct {
	Backlog Backlog
	Owner   ListenerOwner
}

// ListenerOwner is the owner of a listener.
type ListenerOwner interface {
	// Arrived reports that a request has arrived and waits.
	Arrived()
}

// Init initializes an empty table for a NIC with the address nic, on the interface that info
// describes.
func (t *Table) Init(shared *conn.Shared, info *transport.Info, nic ethertype.Addr, strangers *guard.Strangers, hooks Hooks) {
	t.shared, t.info, t.nic, t.strangers, t.hooks = shared, info, nic, strangers, hooks
	t.attempts.Init(info.Slots, func(s *Side) { shared.Watch(s.conn) })
	t.peers.pending = map[peerKey]*Side{}
}

// Receive processes a frame of a handshake for this NIC.
func (t *Table) Receive(h *ethertype.Header, payload []byte) {
	if h.Flags&ethertype.FlagWholeCRC == 0 {
		t.shared.Drop(drops.Format)
		return
	}
	if h.Kind == ethertype.KindRequest {
		t.receiveRequest(h, payload)
		return
	}
	s := t.hooks.Side(h.DstPort)
	if s == nil || s.conn.LocalTag != h.Tag || h.Tag == 0 || h.Src != s.conn.Remote.MAC {
		if h.Kind == ethertype.KindProbe || h.Kind == ethertype.KindAccept { // the sender waits for a side that has gone
			t.hooks.Stray(h)
			return
		}
		t.shared.Drop(drops.Stale)
		return
	}
	if !s.addressed(h) {
		s.conn.Drop(drops.Ack)
		return
	}
	switch h.Kind {
	case ethertype.KindAccept:
		s.receiveAccept(h, payload)
	case ethertype.KindReject:
		s.receiveReject(h, payload)
	case ethertype.KindRetry:
		s.receiveRetry(h)
	case ethertype.KindProbe:
		s.receiveProbe(h)
	case ethertype.KindProbeAck:
		s.receiveProbeAck(h)
	}
}

// receiveRequest handles KindRequest.
func (t *Table) receiveRequest(h *ethertype.Header, payload []byte) {
	c, ok := ParseInfo(payload)
	if !ok || h.Src.IsGroup() {
		t.shared.Drop(drops.Format)
		return
	}
	if !t.hooks.Reaches(h.Src) {
		t.shared.Drop(drops.Peer)
		return
	}
	if c.Peer {
		t.receivePeer(h, &c)
		return
	}
	l := t.listenerFor(h, &c)
	if l == nil {
		t.shared.Drop(drops.NoListener)
		t.sendReject(sender(h), h.DstPort, &c, []byte{rejectNoListener})
		return
	}
	if !t.proven(h, &c) {
		t.sendRetry(h, &c)
		return
	}
	switch verdict, r := l.Backlog.Receive(h, &c, t.shared.Now()); verdict {
	case RequestNew:
		l.Owner.Arrived()
	case RequestRefused:
		t.repeatRefusal(r)
	case RequestFull:
		t.shared.Drop(drops.Backlog)
		t.sendReject(sender(h), h.DstPort, &c, []byte{rejectBacklog})
	}
}

// sender returns the sender of a frame.
func sender(h *ethertype.Header) ethertype.Addr { return ethertype.Addr{MAC: h.Src, Port: h.SrcPort} }

// listenerFor returns the listener for a request, or nil, and removes the discriminator from the
// request's private data.
func (t *Table) listenerFor(h *ethertype.Header, c *Info) *Listener {
	if !c.Named {
		return t.hooks.Listener(h.DstPort, nil)
	}
	if h.DstPort != t.nic.Port || len(c.Data) == 0 || len(c.Data) < 1+int(c.Data[0]) {
		return nil
	}
	end := 1 + int(c.Data[0])
	name := c.Data[1:end]
	c.Data = c.Data[end:]
	return t.hooks.Listener(h.DstPort, name)
}

// proven reports whether a request carries a valid token of this NIC.
func (t *Table) proven(h *ethertype.Header, c *Info) bool {
	return t.strangers.Tokens.Proven(h, guard.Identity{Tag: c.Tag, Seq: c.Seq}, t.shared.Now())
}

// sendRetry makes the sender of a request repeat it with a token.
func (t *Table) sendRetry(h *ethertype.Header, c *Info) {
	token := t.strangers.Tokens.Token(h, guard.Identity{Tag: c.Tag, Seq: c.Seq}, t.shared.Now())
	t.shared.SendControl(ethertype.Header{Dst: h.Src, Kind: ethertype.KindRetry, DstPort: h.SrcPort, SrcPort: h.DstPort, Tag: c.Tag, Ack: c.Seq, Sack: token})
}

// sendReject refuses a request that was sent to a port.
func (t *Table) sendReject(to ethertype.Addr, port uint16, c *Info, body []byte) {
	if t.strangers.Answers.Allow(guard.Reject, t.shared.Now()) {
		t.shared.SendControl(ethertype.Header{Dst: to.MAC, Kind: ethertype.KindReject, DstPort: to.Port, SrcPort: port, Tag: c.Tag, Ack: c.Seq}, body)
	}
}

// Refuse refuses a request, with a text for its requester that is truncated to MaxData bytes.
func (t *Table) Refuse(r *Request, text string) {
	t.refuse(r, append([]byte{rejectRefused}, text[:min(len(text), MaxData)]...))
}

// Shut refuses the requests that wait at a listener, because the listener is closed.
func (t *Table) Shut(l *Listener) {
	for _, r := range l.Backlog.Clear() {
		t.refuse(r, []byte{rejectNoListener})
	}
}

func (t *Table) refuse(r *Request, body []byte) {
	r.Refuse(body, t.shared.Now())
	t.repeatRefusal(r)
}

// repeatRefusal sends the rejection of a request again.
func (t *Table) repeatRefusal(r *Request) {
	t.sendReject(r.From, r.Port, &r.Info, r.Refusal)
}
