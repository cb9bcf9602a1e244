package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// Ghosts are connections that this side has just left: their last
// acknowledgement and why it ended answer frames of a peer that has not heard of
// the end, so that what it sent in time counts as delivered, and that the rest
// failed for the right cause. A peer that has heard says so by a Reset; see linger.
type ghostTable struct {
	ring    []ghost        // grows to ghostsMax; then the oldest goes
	next    int            // the oldest
	local   map[uint32]int // places in ring, by the tag of the peer's frames
	remote  map[uint32]int // and by the tag of ours
	unheard int            // how many of whose peers may not have heard
	gate    progress.Gate  // opens when all have
}

type ghost struct {
	h   ethertype.Header // the farewell
	why conn.Reason      // that it gives
	// localTag and port are how the peer's frames name the connection.
	localTag uint32
	port     uint16
	left     int64 // when
	heard    bool  // the peer knows that the connection is over
	loose    bool  // it was unreliable: how far the peer's numbers went is not known
}

const (
	ghostsMax   = 1024        // more only if a NIC with more VIs closes
	lingerFirst = 2_000_000   // ns until a farewell is repeated, doubling up to lingerEach
	lingerEach  = 32_000_000  // ns
	lingerMax   = 250_000_000 // ns that a NIC takes to close
	// lingerAge is how long after a connection has ended a peer may still be
	// waiting for the end of it: later it has found out by itself.
	lingerAge = int64(DefaultPeerTimeout)
)

// remember adds v, which leaves its connection for the given reason. told says
// that its peer knows.
func (t *ghostTable) remember(v *VI, why conn.Reason, told bool) {
	if t.local == nil {
		t.local, t.remote = map[uint32]int{}, map[uint32]int{}
	}
	at := len(t.ring)
	if at < max(ghostsMax, v.nic.numVIs) {
		t.ring = append(t.ring, ghost{})
	} else {
		at = t.next
		t.next = (at + 1) % len(t.ring)
		t.displace(at)
	}
	g := &t.ring[at]
	*g = ghost{h: v.conn.LastWord(), why: why, localTag: v.conn.LocalTag, port: v.conn.Port, left: v.nic.conns.Now, heard: told, loose: !v.conn.Reliable}
	t.local[g.localTag], t.remote[g.h.Tag] = at, at
	if !told {
		t.unheard++
	}
}

// displace forgets the ghost at a place.
func (t *ghostTable) displace(at int) {
	g := &t.ring[at]
	if t.local[g.localTag] == at {
		delete(t.local, g.localTag)
	}
	if t.remote[g.h.Tag] == at {
		delete(t.remote, g.h.Tag)
	}
	if !g.heard {
		t.unheard--
	}
}

// answer sends the farewell again if h belongs to a connection just left, unless
// it is the peer's own farewell.
func (t *ghostTable) answer(n *NIC, h *ethertype.Header) bool {
	at, ok := t.local[h.Tag]
	if !ok || !t.ring[at].between(h) {
		return false
	}
	g := &t.ring[at]
	if !g.genuine(h) {
		return true
	}
	if h.Kind == ethertype.KindDisconnect {
		t.hear(n, g)
		return false
	}
	if n.answers.Take(guard.Reset, n.conns.Now) {
		n.conns.SendControl(g.h, []byte{byte(g.why)})
	}
	return true
}

// confirm notes that the peer of a connection just left has heard: h is its
// answer to a frame with the given tag.
func (t *ghostTable) confirm(n *NIC, h *ethertype.Header, tag uint32) bool {
	at, ok := t.remote[tag]
	if !ok || !t.ring[at].between(h) || !t.ring[at].genuine(h) {
		return false
	}
	t.hear(n, &t.ring[at])
	return true
}

// between reports whether h came from the connection's peer to its port here.
func (g *ghost) between(h *ethertype.Header) bool {
	return g.port == h.DstPort && g.h.Dst == h.Src && g.h.DstPort == h.SrcPort
}

// genuine is VI.genuine for a connection that is over: h says what the peer may have
// received, and its number is near that which was expected of it.
func (g *ghost) genuine(h *ethertype.Header) bool {
	const w = reliability.MaxWindow
	acked, ahead := h.Ack.Sub(g.h.Seq), h.Seq.Sub(g.h.Ack)
	return -w <= acked && acked <= 0 && (-w <= ahead && ahead <= w || g.loose)
}

func (t *ghostTable) hear(n *NIC, g *ghost) {
	if g.heard {
		return
	}
	g.heard = true
	if t.unheard--; t.unheard == 0 {
		t.gate.Open(&n.eng)
	}
}

// linger keeps a NIC that closes answering until every peer of a connection that
// it has left knows of that, and repeats what they have not heard. Without it the
// peer whose farewell is lost would wait for its PeerTimeout, because nobody is
// left to answer it, and take its last messages for lost.
func (n *NIC) linger() {
	t := &n.ghosts
	n.conns.Now = n.link.Now()
	for i := range t.ring {
		if g := &t.ring[i]; n.conns.Now-g.left > lingerAge {
			t.hear(n, g)
		}
	}
	if n.info.Virtual && n.eng.Led() {
		return // another process waits on the station, and would have to run first
	}
	w := n.eng.Begin(context.Background())
	defer n.eng.End(&w)
	end := n.conns.Now + lingerMax
	for each := int64(lingerFirst); t.unheard > 0 && n.failed == nil && n.conns.Now < end; each = min(2*each, lingerEach) {
		until := min(n.conns.Now+each, end)
		w.Until(until)
		for t.unheard > 0 && n.failed == nil && n.conns.Now < until && n.wait(&w, &t.gate) == nil {
		}
		t.repeat(n)
	}
}

// repeat says farewell again to those that may not have heard.
func (t *ghostTable) repeat(n *NIC) {
	for i := range t.ring {
		if g := &t.ring[i]; !g.heard && !n.conns.Full() {
			n.conns.SendControl(g.h, []byte{byte(g.why)})
		}
	}
	n.conns.Flush()
}
