package vipl

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// This file is the engine's one step. Everything in it runs with the engine's lock held.

// Poll implements progress.Machine: the engine's step at now. It takes in the frames that
// have arrived, runs due timers, and sends what became possible. It reports whether any
// frame arrived.
func (m *machine) Poll(now int64) bool {
	n := (*NIC)(m)
	n.conns.SetClock(now)
	k, err := n.link.Recv(n.views)
	if err != nil || n.health.dead != nil {
		k = n.receiveFailed(k, err)
	}
	if k > 0 {
		n.receive(n.views[:k])
	}
	n.conns.RunTimers()
	n.conns.Settle()
	n.conns.FlushPending()
	if n.health.dead != nil {
		n.endConnections()
	}
	return k > 0
}

// receiveFailed is called when the link has returned an error, and when it is of no use any more.
// It returns how many of the k frames that have arrived count.
func (n *NIC) receiveFailed(k int, err error) int {
	if err != nil {
		n.linkError(err)
	}
	if n.linkClosed() {
		return 0
	}
	return k
}

// receive takes in the frames of one poll. If the last one is long, only its beginning is
// there, and the rest of its bytes are with the link still.
func (n *NIC) receive(frames [][]byte) {
	last, rest := frames[len(frames)-1], 0
	if len(last) >= transport.LongBegin {
		if rest = n.conns.Rest(); rest > 0 {
			frames = frames[:len(frames)-1]
		}
	}
	if n.conns.Single = len(frames) == 1 && rest == 0; n.conns.Single && n.takeShort(last) {
		return
	}
	for _, frame := range frames {
		n.classify(frame)
	}
	if rest > 0 {
		n.classifyLong(last, rest)
	}
}

// takeShort has the frame of a poll that found no other take the fast path, if there is
// one for it, and reports whether it has.
func (n *NIC) takeShort(frame []byte) bool {
	v := n.ports.vi(ethertype.DstPort(frame))
	if v == nil || !v.conn.ReceiveShort(frame) {
		return false
	}
	if n.conns.Pending() { // an answer, after which there is time
		n.conns.Flush()
		n.conns.CatchUp()
	}
	return true
}

// linkClosed reports whether somebody has closed the link under the NIC. It may carry frames
// for a moment yet, but to answer them would tell peers that they are silent, before
// whoever answers in this NIC's place can tell them what has happened.
func (n *NIC) linkClosed() bool {
	return n.health.dead != nil && errors.Is(n.health.dead, transport.ErrClosed)
}

// classify takes frames apart and hands each to whom it concerns: the one given, and
// those that come in pieces of which it is the last.
func (n *NIC) classify(frame []byte) {
	for frame != nil {
		h := &n.conns.In
		payload, err := h.Parse(frame)
		if err != nil {
			n.dropInvalid(h, err)
			return
		}
		if n.info.Unprotected && h.Flags&ethertype.FlagWholeCRC == 0 {
			n.conns.Drop(DropCRC)
			return
		}
		n.conns.CountReceived(len(frame))
		frame = n.dispatch(h, payload)
	}
}

// classifyLong is classify for a long frame, of which rest bytes are with the link.
func (n *NIC) classifyLong(begin []byte, rest int) {
	if h, payload := n.conns.BeginLong(begin, rest, n.straight); payload != nil {
		whole := n.dispatch(h, payload)
		n.conns.EndLong()
		n.classify(whole)
		return
	}
	n.classify(n.conns.FetchLong(begin, rest))
}

// straight reports whether the data of a frame need not be seen before they lie
// where they belong.
func (n *NIC) straight(h *ethertype.Header) bool {
	v := n.ports.vi(h.DstPort)
	return v != nil && v.conn.TakesStraight(h)
}

// dispatch hands a frame to what its kind concerns. It returns a frame that has been put
// together from pieces, nil if there is none.
func (n *NIC) dispatch(h *ethertype.Header, payload []byte) (whole []byte) {
	switch h.Kind {
	case ethertype.KindData, ethertype.KindRDMAWrite, ethertype.KindRDMARead, ethertype.KindReadData,
		ethertype.KindAck, ethertype.KindDisconnect, ethertype.KindPiece:
		return n.receiveConn(h, payload)
	case ethertype.KindReset:
		n.receiveReset(h, payload)
	case ethertype.KindRequest, ethertype.KindRetry, ethertype.KindAccept, ethertype.KindReject, ethertype.KindProbe, ethertype.KindProbeAck:
		if n.addressedHere(h) {
			n.connects.Receive(h, payload)
		}
	case ethertype.KindQuery, ethertype.KindAnswer, ethertype.KindEcho, ethertype.KindEchoReply:
		n.dir.Receive(h, payload)
	}
	return nil
}

// dropInvalid counts a frame of which h could not be parsed. A wrong CRC leaves
// h as the frame has it.
func (n *NIC) dropInvalid(h *ethertype.Header, err error) {
	n.conns.Drop(parseReason(err))
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

// receiveConn handles the frames of connections: those that carry a tag. It returns a
// frame that has been put together from pieces.
func (n *NIC) receiveConn(h *ethertype.Header, payload []byte) (whole []byte) {
	if !n.addressedHere(h) {
		return nil
	}
	v := n.ports.vi(h.DstPort)
	if v == nil || v.conn.LocalTag != h.Tag || v.conn.State == StateIdle {
		n.stray(h)
		return nil
	}
	if h.Src != v.conn.Remote.MAC || h.SrcPort != v.conn.Remote.Port {
		v.conn.Drop(DropPeer)
		return nil
	}
	switch v.conn.State {
	case StateConnected:
		return v.conn.Receive(h, payload)
	case StateConnectPending:
		if !v.side.Disconnect(h) {
			v.conn.Drop(DropEarly) // overtook the end of the handshake; it will come again
		}
	case StateError:
		v.answerEnded(h)
	}
	return nil
}

// addressedHere reports whether a frame was sent to this NIC and nobody else, as all frames
// of connections are, and drops it if not: else one frame to all could reach into
// connections of many hosts.
func (n *NIC) addressedHere(h *ethertype.Header) bool {
	if h.Dst == n.info.MAC {
		return true
	}
	n.conns.Drop(DropDestination)
	return false
}

// stray answers a frame for a connection that is not there, so that its
// sender learns at once and not by timeout, or need not be told again.
// Resets are never answered.
func (n *NIC) stray(h *ethertype.Header) {
	n.conns.Drop(DropStale)
	if h.Src.IsGroup() {
		return
	}
	if !n.ended.answer(n, h) && n.strangers.Answers.Take(guard.Reset, n.conns.Now) {
		n.conns.SendReset(h)
	}
}

// linkError is called with what the link returns. An interface that is down
// or gone breaks nothing by itself: it may come back, and the connections'
// own timeouts judge. It is said once.
func (n *NIC) linkError(err error) {
	if n.health.failed == nil {
		n.health.failed = err
		if !n.closed {
			n.log.Warn("link error", "interface", n.info.Interface, "err", err)
		}
	}
	if n.health.dead == nil && !n.closed && errors.Is(err, transport.ErrClosed) {
		n.health.dead = err
		n.raise(CodeCatastrophic, nil, nil, 0, fmt.Errorf("%w: %w", ErrLink, err))
	}
}

// endConnections ends what depended on a link that somebody has closed under the NIC.
func (n *NIC) endConnections() {
	for _, v := range n.ports.vis {
		switch {
		case v == nil:
		case v.conn.State == StateConnected:
			v.conn.EnterError(linkCause(n.health.dead), "", conn.ReasonSilent)
		case v.conn.State == StateConnectPending:
			v.side.Fail(linkCause(n.health.dead), "")
		}
	}
	n.eng.WakeAll()
}

// receiveDamaged looks at what a frame with a wrong CRC says of itself: the VI
// whose connection it names has lost it. If it is an RDMA write on the
// unreliable level, nobody will send it again.
func (n *NIC) receiveDamaged(h *ethertype.Header) {
	v := n.ports.vi(h.DstPort)
	if v == nil || v.conn.State != StateConnected || v.conn.LocalTag != h.Tag || h.Src != v.conn.Remote.MAC || h.SrcPort != v.conn.Remote.Port || !v.conn.Genuine(h) {
		return
	}
	v.conn.Lost(DropCRC)
	if h.Kind == ethertype.KindRDMAWrite && !v.conn.Reliable {
		n.raise(CodeRDMAWData, v, nil, StatusOpRemoteRDMAWrite, errDamaged)
	}
}
