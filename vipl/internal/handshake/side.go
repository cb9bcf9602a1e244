package handshake

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// Side is one side of a connection's handshake. Its connection is Connect Pending from when an
// attempt begins until it ends.
type Side struct {
	Terms Terms // that this side asks for or agrees to
	// Err is why the last attempt failed, as Owner.Failure has it; nil if none has been
	// made since the one before it, or if it did not fail.
	Err error
	// The terms of the peer and the incarnation of its NIC, as it has told them. The terms are
	// zero from the beginning of an attempt until then.
	PeerTerms       Terms
	PeerIncarnation uint64

	table   *Table
	conn    *conn.Conn
	owner   Owner
	attempt *attempt // while Connect Pending
}

// Owner is what has a side. It hears how each attempt ends that it did not abandon itself.
type Owner interface {
	// Connected tells that both sides have agreed and the MTU is proven.
	Connected()
	// Failed tells that the connection is idle again. Side.Err is why.
	Failed()
	// Failure returns the error that says why an attempt to connect to remote fails.
	Failure(remote ethertype.Addr, cause error, detail string) error
}

// phase is how far an attempt is.
type phase uint8

const (
	phaseRequest phase = iota // client: waiting for Accept
	phaseProbe                // client: waiting for the full-size ProbeAck
	phaseAccept               // server: waiting for the full-size Probe
)

// stages say how far an attempt has got in each phase.
var stages = [...]Stage{phaseRequest: StageAsks, phaseProbe: StageProves, phaseAccept: StageAnswers}

// attempt is an attempt to connect that has not ended.
type attempt struct {
	Attempt[*Side]
	phase   phase
	local   ethertype.Seq // the first number of this side
	remote  ethertype.Seq // and of the peer
	reads   int           // RDMA reads that the peer serves at a time
	data    []byte
	token   uint64        // that the server has asked for; 0 before
	named   bool          // a discriminator precedes data
	request *Request      // that has been accepted; nil for the other kinds
	serial  bool          // somebody waits for that one alone
	peer    *peerKey      // of the peer-to-peer kind
	theirs  ethertype.Seq // the number of the peer's attempt, then
	tries   int           // times that probes were sent
	longAck bool          // a probe as long as a long frame was answered
}

// Init makes the side of an idle connection of the table's NIC.
func (s *Side) Init(t *Table, c *conn.Conn, owner Owner) { *s = Side{table: t, conn: c, owner: owner} }

// Ask begins an attempt to connect to who listens at remote. It sends data with the request,
// which begins with the length of a discriminator and that if named is set. It gives up
// after timeout.
func (s *Side) Ask(remote ethertype.Addr, data []byte, named bool, timeout int64) {
	s.conn.Remote = remote
	s.enterPending(phaseRequest, timeout, data)
	s.attempt.named = named
	s.Step()
}

// Answer begins the server's part: it accepts r, which Match has judged. serial says that
// its caller waits until it is connected before it takes another request.
func (s *Side) Answer(r *Request, serial bool, timeout int64) {
	r.Decide(s.table.shared.Now())
	s.enterPending(phaseAccept, timeout, nil)
	s.attempt.request, s.attempt.serial = r, serial
	s.adopt(r.From, &r.Info)
	s.Step()
}

// enterPending enters Connect Pending.
func (s *Side) enterPending(p phase, timeout int64, data []byte) {
	t := s.table
	s.Err, s.PeerTerms = nil, Terms{}
	s.attempt = &attempt{phase: p, data: data}
	s.attempt.Begin(s, t.shared.Now(), timeout)
	s.conn.EnterPending(t.strangers.Random.Tag())
	s.attempt.local = ethertype.Seq(t.strangers.Random.Uint64())
}

// adopt takes over what the peer said.
func (s *Side) adopt(remote ethertype.Addr, c *Info) {
	s.PeerIncarnation, s.PeerTerms = c.Incarnation, c.Terms
	s.attempt.remote, s.attempt.reads = c.Seq, c.Terms.ReadDepth
	s.conn.AdoptPeer(&conn.Peer{
		Remote: remote, Tag: c.Tag, Seq: c.Seq, MTU: int(c.MTU), Long: c.Long, Incarnation: c.Incarnation, More: c.More,
		WholeCRC: s.Terms.WholeCRC || c.Terms.WholeCRC || s.table.info.Unprotected,
	}, s.attempt.local)
}

// Due returns when Step is to be called, while Connect Pending.
func (s *Side) Due() int64 { return s.attempt.Due() }

// Left returns how much time a pending attempt still has.
func (s *Side) Left(now int64) int64 { return s.attempt.Left(now) }

// Asks reports whether a pending attempt has not been answered yet.
func (s *Side) Asks() bool { return s.attempt.phase == phaseRequest }

// Expire ends a pending attempt whose time is over, or that is late: the caller has seen its
// deadline pass since the last poll. It reports whether it has ended the attempt.
func (s *Side) Expire(late bool) bool {
	if !late && s.table.shared.Now() < s.attempt.Deadline {
		return false
	}
	s.timeOut()
	return true
}

// Fail ends a pending attempt: the connection is idle again.
func (s *Side) Fail(cause error, detail string) { s.fail(s.conn.Remote, cause, detail) }

func (s *Side) fail(remote ethertype.Addr, cause error, detail string) {
	s.Err = s.owner.Failure(remote, cause, detail)
	s.tellPeer()
	s.conn.FlushSends()
	s.conn.State = code.StateIdle
	s.end()
	s.conn.LocalTag = 0
	s.owner.Failed()
}

// connect enters Connected.
func (s *Side) connect() {
	a := s.attempt
	s.end()
	s.conn.EnterConnected(a.local, a.remote, a.reads)
	s.owner.Connected()
}

// Abandon ends a pending attempt that the owner does not want any more. The owner is not
// told, and returns the connection to Idle.
func (s *Side) Abandon() {
	s.tellPeer()
	s.Err = s.owner.Failure(s.conn.Remote, code.ErrDisconnected, "the attempt was abandoned here")
	s.end()
}

// Disconnect takes in a frame by which the peer may give up a pending attempt, and reports
// whether it has.
func (s *Side) Disconnect(h *ethertype.Header) bool {
	if h.Kind != ethertype.KindDisconnect || h.Ack != s.attempt.local {
		return false
	}
	s.Fail(code.ErrDisconnected, gaveUp)
	s.table.shared.SendReset(h)
	return true
}

// Reset ends a pending attempt of which the peer knows nothing, if that is the only one that
// this side can still meet, and reports whether it is. Another one may follow when both
// sides ask.
func (s *Side) Reset() bool {
	a := s.attempt
	if a.phase == phaseRequest || a.phase == phaseAccept && a.peer != nil {
		return false
	}
	s.Fail(code.ErrDisconnected, gaveUp)
	return true
}

const gaveUp = "it gave up in the middle of the handshake"

// end forgets the attempt, whatever came of it.
func (s *Side) end() {
	a, t := s.attempt, s.table
	s.attempt = nil
	if a.peer != nil {
		delete(t.peers.pending, *a.peer)
	}
	t.attempts.End(&a.Attempt, t.shared.Now())
}

// tellPeer tells the peer that this side gives up, and tells it again when it repeats
// its request, because it has not heard that that was accepted.
func (s *Side) tellPeer() {
	a := s.attempt
	if a.phase != phaseRequest {
		s.conn.SendDisconnect(code.ReasonLeft)
	}
	if a.request != nil {
		a.request.Refusal = []byte{rejectNoListener}
	}
}
