package vipl

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
)

// Peer-to-peer connection: both sides ask, neither listens. Requests go to the
// other NIC itself and match when each side has named the other's NIC and both
// the same discriminator. The two requests cross; the NIC with the higher
// address answers, the other one's request is only a sign of life. From there
// on it is the handshake of client and server. Here too a request counts only with
// the token that a Retry has brought, which the drawing leaves out.
//
//	lower address                              higher address
//	  | -- Request (discriminator) ---------->  |  may come before it has asked: dropped
//	  | <------------- Request (the same) ----  |  makes the lower repeat its own at once
//	  | -- Request -------------------------->  |  matches
//	  | <-- Accept --------------------------   |  and so on
//
// The private data of such a request is peerSize bytes and the discriminator:
//
//	offset  size  field
//	     0     2  port of the sender's NIC
//	     2     4  number of the attempt, which grows with each of that NIC
const peerSize = 6

// peerKey is what the requests of both sides must have in common, as one side
// sees it.
type peerKey struct {
	remote        ethertype.Addr // the other NIC
	discriminator string
}

// peerTable holds the attempts under way.
type peerTable struct {
	pending  map[peerKey]*VI
	attempts uint32
	refused  [64]refusal // the last ones, for requesters that did not hear
	next     int
}

type refusal struct {
	key  requestKey
	body []byte
}

func (t *peerTable) init() { t.pending = map[peerKey]*VI{} }

// ConnectPeer connects an idle VI to one of another program that does the same
// at about the same time, and waits until both are connected
// (VipConnectPeerRequest, VipConnectPeerWait). remote is the address of the
// other's NIC, NIC.Addr; both sides give the same discriminator, at most
// MaxDiscriminator bytes, which tells the connections between two NICs apart.
// Without a deadline in ctx it gives up after Attributes.ConnectTimeout.
//
// It returns ErrTimeout when the other side has not asked in time, and
// ErrInvalidReliability, ErrInvalidMTU or ErrInvalidQoS, on both sides, when
// the attributes of the VIs differ; all as *ConnError, which names both sides
// and what each has.
func (v *VI) ConnectPeer(ctx context.Context, remote ethertype.Addr, discriminator []byte) error {
	if err := v.connectPeer(ctx, remote, discriminator); err != nil {
		return err
	}
	return v.awaitConnect(ctx)
}

// ConnectPeerStart begins what ConnectPeer does and returns at once
// (VipConnectPeerRequest); ConnectPeerDone and ConnectPeerWait tell how it
// went. It gives up after Attributes.ConnectTimeout.
func (v *VI) ConnectPeerStart(remote ethertype.Addr, discriminator []byte) error {
	return v.connectPeer(context.Background(), remote, discriminator)
}

// ConnectPeerDone reports how the attempt went (VipConnectPeerDone): nil when
// the VI is connected, ErrNotDone while it is pending, else why it failed. It
// polls the NIC once if need be.
func (v *VI) ConnectPeerDone() error { return v.ConnectDone() }

// ConnectPeerWait blocks until the attempt has an outcome (VipConnectPeerWait).
// When ctx ends first the attempt is abandoned.
func (v *VI) ConnectPeerWait(ctx context.Context) error { return v.awaitConnect(ctx) }

func (v *VI) connectPeer(ctx context.Context, remote ethertype.Addr, discriminator []byte) error {
	const op = "connect to peer"
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	key := peerKey{remote, string(discriminator)}
	if err := v.admitConnect(op, remote); err != nil {
		return err
	}
	switch {
	case len(discriminator) > MaxDiscriminator:
		return opError(op, ErrInvalidParameter, "a discriminator of %d bytes is over the limit of %d", len(discriminator), MaxDiscriminator)
	case remote == n.addr:
		return opError(op, ErrInvalidParameter, "%v is this NIC: of two VIs of one NIC, one listens and the other connects", remote)
	case n.peers.pending[key] != nil:
		return opError(op, ErrInvalidState, "another VI is being connected to %v with the same discriminator", remote)
	}
	n.peers.attempts++
	data := binary.BigEndian.AppendUint16(nil, n.addr.Port)
	data = binary.BigEndian.AppendUint32(data, n.peers.attempts)
	n.conns.Now = n.link.Now()
	v.conn.Remote = remote
	v.begin(phaseRequest, int64(n.eng.Left(ctx, v.attr.ConnectTimeout)), append(data, discriminator...))
	v.hs.peer = &key
	n.peers.pending[key] = v
	v.hs.step(v)
	n.conns.Flush()
	return nil
}

// receivePeer handles a request of the peer-to-peer kind.
func (n *NIC) receivePeer(h *ethertype.Header, c *conninfo.Info) {
	if len(c.Data) < peerSize || h.DstPort != n.addr.Port {
		n.conns.Drop(DropFormat)
		return
	}
	from := ethertype.Addr{MAC: h.Src, Port: h.SrcPort}
	remote := ethertype.Addr{MAC: h.Src, Port: binary.BigEndian.Uint16(c.Data)}
	refusal := n.peers.refusal(requestKey{from, c.Tag})
	v := n.peers.pending[peerKey{remote, string(c.Data[peerSize:])}]
	switch {
	case v == nil && refusal == nil:
		n.conns.Drop(DropNoListener) // it asks again, and we may ask by then
		return
	case !n.proven(h, c):
		n.sendRetry(h, c)
		return
	case refusal != nil:
		n.sendReject(h, c, refusal)
		return
	}
	if code, err := v.match(remote, c); err != nil {
		value := agreed[code-rejectReliability].value(&v.attr)
		n.sendReject(h, c, n.peers.refuse(requestKey{from, c.Tag}, fmt.Append([]byte{code}, value)))
		v.hs.finish(v, err)
		return
	}
	v.meetPeer(from, remote, c)
}

// meetPeer goes on when the other side has asked as we have.
func (v *VI) meetPeer(from, remote ethertype.Addr, c *conninfo.Info) {
	n, hs := v.nic, v.hs
	attempt := ethertype.Seq(binary.BigEndian.Uint32(c.Data[2:]))
	if n.addr.Compare(remote) < 0 { // it waits for our request, which may have come too early
		if hs.phase == phaseRequest {
			hs.Next = n.conns.Now
			n.attempts.Resume(&hs.Attempt, n.conns.Now)
			hs.step(v)
		}
		return
	}
	if hs.phase == phaseAccept && c.Incarnation == v.incarnation && !hs.theirs.Less(attempt) {
		return // heard before, or of an attempt that it has given up since
	}
	hs.phase, hs.theirs = phaseAccept, attempt
	v.adopt(from, c)
	hs.Restart(n.conns.Now)
	hs.step(v)
}

// refuse notes that a request is refused, because the attributes do not match, and
// how the other side is told, now and whenever it asks again.
func (t *peerTable) refuse(key requestKey, body []byte) []byte {
	t.refused[t.next%len(t.refused)] = refusal{key, body}
	t.next++
	return body
}

// refusal returns what is told of a request that was refused before, else nil.
func (t *peerTable) refusal(key requestKey) []byte {
	for i := range t.refused {
		if r := &t.refused[i]; r.body != nil && r.key == key {
			return r.body
		}
	}
	return nil
}
