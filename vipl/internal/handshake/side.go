package handshake

import (
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// Side is one side of a connection's handshake. Its connection is in the state Connect Pending from
// the start of an attempt until its end.
type Side struct {
	Terms Terms // terms of this side
	// Err is why the last attempt failed, from Owner.Failure; nil if it did not fail, or if a new
	// one has started.
	Err error
	// The terms of the peer and the incarnation of its NIC. The terms are zero from the start of an
	// attempt until the peer has sent them.
	PeerTerms       Terms
	PeerIncarnation uint64

	table   *Table
	conn    *conn.Conn
	owner   Owner
	attempt *attempt // while Connect Pending
}

// Owner is the owner of a side. It is notified of the outcome of each attempt that it did not
// abandon itself.
type Owner interface {
	// Connected reports that both sides have agreed and the MTU is verified.
	Connected()
	// Failed reports that the connection is idle again. Side.Err is the cause.
	Failed()
	// Failure returns the error for a failed attempt to connect to remote.
	Failure(remote ethertype.Addr, cause error, detail string) error
}

// phase is the progress of an attempt.
type phase uint8

const (
	phaseRequest phase = iota // client: waiting for Accept
	phaseProbe                // client: waiting for the full-size ProbeAck
	phaseAccept               // server: waiting for the full-size Probe
)

// stages maps each phase to its stage.
var stages = [...]Stage{phaseRequest: StageAsks, phaseProbe: StageProves, phaseAccept: StageAnswers}

// attempt is an attempt to connect that has not ended.
type attempt struct {
	Attempt[*Side]
	phase   phase
	local   ethertype.Seq // the first sequence number of this side
	remote  ethertype.Seq // the first sequence number of the peer
	reads   int           // RDMA reads that the peer serves at a time
	data    []byte
	token   uint64        // the token that the server requires; 0 before
	named   bool          // a discriminator precedes data
	request *Request      // the accepted request; nil for the other kinds
	serial  bool          // the server waits for this request alone
	peer    *peerKey      // of the peer-to-peer kind
	theirs  ethertype.Seq // the number of the peer's attempt, if peer-to-peer
	tries   int           // number of times that probes were sent
}

// Init initializes the side of an idle connection of the table's NIC.
func (s *Side) Init(t *Table, c *conn.Conn, owner Owner) { *s = Side{table: t, conn: c, owner: owner} }

// Ask starts an attempt to connect to the listener at remote. It sends data with the request. If
// named is set, data begin with the length of a discriminator and the discriminator. The attempt
// fails after timeout.
func (s *Side) Ask(remote ethertype.Addr, data []byte, named bool, timeout int64) {
	s.conn.Remote = remote
	s.enterPending(phaseRequest, timeout, data)
	s.attempt.named = named
	s.Step()
}

// Answer starts the server's part: it accepts r, which Match has checked. serial means that the
// caller waits until the connection is complete before it takes another request.
func (s *Side) Answer(r *Request, serial bool, timeout int64) {
	r.Decide(s.table.shared.Now())
	s.enterPending(phaseAccept, timeout, nil)
	s.attempt.request, s.attempt.serial = r, serial
	s.adopt(r.From, &r.Info)
	s.Step()
}

// enterPending enters the state Connect Pending.
func (s *Side) enterPending(p phase, timeout int64, data []byte) {
	t := s.table
	s.Err, s.PeerTerms = nil, Terms{}
	s.attempt = &attempt{phase: p, data: data}
	s.attempt.Begin(s, t.shared.Now(), timeout)
	s.conn.EnterPending(t.strangers.Random.Tag())
	s.attempt.local = ethertype.Seq(t.strangers.Random.Uint64())
}

// adopt stores the peer's description of itself.
func (s *Side) adopt(remote ethertype.Addr, c *Info) {
	s.PeerIncarnation, s.PeerTerms = c.Incarnation, c.Terms
	s.attempt.remote, s.attempt.reads = c.Seq, c.Terms.ReadDepth
	s.conn.AdoptPeer(&conn.Peer{
		Remote: remote, Tag: c.Tag, Seq: c.Seq, MTU: int(c.MTU), Long: c.Long, Incarnation: c.Incarnation, More: c.More,
		WholeCRC: s.Terms.WholeCRC || c.Terms.WholeCRC || s.table.info.Unprotected,
	}, s.attempt.local)
}

// Due returns when to call Step, while Connect Pending.
func (s *Side) Due() int64 { return s.attempt.Due() }

// Left returns the remaining time of a pending attempt.
func (s *Side) Left(now int64) int64 { return s.attempt.Left(now) }

// Asks reports whether a pending attempt has not been answered yet.
func (s *Side) Asks() bool { return s.attempt.phase == phaseRequest }

// Expire fails a pending attempt whose deadline has passed, and reports whether it did so. late means that the
// caller's own deadline has passed since the last poll, which also fails the attempt.
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
	why := code.ReasonLeft
	if s.attempt.phase == phaseProbe && errors.Is(cause, code.ErrInvalidMTU) {
		why = code.ReasonMTU
	}
	s.tellPeer(why)
	s.conn.FlushSends()
	s.conn.State = code.StateIdle
	s.end()
	s.conn.LocalTag = 0
	s.owner.Failed()
}

// connect enters the state Connected.
func (s *Side) connect() {
	a := s.attempt
	s.end()
	s.conn.EnterConnected(a.local, a.remote, a.reads)
	s.owner.Connected()
}

// Abandon ends a pending attempt at the owner's request. It does not notify the owner, which
// returns the connection to Idle.
func (s *Side) Abandon() {
	s.tellPeer(code.ReasonLeft)
	s.Err = s.owner.Failure(s.conn.Remote, code.ErrDisconnected, "the attempt was abandoned here")
	s.end()
}

// Disconnect processes a frame with which the peer may give up a pending attempt, and reports
// whether it does.
func (s *Side) Disconnect(h *ethertype.Header, payload []byte) bool {
	if h.Kind != ethertype.KindDisconnect || h.Ack != s.attempt.local {
		return false
	}
	if len(payload) > 0 && code.Reason(payload[0]) == code.ReasonMTU {
		s.Fail(code.ErrInvalidMTU, s.conn.Path.PeerMTUDetail())
	} else {
		s.Fail(code.ErrDisconnected, gaveUp)
	}
	s.table.shared.SendReset(h)
	return true
}

// Reset ends a pending attempt that the peer does not know, unless this side may still meet
// another attempt of the peer. It reports whether it has ended the attempt. If both sides ask,
// another attempt of the peer may follow.
func (s *Side) Reset() bool {
	a := s.attempt
	if a.phase == phaseRequest || a.phase == phaseAccept && a.peer != nil {
		return false
	}
	s.Fail(code.ErrDisconnected, gaveUp)
	return true
}

const gaveUp = "it gave up in the middle of the handshake"

// end removes the attempt, whatever its outcome.
func (s *Side) end() {
	a, t := s.attempt, s.table
	s.attempt = nil
	if a.peer != nil {
		delete(t.peers.pending, *a.peer)
	}
	t.attempts.End(&a.Attempt, t.shared.Now())
}

// tellPeer notifies the peer that this side gives up, and why. It does so again when the peer repeats its
// request, because it has not received the acceptance.
func (s *Side) tellPeer(why code.Reason) {
	a := s.attempt
	if a.phase != phaseRequest {
		s.conn.SendDisconnect(why)
	}
	if a.request != nil {
		a.request.Refusal = []byte{rejectNoListener}
	}
}
