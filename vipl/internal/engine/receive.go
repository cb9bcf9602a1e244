package engine

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// Poll implements progress.Machine: the engine's step at now. It processes received frames, runs
// due timers, and sends frames that may now be sent. It reports whether any frame arrived.
func (m *Machine) Poll(now int64) bool {
	m.SetClock(now)
	k, err := m.Link.Recv(m.views)
	if err != nil || m.health.dead != nil {
		k = m.receiveFailed(k, err)
	}
	if k > 0 {
		m.receive(m.views[:k])
	}
	m.RunTimers()
	m.Settle()
	m.FlushPending()
	if m.health.dead != nil {
		m.endConnections()
	}
	return k > 0
}

// receiveFailed is called after an error of the link, and when the link has failed permanently. It
// returns how many of the k received frames count.
func (m *Machine) receiveFailed(k int, err error) int {
	if err != nil {
		m.health.recordError(err)
	}
	if m.health.closed() {
		return 0
	}
	return k
}

// receive processes the frames of one poll. If the last one is long, frames has only its beginning;
// the link still holds the rest.
func (m *Machine) receive(frames [][]byte) {
	last, rest := frames[len(frames)-1], 0
	if len(last) >= transport.LongBegin {
		if rest = m.Rest(); rest > 0 {
			frames = frames[:len(frames)-1]
		}
	}
	alone := len(frames) == 1 && rest == 0
	if alone && m.receiveFast(last) {
		return
	}
	for _, frame := range frames {
		m.classify(frame, alone)
	}
	if rest > 0 {
		m.classifyLong(last, rest)
	}
}

// receiveFast processes the only frame of a poll with the fast path of its connection, if possible,
// and reports whether it has.
func (m *Machine) receiveFast(frame []byte) bool {
	c := m.Ports.Conn(framing.DstPort(frame))
	if c == nil || !c.ReceiveFast(frame) {
		return false
	}
	m.CountReceived(len(frame))
	return true
}

// classify parses a frame and dispatches it. It also dispatches the frames that follow it in the
// same Ethernet frame, and the long frame whose last missing fragment it is. alone reports that the
// poll found no other frame.
func (m *Machine) classify(frame []byte, alone bool) {
	for frame != nil {
		h := m.Incoming()
		payload, ok := m.parse(h, frame)
		if !ok {
			return
		}
		m.CountReceived(len(frame))
		if next := h.Next(frame); next != nil {
			first := *h
			m.dispatch(h, payload, false)
			m.classifyNext(&first, next)
			return
		}
		frame = m.dispatch(h, payload, alone)
	}
}

// parse decodes a frame into h, or drops it.
func (m *Machine) parse(h *ethertype.Header, frame []byte) (payload []byte, ok bool) {
	payload, err := h.Parse(frame)
	if err != nil {
		m.dropInvalid(h, frame, err)
		return nil, false
	}
	if m.Info.Unprotected && h.Flags&ethertype.FlagWholeCRC == 0 {
		m.Drop(drops.CRC)
		return nil, false
	}
	return payload, true
}

// classifyNext processes the frames that follow first in its Ethernet frame. They must be for
// connections of this NIC and from the sender of first. The node's agent or a receive filter has
// checked only first, so other frames may not be sent this way.
func (m *Machine) classifyNext(first *ethertype.Header, frame []byte) {
	for frame != nil {
		h := m.Incoming()
		payload, ok := m.parse(h, frame)
		if !ok {
			return
		}
		if !framing.Beside(h, first) || !m.Info.Ports.Contains(h.DstPort) {
			m.Drop(drops.Format)
			return
		}
		m.CountJoined()
		frame = h.Next(frame)
		m.dispatch(h, payload, false)
	}
}

// classifyLong is classify for a long frame, of which the link still holds rest bytes.
func (m *Machine) classifyLong(begin []byte, rest int) {
	if h, payload := m.BeginLong(begin, rest, m.straight); payload != nil {
		whole := m.dispatch(h, payload, false)
		m.EndLong()
		m.classify(whole, false)
		return
	}
	m.classify(m.FetchLong(begin, rest), false)
}

// straight reports whether the data of a frame can be stored at their destination without being
// examined first.
func (m *Machine) straight(h *ethertype.Header) bool {
	c := m.Ports.Conn(h.DstPort)
	return c != nil && h.Flags&ethertype.FlagMore == 0 && c.TakesStraight(h)
}

// dispatch passes a frame to the handler of its kind. If the frame completes a frame in pieces,
// dispatch returns that frame.
func (m *Machine) dispatch(h *ethertype.Header, payload []byte, alone bool) (whole []byte) {
	switch h.Kind {
	case ethertype.KindData, ethertype.KindRDMAWrite, ethertype.KindRDMARead, ethertype.KindReadData,
		ethertype.KindAck, ethertype.KindDisconnect, ethertype.KindPiece:
		return m.receiveConn(h, payload, alone)
	case ethertype.KindReset:
		m.receiveReset(h, payload)
	case ethertype.KindRequest, ethertype.KindRetry, ethertype.KindAccept, ethertype.KindReject, ethertype.KindProbe, ethertype.KindProbeAck:
		if m.addressedHere(h) {
			m.Connects.Receive(h, payload)
		}
	case ethertype.KindQuery, ethertype.KindAnswer, ethertype.KindEcho, ethertype.KindEchoReply:
		m.Dir.Receive(h, payload)
	}
	return nil
}

// dropInvalid counts a frame whose header could not be parsed. After a CRC error h holds the
// frame's contents.
func (m *Machine) dropInvalid(h *ethertype.Header, frame []byte, err error) {
	if _, sealed := framing.IsSealed(frame); sealed {
		m.Drop(drops.Sealed)
		m.hooks.Sealed(frame)
		return
	}
	m.Drop(parseReason(err))
	if err == ethertype.ErrCRC {
		m.receiveDamaged(h)
	}
}

func parseReason(err error) drops.Reason {
	switch err {
	case ethertype.ErrShort:
		return drops.Short
	case ethertype.ErrCRC:
		return drops.CRC
	case ethertype.ErrRange:
		return drops.Range
	}
	return drops.Format
}

// receiveConn handles frames of connections, which carry a tag. If the frame completes a frame in
// pieces, it returns that frame.
func (m *Machine) receiveConn(h *ethertype.Header, payload []byte, alone bool) (whole []byte) {
	if !m.addressedHere(h) {
		return nil
	}
	c := m.Ports.Conn(h.DstPort)
	if c == nil || c.LocalTag != h.Tag || c.State == code.StateIdle {
		m.stray(h)
		return nil
	}
	if h.Src != c.Remote.MAC || h.SrcPort != c.Remote.Port {
		c.Drop(drops.Peer)
		return nil
	}
	switch c.State {
	case code.StateConnected:
		return c.Receive(h, payload, alone)
	case code.StateConnectPending:
		if !m.Ports.side(h.DstPort).Disconnect(h, payload) {
			c.Drop(drops.Early) // it overtook the end of the handshake, and is sent again
		}
	case code.StateError:
		m.answerEnded(c, h)
	}
	return nil
}

// addressedHere reports whether a frame was sent to this NIC alone, as required for frames of
// connections, and drops it otherwise. A broadcast frame could otherwise affect connections of many
// hosts.
func (m *Machine) addressedHere(h *ethertype.Header) bool {
	if h.Dst == m.Info.MAC {
		return true
	}
	m.Drop(drops.Destination)
	return false
}

// stray answers a frame for a connection that does not exist, so that its sender learns this at
// once and not from a timeout. Resets are never answered.
func (m *Machine) stray(h *ethertype.Header) {
	m.Drop(drops.Stale)
	if h.Src.IsGroup() {
		return
	}
	if !m.Ended.answer(h) && m.Strangers.Answers.Allow(guard.Reset, m.Now()) {
		m.SendReset(h)
	}
}

// receiveDamaged examines a frame with an invalid CRC. The connection that it names has lost it. If
// it is an RDMA write on the unreliable level, it is not sent again.
func (m *Machine) receiveDamaged(h *ethertype.Header) {
	c := m.Ports.Conn(h.DstPort)
	if c == nil || c.State != code.StateConnected || c.LocalTag != h.Tag || h.Src != c.Remote.MAC || h.SrcPort != c.Remote.Port || !c.Genuine(h) {
		return
	}
	c.Lost(drops.CRC)
	if h.Kind == ethertype.KindRDMAWrite && !c.Reliable {
		m.hooks.Damaged(c)
	}
}
