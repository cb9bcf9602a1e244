package vipl

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/attempts"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
	"github.com/bobnet-go/bobnet/vipl/internal/pathprobe"
)

// The connection handshake. The client drives it; every step is repeated until
// it is answered, and every answer may be repeated without harm.
//
//	client                                   server
//	  | -- Request (attributes, tag, MTU) -->  |  queued at the listener
//	  | <-- Retry (token) -------------------  |
//	  | -- Request (the same, token) ------->  |  proves the client's address
//	  | <-- Accept (attributes, tag, MTU) ---  |  Accept was called
//	  | -- Probe (of full size) ------------>  |  Connected
//	  | <-- ProbeAck (of full size) ---------  |
//	  Connected
//
// The Probe and its answer are as long as the smaller of the two MTUs allows,
// so that a path that does not carry such frames is found now and not in the
// middle of a message. If both sides have long frames the client sends a Probe of that
// size, too, right before the first ones; see long.go. With full-size probes the client
// sends short ones: if those are answered and the long ones never, it is the MTU; see
// pathtest.go.
//
// The Retry has the client prove that it is where it says it is; see package guard. The
// Accept waits for that only when many ask.
//
// An Accept or a Probe for an attempt that was given up is answered by a Reset,
// so that the other side need not wait for its time-out.
//
// What answers a Request carries, in Ack, the client's first sequence number, besides
// its tag: 64 bits that nobody can guess. Whatever follows the Accept is numbered as
// the frames of the connection are, and judged like them; see genuine.
type phase uint8

const (
	phaseRequest phase = iota // client: waiting for Accept
	phaseProbe                // client: waiting for the full-size ProbeAck
	phaseAccept               // server: waiting for the full-size Probe
)

// stages say how far an attempt has got in each phase.
var stages = [...]attempts.Stage{phaseRequest: attempts.Asks, phaseProbe: attempts.Proves, phaseAccept: attempts.Answers}

type handshake struct {
	attempts.Attempt[*VI]
	phase     phase
	localSeq  ethertype.Seq
	remoteSeq ethertype.Seq
	reads     int // RDMA reads that the peer serves at a time
	data      []byte
	token     uint64        // that the server has asked for; 0 before
	named     bool          // a discriminator precedes data
	request   *Request      // that has been accepted; nil for the other kinds
	serial    bool          // somebody waits for that one alone
	peer      *peerKey      // of the peer-to-peer kind
	theirs    ethertype.Seq // the number of the peer's attempt, then
	tries     int           // times that probes were sent
	longAck   bool          // a probe as long as a long frame was answered
}

// begin enters Connect Pending.
func (v *VI) begin(p phase, timeout int64, data []byte) {
	n := v.nic
	v.lastErr, v.left = nil, false
	v.remoteAttr = Attributes{}
	v.hs = &handshake{phase: p, data: data}
	v.hs.Begin(v, n.conns.Now, timeout)
	v.conn.Begin(n.strangers.random.Tag())
	v.hs.localSeq = ethertype.Seq(n.strangers.random.Uint64())
}

// step sends what the phase asks for. It is called when it is due.
func (hs *handshake) step(v *VI) {
	n := v.nic
	if n.conns.Now >= hs.Deadline {
		hs.timeout(v)
		return
	}
	if n.conns.Now < hs.Next || !n.attempts.Admit(&hs.Attempt, stages[hs.phase], n.conns.Now) {
		return
	}
	if hs.serial && hs.request.holdsUp() {
		hs.passOver(v)
		return
	}
	hs.Sends(n.conns.Now)
	switch hs.phase {
	case phaseRequest:
		v.sendInfo(&ethertype.Header{Kind: ethertype.KindRequest, Sack: hs.token})
	case phaseAccept:
		if hs.request != nil && !hs.request.affords(conninfo.Size) {
			return
		}
		v.sendInfo(&ethertype.Header{Kind: ethertype.KindAccept, Tag: v.conn.RemoteTag, Seq: hs.localSeq, Ack: hs.remoteSeq})
	case phaseProbe:
		if v.conn.Path.Narrow(pathprobe.Certain) {
			hs.finish(v, v.mtuError())
			return
		}
		hs.tries++
		v.conn.Path.Probe(hs.tries)
	}
}

func (hs *handshake) timeout(v *VI) {
	detail := "no answer: is the peer running, is its interface up and on this segment?"
	switch {
	case hs.phase == phaseProbe && v.conn.Path.Narrow(pathprobe.Likely):
		hs.finish(v, v.mtuError())
		return
	case hs.phase == phaseProbe && v.conn.Path.Lossy() != "":
		detail = v.conn.Path.Lossy()
	case hs.phase == phaseRequest && hs.peer != nil:
		detail = fmt.Sprintf("the peer did not ask for %v with the same discriminator: is its program running, and does it name this NIC?", v.nic.addr)
	case hs.phase == phaseRequest && v.conn.Remote.MAC == v.nic.info.MAC:
		detail = "no answer on this host: is the peer running? If it is another user's, both sides need Config.AnyUser"
	case hs.phase != phaseRequest:
		detail = "the peer stopped answering in the middle of the handshake"
	}
	hs.finish(v, &ConnError{Local: v.Local(), Remote: v.conn.Remote, Err: ErrTimeout, Detail: detail})
}

// mtuError is what ends an attempt over a path that does not carry full-size frames.
func (v *VI) mtuError() error {
	return &ConnError{Local: v.Local(), Remote: v.conn.Remote, Err: ErrInvalidMTU, Detail: v.conn.Path.MTUDetail()}
}

// finish ends the handshake: nil enters Connected, an error returns to Idle.
func (hs *handshake) finish(v *VI, err error) {
	if err == nil {
		v.start()
		return
	}
	hs.tellPeer(v)
	v.lastErr = err
	v.conn.FlushSends()
	v.conn.State = StateIdle
	v.endHandshake()
	v.conn.LocalTag = 0
	v.gate.Open(&v.nic.eng)
}

// awaits reports whether the handshake is over when the peer gives up: its attempt
// is the only one that this side can still meet. Another one may follow when both
// sides ask.
func (hs *handshake) awaits() bool {
	return hs.phase == phaseProbe || hs.phase == phaseAccept && hs.peer == nil
}

// endHandshake forgets the handshake, whatever came of it.
func (v *VI) endHandshake() {
	hs := v.hs
	if hs != nil && hs.request != nil {
		hs.request.clearDoubt()
	}
	if hs != nil && hs.peer != nil {
		delete(v.nic.peers.pending, *hs.peer)
	}
	v.hs = nil
	if hs != nil {
		v.nic.attempts.End(&hs.Attempt, v.nic.conns.Now)
	}
}

// tellPeer tells the peer that this side gives up, and tells it again when it repeats
// its request, because it has not heard that that was accepted.
func (hs *handshake) tellPeer(v *VI) {
	if hs.phase != phaseRequest && (hs.request == nil || hs.request.affords(1)) {
		v.conn.SendDisconnect(conn.ReasonLeft)
	}
	if hs.request != nil {
		hs.request.refusal = []byte{rejectNoListener}
	}
}

// abandon ends an attempt that the caller does not want any more.
func (hs *handshake) abandon(v *VI) {
	hs.tellPeer(v)
	v.lastErr = &ConnError{Local: v.Local(), Remote: v.conn.Remote, Err: ErrDisconnected, Detail: "the attempt was abandoned here"}
}

// passOver gives up a requester that does not answer, and forgets its request: if it is
// there after all, it asks anew.
func (hs *handshake) passOver(v *VI) {
	hs.request.drop()
	hs.request = nil
	hs.finish(v, &ConnError{Local: v.Local(), Remote: v.conn.Remote, Err: ErrTimeout,
		Detail: "the requester does not answer, and others wait to be accepted"})
}

// sendInfo sends h, a Request or an Accept, with what v says of itself.
func (v *VI) sendInfo(h *ethertype.Header) {
	c := v.info()
	h.Dst, h.DstPort, h.SrcPort = v.conn.Remote.MAC, v.conn.Remote.Port, v.conn.Port
	v.nic.conns.SendControl(*h, c.Append(make([]byte, 0, conninfo.Size+MaxConnData)))
}

// receiveHandshake takes the frames of the handshake apart.
func (n *NIC) receiveHandshake(h *ethertype.Header, payload []byte) {
	if !n.addressedHere(h) {
		return
	}
	if h.Flags&ethertype.FlagWholeCRC == 0 {
		n.conns.Drop(DropFormat)
		return
	}
	if h.Kind == ethertype.KindRequest {
		n.receiveRequest(h, payload)
		return
	}
	v := n.viAt(h.DstPort)
	if v == nil || v.conn.LocalTag != h.Tag || h.Tag == 0 || h.Src != v.conn.Remote.MAC {
		if h.Kind == ethertype.KindProbe || h.Kind == ethertype.KindAccept { // of one who waits for us, and we have gone
			n.stray(h)
			return
		}
		n.conns.Drop(DropStale)
		return
	}
	if !v.addressed(h) {
		v.conn.Drop(DropAck)
		return
	}
	switch h.Kind {
	case ethertype.KindAccept:
		v.receiveAccept(h, payload)
	case ethertype.KindReject:
		v.receiveReject(h, payload)
	case ethertype.KindRetry:
		v.receiveRetry(h)
	case ethertype.KindProbe:
		v.receiveProbe(h)
	case ethertype.KindProbeAck:
		v.receiveProbeAck(h)
	}
}

// addressed reports whether a frame of the handshake, whose tag is right, is meant for
// the attempt that v is making, or has made.
func (v *VI) addressed(h *ethertype.Header) bool {
	if v.conn.State == StateConnectPending {
		return h.Ack == v.hs.localSeq
	}
	return v.conn.Genuine(h)
}

// receiveRetry asks again, with the token.
func (v *VI) receiveRetry(h *ethertype.Header) {
	if v.conn.State != StateConnectPending || v.hs.phase != phaseRequest || h.SrcPort != v.conn.Remote.Port || h.Sack == v.hs.token {
		v.conn.Drop(DropStale)
		return
	}
	v.hs.token = h.Sack
	v.hs.Restart(v.nic.conns.Now)
	v.nic.attempts.Resume(&v.hs.Attempt, v.nic.conns.Now)
	v.hs.step(v)
}

func (v *VI) receiveAccept(h *ethertype.Header, payload []byte) {
	n := v.nic
	c, ok := conninfo.Parse(payload)
	if !ok || v.conn.State != StateConnectPending || v.hs.phase != phaseRequest {
		v.conn.Drop(DropStale) // or a repetition: the probe's own timer answers it
		return
	}
	remote := ethertype.Addr{MAC: h.Src, Port: h.SrcPort}
	if _, err := v.match(remote, &c); err != nil { // the server has compared them; a peer that differs is broken
		v.conn.Drop(DropFormat)
		return
	}
	v.adopt(remote, &c)
	v.hs.phase = phaseProbe
	v.conn.Path.BeginProbes()
	v.hs.Restart(n.conns.Now)
	n.attempts.Resume(&v.hs.Attempt, n.conns.Now)
	v.hs.step(v)
}

// receiveProbe: a full-size one ends the server's part; any one is answered in
// its own size, also when its first answer was lost.
func (v *VI) receiveProbe(h *ethertype.Header) {
	pending := v.conn.State == StateConnectPending && v.hs.phase == phaseAccept
	if h.SrcPort != v.conn.Remote.Port || !pending && v.conn.State != StateConnected {
		v.conn.Drop(DropStale)
		return
	}
	size := v.conn.Path.SizeOf(h)
	if size == conn.ProbeOther {
		v.conn.Drop(DropFormat)
		return
	}
	if pending && v.hs.request != nil {
		v.hs.request.proves()
	}
	if pending && size == conn.ProbeFull {
		v.hs.finish(v, nil)
	}
	v.conn.Path.SendProbe(ethertype.KindProbeAck, int(h.Size))
}

func (v *VI) receiveProbeAck(h *ethertype.Header) {
	if v.conn.State == StateConnected && h.SrcPort == v.conn.Remote.Port { // see doubtPath
		v.conn.Path.Answered(h)
		return
	}
	if v.conn.State != StateConnectPending || v.hs.phase != phaseProbe || h.SrcPort != v.conn.Remote.Port {
		v.conn.Drop(DropStale)
		return
	}
	switch v.conn.Path.SizeOf(h) {
	case conn.ProbeShort:
		v.conn.Path.Answered(h)
	case conn.ProbeFull:
		long := v.hs.longAck
		if v.hs.finish(v, nil); long {
			v.conn.Path.UseLong()
		}
	case conn.ProbeLong:
		v.hs.longAck = true
	default:
		v.conn.Drop(DropFormat)
	}
}

// The codes of KindReject, its first payload byte. Text for people may follow:
// behind rejectRefused the server's words, behind those of attributes the value
// that the refusing side has.
const (
	rejectNoListener byte = iota
	rejectRefused
	rejectBacklog
	rejectReliability // peer to peer: the attributes do not match
	rejectTransfer
	rejectQoS
)

func (v *VI) receiveReject(h *ethertype.Header, payload []byte) {
	if len(payload) < 1 || v.conn.State != StateConnectPending || v.hs.phase != phaseRequest || h.SrcPort != v.conn.Remote.Port {
		v.conn.Drop(DropStale)
		return
	}
	text := guard.Printable(payload[1:min(len(payload), 1+MaxConnData)])
	switch code := payload[0]; code { // read once: the peer may still write to it
	case rejectNoListener:
		v.hs.finish(v, &ConnError{Local: v.Local(), Remote: v.conn.Remote, Err: ErrNoMatch, Detail: "start the server first, or try again"})
	case rejectBacklog: // try again by and by
	case rejectReliability, rejectTransfer, rejectQoS:
		v.hs.finish(v, v.mismatch(v.conn.Remote, code, text))
	default:
		v.hs.finish(v, &ConnError{Local: v.Local(), Remote: v.conn.Remote, Err: ErrReject, Detail: text})
	}
}
