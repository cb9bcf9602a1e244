package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// Long frames, those that some links carry beyond their MTU (transport.LongLink).
//
// Whether the path to a peer carries them, and back, the handshake finds out: the
// client sends a probe of that size beside the others. If it is answered, all its
// frames say so (ethertype.FlagTakesLong), and from then on either side cuts
// messages accordingly. Only connections on the reliable levels do: on the
// unreliable one a fragment's place in the sequence tells which RDMA write it is of,
// so that all must be of one size.
//
// Of a long frame only the beginning is at hand when it is judged; its data are
// fetched from the link to where they belong, and so are copied once. Those that
// are needed before, of several messages for example, are fetched first.

// longRx is what a NIC has for long frames.
type longRx struct {
	link    transport.LongLink // nil: none
	size    int                // bytes of payload that a long frame holds; 0 without them
	room    []byte             // for a frame that is put together; made for the first one
	promise bool               // of the payload that is being received, what follows the extension is not in room yet
	parts   [maxParts][]byte
	last    [wordSize]byte // of the data of an RDMA write
	out     []byte         // for a frame that goes in pieces; made for the first one
	fetched uint64         // frames that went straight to where they belong
}

// maxParts is of how many pieces the memory is to which a frame goes.
const maxParts = MaxSegments

// longFlight bounds what a connection has under way of long frames, which is best
// kept in a cache. One in longAsk of those that are not acknowledged asks for it.
const (
	longFlight = 12 // frames
	longAsk    = 6
)

func (l *longRx) init(n *NIC) {
	if link, ok := n.link.(transport.LongLink); ok && !n.info.Unprotected && link.StartLong() {
		l.link, l.size = link, ethertype.LongMTU-ethertype.BaseSize
	}
}

// takesLong reports whether v would use long frames if its peer and the path did. They
// are the frames that the interface's MTU does not allow. Where that is larger than
// the peer's, or has been made smaller since the link was opened, there are lengths
// between both that the link takes for those of common frames, and that do not pass:
// see adopt.
func (v *VI) takesLong() bool {
	return v.nic.long.link != nil && v.reliable && v.remote.MAC != v.nic.info.MAC
}

// widen begins to send long frames, which the path has been proven to carry: at
// once, or behind the RDMA write that is being sent, whose fragments are of one size;
// see overtakes.
func (v *VI) widen() {
	if v.hole.fallen {
		return
	}
	if v.proven = v.cursor.offset > 0 && v.sq.at(v.cursor.next).Op == OpRDMAWrite; v.proven {
		return
	}
	v.flags |= ethertype.FlagTakesLong
	v.maxData = v.nic.long.size
}

// turn does at the beginning of a message what widen, or fall, has put off.
func (v *VI) turn() {
	if v.proven = false; v.hole.fallen {
		v.maxData = v.pathData
		return
	}
	v.widen()
}

// wide reports whether v sends long frames.
func (v *VI) wide() bool { return v.maxData > v.pathData }

// enough reports whether so much is under way that a further long frame should
// wait.
func (v *VI) enough() bool {
	if !v.wide() || v.tx.InFlight() < longFlight {
		return false
	}
	if v.serves.waiting > 0 || v.cursor.next == v.sq.tail {
		return true
	}
	d := v.sq.at(v.cursor.next)
	if d.total < packLong {
		return false
	}
	ready := uint64(v.sq.tail.Sub(v.cursor.next)) * uint64(d.total) // about, if the others are like it
	return ready > uint64(v.cursor.offset)+uint64(v.pathData)
}

// receiveLong takes a long frame apart, of which rest bytes are with the link.
func (n *NIC) receiveLong(begin []byte, rest int) {
	l, h := &n.long, &n.rxh
	if l.room == nil {
		l.room = make([]byte, ethertype.EthernetSize+ethertype.LongMTU)
	}
	if len(begin)+rest > len(l.room) {
		n.drop(DropFormat)
		return
	}
	frame := l.room[:len(begin)+rest]
	if _, err := h.ParseBegin(begin, rest); err == nil && n.straight(h) {
		at := ethertype.HeaderSize + h.Extension()
		copy(frame[:at], begin)
		l.promise = true
		n.stats.RxFrames++
		n.stats.RxBytes += uint64(len(frame))
		n.receiveConn(h, frame[ethertype.HeaderSize:][:h.Size])
		l.promise = false
		return
	}
	copy(frame, begin[:ethertype.HeaderSize])
	if l.parts[0] = frame[ethertype.HeaderSize:]; l.link.Fetch(ethertype.HeaderSize, l.parts[:1]) {
		n.receive(frame)
	} else {
		n.drop(DropShort)
	}
}

// straight reports whether the data of a frame need not be seen before they lie
// where they belong.
func (n *NIC) straight(h *ethertype.Header) bool {
	v := n.viAt(h.DstPort)
	return v != nil && v.reliable && h.Flags&(ethertype.FlagPacked|ethertype.FlagWholeCRC) == 0 &&
		(h.Kind == ethertype.KindData || h.Kind == ethertype.KindRDMAWrite || h.Kind == ethertype.KindReadData)
}

// put copies data, the end of the payload that is being received, to offset in
// segs. The outcome is fatal if there is no room, and deferred if the link has
// lost them.
func (n *NIC) put(segs []Segment, offset uint32, data []byte) outcome {
	l := &n.long
	if !l.promise {
		if !scatter(segs, offset, data) {
			return fatal
		}
		return placed
	}
	parts, ok := appendParts(l.parts[:0], segs, offset, uint32(len(data)))
	if !ok {
		return fatal
	}
	ok = l.link.Fetch(ethertype.HeaderSize+int(n.rxh.Size)-len(data), parts)
	clear(parts) // keep none of the caller's memory alive
	if !ok {
		return deferred
	}
	l.fetched++
	return placed
}
