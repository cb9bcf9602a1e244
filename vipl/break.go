package vipl

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// reason says in a KindDisconnect frame why its sender ended the connection.
type reason uint8

const (
	reasonLeft      reason = iota // the peer called Disconnect or Close
	reasonNoReceive               // a message came and no receive was posted
	reasonTooLong                 // a message was longer than the posted receive
	reasonRDMA                    // an RDMA write was outside a region or without the right
	reasonProtocol                // frames contradicted each other
	reasonSilent                  // the other side had not answered for too long
	reasonEnd
)

// cause returns the error that r means to both sides.
func (r reason) cause() error {
	switch r {
	case reasonNoReceive:
		return ErrRecvQueue
	case reasonTooLong:
		return ErrTooLong
	case reasonRDMA:
		return ErrRDMA
	case reasonProtocol:
		return ErrProtocol
	case reasonSilent:
		return ErrUnreachable
	}
	return ErrDisconnected
}

// fail ends a connection because of what a frame of the peer asks: this side
// enters Error, the peer is told why.
func (v *VI) fail(why reason) {
	v.sendDisconnect(why)
	if why == reasonTooLong && v.rq.done != v.rq.tail {
		v.rq.complete(v, StatusOpReceive|StatusLengthError, 0)
	}
	v.enterError(why.cause(), "found here", why)
	v.nic.stats.Failures++
}

// enterError moves the VI to the Error state and flushes its queues, as VIA
// has it. The oldest send still under way gets the status that tells why.
func (v *VI) enterError(cause error, detail string, why reason) {
	n := v.nic
	n.catchUp()
	v.err = &ConnError{Local: v.Local(), Remote: v.remote, Err: cause, Detail: detail}
	v.state = StateError
	v.farewell = why
	if v.sq.done != v.sq.tail {
		n.tx.flush(n)
		n.tx.discard(n)
		if status := v.blame(why); status != 0 {
			v.sq.complete(v, v.sq.at(v.sq.done).opStatus()|status, 0)
		}
	}
	v.flushAll()
	v.gate.open(n)
	n.log.Debug("connection ended", "local", v.Local(), "remote", v.remote, "cause", cause)
}

// blame is the status of the send that was under way when a connection ended
// (VIPL reference, section 10).
func (v *VI) blame(why reason) Status {
	switch {
	case why == reasonRDMA:
		return StatusRDMAProtError
	case why == reasonLeft:
		return 0
	case v.attr.Reliability == reliability.ReliableReception && why != reasonSilent:
		return StatusRemoteDescError
	}
	return StatusTransportError
}

// sendDisconnect tells the peer that the connection is over, and why. The
// frame carries the last acknowledgement, so that what has arrived counts.
func (v *VI) sendDisconnect(why reason) {
	n := v.nic
	slot := n.tx.slot(n)
	if slot == nil {
		return
	}
	h := v.header(ethertype.KindDisconnect)
	h.Flags |= ethertype.FlagWholeCRC
	h.Size = 1
	h.Put(slot)
	slot[ethertype.HeaderSize] = byte(why)
	n.tx.add(slot[:ethertype.HeaderSize+1], nil)
}

// sendFarewell answers a frame that reaches a VI in the Error state: the peer
// has not heard yet.
func (v *VI) sendFarewell(h *ethertype.Header) {
	v.nic.stats.drop(DropStale)
	if h.Kind != ethertype.KindDisconnect {
		v.sendDisconnect(v.farewell)
	}
}

func (v *VI) receiveDisconnect(h *ethertype.Header, payload []byte) {
	if len(payload) < 1 || reason(payload[0]) >= reasonEnd {
		v.nic.stats.drop(DropFormat)
		return
	}
	if v.reliable {
		if progress, _ := v.tx.OnAck(v.nic.now, h.Ack, h.Sack, nil); progress {
			v.completeAcked()
		}
	}
	why := reason(payload[0])
	v.enterError(why.cause(), "the peer says so", why)
}

// resetSize is the payload of a KindReset frame: the tag of the frame that it
// answers, as proof that its sender saw it, and the incarnation of the NIC.
const resetSize = 12

func putReset(b []byte, tag uint32, incarnation uint64) {
	binary.BigEndian.PutUint32(b, tag)
	binary.BigEndian.PutUint64(b[4:], incarnation)
}

// receiveReset handles the answer to a frame for a connection that the peer
// does not have. It counts only if it proves to be about this one.
func (n *NIC) receiveReset(h *ethertype.Header, payload []byte) {
	v := n.viAt(h.DstPort)
	if len(payload) < resetSize || v == nil || v.state != StateConnected || h.Src != v.remote.MAC || h.SrcPort != v.remote.Port ||
		binary.BigEndian.Uint32(payload) != v.remoteTag {
		n.stats.drop(DropStale)
		return
	}
	if binary.BigEndian.Uint64(payload[4:]) != v.incarnation {
		v.enterError(ErrPeerReset, "another process answers at its address now", reasonSilent)
		return
	}
	v.enterError(ErrDisconnected, "it no longer has this connection", reasonLeft)
}

// ghosts are connections that this side has just left: their last
// acknowledgement answers frames of a peer that has not heard of the end, so
// that what it sent in time counts as delivered.
type ghostTable struct {
	ring [64]ghost
	next int
}

type ghost struct {
	h ethertype.Header // the farewell
	// localTag and port are how the peer's frames name the connection.
	localTag uint32
	port     uint16
}

func (t *ghostTable) remember(v *VI) {
	h := v.header(ethertype.KindDisconnect)
	t.ring[t.next%len(t.ring)] = ghost{h: *h, localTag: v.localTag, port: v.port}
	t.next++
}

// answer sends the farewell again if h belongs to a connection just left.
func (t *ghostTable) answer(n *NIC, h *ethertype.Header) bool {
	for i := range t.ring {
		g := &t.ring[i]
		if g.localTag == h.Tag && h.Tag != 0 && g.port == h.DstPort && g.h.Dst == h.Src && g.h.DstPort == h.SrcPort {
			n.sendControl(g.h, []byte{byte(reasonLeft)})
			return true
		}
	}
	return false
}
