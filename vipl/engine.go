package vipl

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// This file is the engine's one step. Everything in it runs with n.mu held.

// poll is the engine's step at n.now: it takes in the frames that have arrived, runs due timers, and sends what
// became possible. It reports whether any frame arrived.
func (n *NIC) poll() bool {
	n.catchUp()
	k, err := n.link.Recv(n.views)
	if err != nil {
		n.linkError(err)
	}
	if n.deaf() {
		k = 0
	}
	n.lone = k == 1
	views, rest := n.views[:k], 0
	if n.long.link != nil && k > 0 && len(views[k-1]) >= transport.LongBegin {
		if rest = n.long.link.Rest(); rest > 0 {
			views, n.lone = views[:k-1], false
		}
	}
	if n.lone && n.receiveShort(views[0]) {
		views = nil
		if n.tx.n > 0 { // an answer, after which there is time
			n.tx.flush(n)
			n.catchUp()
		}
	}
	for _, frame := range views {
		n.receive(frame)
	}
	if rest > 0 {
		n.receiveLong(n.views[k-1], rest)
	}
	if n.now >= n.timers.next {
		n.runTimers()
	}
	if n.late.vi == nil && len(n.touched) > 0 {
		n.settle()
	}
	if n.tx.n > 0 {
		n.tx.flush(n)
	}
	if n.dead != nil {
		n.bury()
	}
	return k > 0
}

// deaf reports whether somebody has closed the link under the NIC. It may carry frames
// for a moment yet, but to answer them would tell peers that they are silent, before
// whoever answers in this NIC's place can tell them what has happened.
func (n *NIC) deaf() bool { return n.dead != nil && errors.Is(n.dead, transport.ErrClosed) }

// receive takes one frame apart and hands it to whom it concerns.
func (n *NIC) receive(frame []byte) {
	h := &n.rxh
	payload, err := h.Parse(frame)
	if err != nil {
		n.dropInvalid(h, err)
		return
	}
	if n.info.Unprotected && h.Flags&ethertype.FlagWholeCRC == 0 {
		n.drop(DropCRC)
		return
	}
	n.stats.RxFrames++
	n.stats.RxBytes += uint64(len(frame))
	switch h.Kind {
	case ethertype.KindData, ethertype.KindRDMAWrite, ethertype.KindRDMARead, ethertype.KindReadData,
		ethertype.KindAck, ethertype.KindDisconnect, ethertype.KindPiece:
		n.receiveConn(h, payload)
	case ethertype.KindReset:
		n.receiveReset(h, payload)
	case ethertype.KindRequest, ethertype.KindRetry, ethertype.KindAccept, ethertype.KindReject, ethertype.KindProbe, ethertype.KindProbeAck:
		n.receiveHandshake(h, payload)
	case ethertype.KindQuery, ethertype.KindAnswer, ethertype.KindEcho, ethertype.KindEchoReply:
		n.dir.Receive(h, payload)
	}
}

// dropInvalid counts a frame of which h could not be parsed. A wrong CRC leaves
// h as the frame has it.
func (n *NIC) dropInvalid(h *ethertype.Header, err error) {
	n.drop(parseReason(err))
	if err == ethertype.ErrCRC {
		n.receiveDamaged(h)
	}
}

func parseReason(err error) Drop {
	switch err {
	case ethertype.ErrShort:
		return DropShort
	case ethertype.ErrCRC:
		return DropCRC
	case ethertype.ErrRange:
		return DropRange
	}
	return DropFormat
}

// receiveConn handles the frames of connections: those that carry a tag.
func (n *NIC) receiveConn(h *ethertype.Header, payload []byte) {
	if !n.alone(h) {
		return
	}
	v := n.viAt(h.DstPort)
	if v == nil || v.localTag != h.Tag || v.state == StateIdle {
		n.stray(h)
		return
	}
	if h.Src != v.remote.MAC || h.SrcPort != v.remote.Port {
		v.drop(DropPeer)
		return
	}
	switch v.state {
	case StateConnectPending:
		if h.Kind == ethertype.KindDisconnect && h.Ack == v.hs.localSeq {
			v.hs.finish(v, &ConnError{Local: v.Local(), Remote: v.remote, Err: ErrDisconnected, Detail: "it gave up in the middle of the handshake"})
			n.sendReset(h)
			return
		}
		v.drop(DropEarly) // overtook the end of the handshake; it will come again
	case StateError:
		v.sendFarewell(h)
	case StateConnected:
		n.touch(v)
		v.stats.RxFrames++
		if !v.genuine(h) && !(h.Kind == ethertype.KindDisconnect && v.plausible(h)) {
			v.drop(v.forgery(h))
			return
		}
		v.heard, v.probes = n.now, 0
		if h.Flags&ethertype.FlagTakesLong != 0 && v.long && !v.wide() {
			v.widen()
		}
		switch h.Kind {
		case ethertype.KindAck:
			v.receiveAck(h, payload)
		case ethertype.KindDisconnect:
			v.receiveDisconnect(h, payload)
		case ethertype.KindPiece:
			v.receivePiece(h, payload)
		default:
			v.receiveData(h, payload)
		}
	}
}

// alone reports whether a frame was sent to this NIC and nobody else, as all frames
// of connections are, and drops it if not: else one frame to all could reach into
// connections of many hosts.
func (n *NIC) alone(h *ethertype.Header) bool {
	if h.Dst == n.info.MAC {
		return true
	}
	n.drop(DropDestination)
	return false
}

// stray answers a frame for a connection that is not there, so that its
// sender learns at once and not by timeout, or need not say farewell again.
// Resets are never answered.
func (n *NIC) stray(h *ethertype.Header) {
	n.drop(DropStale)
	if h.Src.IsGroup() {
		return
	}
	if !n.ghosts.answer(n, h) && n.answers.Take(guard.Reset, n.now) {
		n.sendReset(h)
	}
}

// linkError is called with what the link returns. An interface that is down
// or gone breaks nothing by itself: it may come back, and the connections'
// own timeouts judge. It is said once.
func (n *NIC) linkError(err error) {
	if n.failed == nil {
		n.failed = err
		if !n.closed {
			n.log.Warn("link error", "interface", n.info.Interface, "err", err)
		}
	}
	if n.dead == nil && !n.closed && errors.Is(err, transport.ErrClosed) {
		n.dead = err
		n.raise(CodeCatastrophic, nil, nil, 0, fmt.Errorf("%w: %w", ErrLink, err))
	}
}

// bury ends what depended on a link that somebody has closed under the NIC.
func (n *NIC) bury() {
	for _, v := range n.vis {
		switch {
		case v == nil:
		case v.state == StateConnected:
			v.enterError(linkCause(n.dead), "", reasonSilent)
		case v.state == StateConnectPending:
			v.hs.finish(v, &ConnError{Local: v.Local(), Remote: v.remote, Err: linkCause(n.dead)})
		}
	}
	n.eng.WakeAll()
}

// receiveDamaged looks at what a frame with a wrong CRC says of itself: the VI
// whose connection it names has lost it. If it is an RDMA write on the
// unreliable level, nobody will send it again.
func (n *NIC) receiveDamaged(h *ethertype.Header) {
	v := n.viAt(h.DstPort)
	if v == nil || v.state != StateConnected || v.localTag != h.Tag || h.Src != v.remote.MAC || h.SrcPort != v.remote.Port || !v.genuine(h) {
		return
	}
	v.stats.Dropped[DropCRC]++ // the NIC has counted it
	if h.Kind == ethertype.KindRDMAWrite && !v.reliable {
		n.raise(CodeRDMAWData, v, nil, StatusOpRemoteRDMAWrite, errDamaged)
	}
}
