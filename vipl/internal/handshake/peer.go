package handshake

import (
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
)

// PeerSize is the size of the data before the discriminator in a peer-to-peer request, in bytes.
//
// In a peer-to-peer connection both sides send requests, and neither listens. Requests go to the
// other NIC itself. They match when each side names the other's NIC and both name the same
// discriminator. The two requests cross. The NIC with the higher address answers; the other's
// request only shows that the NIC lives. The rest is the handshake of client and server. Here, too,
// a request counts only with the token of a Retry, which the drawing omits.
//
//	lower address                              higher address
//	  | -- Request (discriminator) ---------->  |  may come before it has asked: dropped
//	  | <------------- Request (the same) ----  |  makes the lower repeat its own at once
//	  | -- Request -------------------------->  |  matches
//	  | <-- Accept --------------------------   |  and so on
//
// The private data of such a request is PeerSize bytes and the discriminator:
//
//	offset  size  field
//	     0     2  port of the sender's NIC
//	     2     4  number of the attempt, which grows with each of that NIC
const PeerSize = 6

// peerKey is what the requests of both sides must have in common, from one side's point of view.
type peerKey struct {
	remote        ethertype.Addr // the other NIC
	discriminator string
}

// peerTable holds the pending attempts.
type peerTable struct {
	pending  map[peerKey]*Side
	attempts uint32
	refused  [64]refusal // the last ones, for requesters that did not receive them
	next     int
}

// refusal is the rejection of a request.
type refusal struct {
	from ethertype.Addr
	tag  uint32
	body []byte
}

// Meets reports whether a peer-to-peer attempt with the same discriminator to the same NIC is
// pending.
func (t *Table) Meets(remote ethertype.Addr, discriminator []byte) bool {
	return t.peers.pending[peerKey{remote, string(discriminator)}] != nil
}

// AskPeer starts a peer-to-peer attempt to the NIC at remote. It gives up after timeout.
func (s *Side) AskPeer(remote ethertype.Addr, discriminator []byte, timeout int64) {
	t := s.table
	t.peers.attempts++
	data := binary.BigEndian.AppendUint16(nil, t.nic.Port)
	data = binary.BigEndian.AppendUint32(data, t.peers.attempts)
	s.conn.Remote = remote
	s.enterPending(phaseRequest, timeout, append(data, discriminator...))
	key := peerKey{remote, string(discriminator)}
	s.attempt.peer = &key
	t.peers.pending[key] = s
	s.Step()
}

// receivePeer handles a peer-to-peer request.
func (t *Table) receivePeer(h *ethertype.Header, c *Info) {
	if len(c.Data) < PeerSize || h.DstPort != t.nic.Port {
		t.shared.Drop(drops.Format)
		return
	}
	from := sender(h)
	remote := ethertype.Addr{MAC: h.Src, Port: binary.BigEndian.Uint16(c.Data)}
	refusal := t.peers.refusal(from, c.Tag)
	s := t.peers.pending[peerKey{remote, string(c.Data[PeerSize:])}]
	switch {
	case s == nil && refusal == nil:
		t.shared.Drop(drops.NoListener) // it is repeated, and this side may have asked by then
		return
	case !t.proven(h, c):
		t.sendRetry(h, c)
		return
	case refusal != nil:
		t.sendReject(from, h.DstPort, c, refusal)
		return
	}
	if i := s.differs(&c.Terms); i >= 0 {
		body := fmt.Append([]byte{rejectReliability + byte(i)}, agreed[i].value(&s.Terms))
		t.peers.refuse(from, c.Tag, body)
		t.sendReject(from, h.DstPort, c, body)
		s.fail(remote, agreed[i].err, s.mismatch(i, fmt.Sprint(agreed[i].value(&c.Terms))))
		return
	}
	s.meet(from, remote, c)
}

// meet continues when the other side has sent a matching request.
func (s *Side) meet(from, remote ethertype.Addr, c *Info) {
	a := s.attempt
	now, number := s.table.shared.Now(), ethertype.Seq(binary.BigEndian.Uint32(c.Data[2:]))
	if s.table.nic.Compare(remote) < 0 { // it waits for this side's request, which may have arrived too early
		if a.phase == phaseRequest {
			a.Next = now
			s.table.attempts.Resume(&a.Attempt, now)
			s.Step()
		}
		return
	}
	if a.phase == phaseAccept && c.Incarnation == s.PeerIncarnation && !a.theirs.Less(number) {
		return // received before, or of an attempt that it has given up since
	}
	a.phase, a.theirs = phaseAccept, number
	s.adopt(from, c)
	a.Restart(now)
	s.Step()
}

// refuse records that a request is refused because the terms do not match, and the answer to its
// repetitions.
func (t *peerTable) refuse(from ethertype.Addr, tag uint32, body []byte) {
	t.refused[t.next%len(t.refused)] = refusal{from, tag, body}
	t.next++
}

// refusal returns the rejection of a request that was refused before, or nil.
func (t *peerTable) refusal(from ethertype.Addr, tag uint32) []byte {
	for i := range t.refused {
		if r := &t.refused[i]; r.body != nil && r.from == from && r.tag == tag {
			return r.body
		}
	}
	return nil
}
