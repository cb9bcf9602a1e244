package vipl

import "github.com/bobnet-go/bobnet/ethertype"

// This file has what a poll leaves to be done once for each VI, however many frames came
// for it, and what it puts off until the caller is back. Everything in it runs with the
// engine's lock held.

// lateAck is the acknowledgement of a frame that came alone, in order and with
// nothing else to do than to hand its message to a caller who waits for it.
// The caller goes first: what the acknowledgement completes, and the timers,
// are seen to by catchUp when the caller is back in the engine, after it has
// sent its answer. This takes a tenth off the time of a ping-pong.
type lateAck struct {
	vi  *VI
	ack ethertype.Seq
	at  int64
}

// defers notes h's acknowledgement for later if nothing depends on it now.
func (v *VI) defers(h *ethertype.Header) bool {
	n := v.nic
	if !n.lone || h.Kind == ethertype.KindRDMARead || h.Kind == ethertype.KindReadData || h.Sack != 0 || !v.mayDefer(h.Ack) {
		return false
	}
	n.late = lateAck{vi: v, ack: h.Ack, at: n.now}
	return true
}

// mayDefer reports whether nothing depends now on ack.
func (v *VI) mayDefer(ack ethertype.Seq) bool {
	return !v.unsent() && v.tx.Covers(ack) && !v.rx.AckDue(v.nic.now)
}

// catchUp does what defers left. What it sends goes with the next flush.
func (n *NIC) catchUp() {
	v := n.late.vi
	if v == nil {
		return
	}
	n.late.vi = nil
	if v.state != StateConnected {
		return
	}
	if progress, _ := v.tx.OnAck(n.late.at, n.late.ack, 0, nil); progress {
		v.completeAcked()
	}
	n.settle()
}

// settle finishes what a poll's frames began, once per VI however many frames
// it got: window, acknowledgement, timers.
func (n *NIC) settle() {
	for i, v := range n.touched {
		v.touched = false
		n.touched[i] = nil
		if v.state == StateConnected {
			v.pump()
			v.ackIfDue()
			v.arm()
		}
	}
	n.touched = n.touched[:0]
}

func (n *NIC) touch(v *VI) {
	if !v.touched {
		v.touched = true
		n.touched = append(n.touched, v)
	}
}

// idlePoll is for callers that found nothing: messages that were gathered for
// a fuller frame go out now.
func (n *NIC) idlePoll() {
	if len(n.held) == 0 {
		return
	}
	n.now = n.link.Now()
	k := len(n.held)
	for _, v := range n.held[:k] { // pump puts those back for which the link has no room
		v.held = false
		if v.state == StateConnected {
			v.pump()
			v.arm()
		}
	}
	again := copy(n.held, n.held[k:])
	clear(n.held[again:])
	n.held = n.held[:again]
	n.tx.flush(n)
}

// sendControl sends a frame that is not part of a connection's sequence. The
// caller fills destination, kind, ports, tag and flags.
func (n *NIC) sendControl(h ethertype.Header, parts ...[]byte) {
	slot := n.tx.slot(n)
	if slot == nil {
		n.stats.TxDropped++
		return
	}
	h.Src, h.Type = n.info.MAC, n.info.EtherType
	h.Flags |= ethertype.FlagWholeCRC
	size := 0
	for _, p := range parts {
		size += copy(slot[ethertype.HeaderSize+size:], p)
	}
	h.Size = uint16(size)
	h.Put(slot)
	n.tx.add(slot[:ethertype.HeaderSize+size], nil)
}

func (n *NIC) viAt(port uint16) *VI {
	if i := int(port) - int(n.info.Ports.Lo); i >= 0 && i < len(n.vis) {
		return n.vis[i]
	}
	return nil
}
