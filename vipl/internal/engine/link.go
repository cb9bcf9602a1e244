package engine

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// health is the state of a NIC's link, whose interface may be changed while it is in use.
//
// An interface that goes down breaks nothing by itself: traffic goes on when
// it comes up before PeerTimeout is over. One that is gone does not come back:
// the NIC is dead. With a smaller MTU the connections
// end whose frames it does not carry, and new ones use smaller frames. With
// another MAC nothing arrives any more: the NIC is dead and must be opened
// again. Peers are told in either case. The NIC looks a few times a second, also
// when nothing is connected, and before it connects anything.
//
// A station of udp outlives the MAC. But its peers' kernels ask for the new one
// only when they have doubted the old one for seconds, or when the station sends
// something. So it does, to each, a while after the change: the interface has another
// MAC before the kernel has forgotten its own neighbours, and what is sent in between has
// it ask for nothing.
type health struct {
	m      *Machine
	checks bool  // somebody may change the interface under the link
	failed error // what it returns, until it has recovered
	dead   error // why it is of no use any more
	alone  bool  // it was logged that no memory can be shared with other processes
	moved  bool  // there is another MAC, of which the peers do not know
	seen   int64 // when it was seen
}

// forgetful is how long after a change of the MAC it is no use to have the kernel ask for
// neighbours, in nanoseconds: it may know them from before the change, and theirs ignore a
// second MAC of one address within a second, by the sysctl net.ipv4.neigh.*.locktime.
const forgetful = 1_200_000_000

func (l *health) init(m *Machine) {
	_, checks := m.Link.(transport.Checker)
	l.m, l.checks = m, checks && !m.Info.Virtual
}

// recordError is called with what the link returns. A link that was closed, or whose
// interface is gone, is dead. An interface that is down breaks nothing by itself:
// it may come back, and the connections' own timeouts judge. The error is logged
// once.
func (l *health) recordError(err error) {
	m := l.m
	if err == transport.ErrGone && l.dead == nil && l.checks {
		if why := transport.Check(m.Link); errors.Is(why, transport.ErrGone) {
			err = why // names the interface
		}
	}
	if l.failed == nil {
		l.failed = err
		if !m.Closed {
			m.log.Warn("link error", "interface", m.Info.Interface, "err", err)
		}
	}
	if l.dead == nil && !m.Closed && (errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrGone)) {
		l.dead = err
		m.hooks.Dead(linkCause(err))
	}
}

// closed reports whether somebody has closed the link under the NIC. It may carry frames
// for a moment yet, but to answer them would tell peers that they are silent, before
// whoever answers in this NIC's place can tell them what has happened.
func (l *health) closed() bool { return l.dead != nil && errors.Is(l.dead, transport.ErrClosed) }

// check asks the link whether its interface is as it was, and draws the
// consequences.
func (l *health) check() {
	m := l.m
	if err := optional.ShareTrouble(m.Link); err != nil && !l.alone {
		l.alone = true
		m.log.Warn("cannot reach programs of this host", "interface", m.Info.Interface, "err", err)
	}
	err := transport.Check(m.Link)
	if err == nil {
		if m.MTU() != m.Info.MTU || l.failed != nil {
			m.log.Info("link works again", "interface", m.Info.Interface)
		}
		m.SetMTU(m.Info.MTU)
		l.failed = nil
		m.lookAtHardware()
		return
	}
	if l.recordError(err); l.failed != nil {
		l.failed = err // says more than what Send returns
	}
	var change *transport.ChangeError
	switch {
	case !errors.As(err, &change):
	case change.MTU >= MinMTU:
		m.shrink(change)
		m.lookAtHardware()
	case l.dead == nil && !m.Closed:
		l.dead = err
		m.hooks.Dead(linkCause(err))
		m.endAll(err, func(*conn.Conn) bool { return true })
	}
}

// LinkError returns why the link fails at present, or is dead; nil if it works.
func (m *Machine) LinkError() error {
	if m.health.dead != nil {
		return m.health.dead
	}
	return m.health.failed
}

// Trouble looks at the link now and returns what is wrong with it, or nil. A caller that is
// about to say that a peer is silent asks first, because this side may be deaf.
func (m *Machine) Trouble() error {
	m.health.check()
	return m.LinkError()
}

// TroubleTo is Trouble of the way to a station: frames to those of this host go through memory
// that is shared.
func (m *Machine) TroubleTo(station ethertype.MAC) error {
	trouble := m.Trouble()
	if station == m.Info.MAC && m.health.dead == nil {
		return optional.ShareTrouble(m.Link)
	}
	return trouble
}

// Dead returns what ends connections if the link is of no use any more, else nil.
func (m *Machine) Dead() error {
	if m.health.dead == nil {
		return nil
	}
	return linkCause(m.health.dead)
}

// CheckLink looks at the interface before something is begun that a change of it
// would spoil, and returns an error if the NIC is of no use any more.
func (m *Machine) CheckLink() error {
	if m.health.checks && m.health.dead == nil {
		m.health.check()
	}
	return m.Dead()
}

// linkCause is what ends connections when err befalls the link.
func linkCause(err error) error { return fmt.Errorf("%w: %w", code.ErrLink, err) }

// lookAtHardware has the peers learn the MAC of an interface whose stations have
// another, a while after it has changed. The interface can send.
func (m *Machine) lookAtHardware() {
	l := &m.health
	if now := m.Link.Info().Hardware; now != m.Info.Hardware {
		m.Info.Hardware, l.moved, l.seen = now, true, m.Now()
		m.log.Info("interface has a new MAC", "interface", m.Info.Interface, "mac", now)
	}
	if !l.moved || m.Now()-l.seen < forgetful {
		return
	}
	l.moved = false
	for c := range m.Ports.Conns() {
		if c.State == code.StateConnected && c.Remote.MAC != m.Info.MAC {
			m.appear(c)
		}
	}
}

// appear sends a frame to the peer's host. What matters is that the kernel asks
// for the way there, and says its own MAC with that.
func (m *Machine) appear(c *conn.Conn) {
	if c.Reliable {
		c.SendAck(ethertype.FlagAckNow)
		return
	}
	// The level has no keepalive. An inquiry to a port that is no NIC's own is for
	// nobody.
	m.SendControl(ethertype.Header{Dst: c.Remote.MAC, DstPort: c.Remote.Port, Kind: ethertype.KindQuery, SrcPort: c.Port, Tag: c.RemoteTag})
}

// shrink goes over to a smaller MTU.
func (m *Machine) shrink(change *transport.ChangeError) {
	if m.MTU() == change.MTU {
		return
	}
	m.SetMTU(change.MTU)
	m.endAll(change, func(c *conn.Conn) bool {
		return c.Path.Data+ethertype.BaseSize > m.MTU() && c.Remote.MAC != m.Info.MAC
	})
}

// endAll ends the connections, pending ones too, that a change of the interface
// concerns, and tells their peers.
func (m *Machine) endAll(change error, concerned func(*conn.Conn) bool) {
	m.log.Warn("connections end", "interface", m.Info.Interface, "err", change)
	cause := linkCause(change)
	for c, side := range m.Ports.sides() {
		if concerned(c) {
			m.end(c, side, cause, "", code.ReasonLink)
		}
	}
}

// end ends a connection, and an attempt to make one that has been answered.
func (m *Machine) end(c *conn.Conn, side *handshake.Side, cause error, detail string, why code.Reason) {
	switch {
	case c.State == code.StateConnected:
		if why == code.ReasonLink {
			c.SendDisconnect(why)
		}
		c.EnterError(cause, detail, why)
		m.CountFailure()
	case c.State == code.StateConnectPending && !side.Asks():
		side.Fail(cause, detail)
	}
}

// endConnections ends what depended on a link that is dead.
func (m *Machine) endConnections() {
	for c, side := range m.Ports.sides() {
		switch c.State {
		case code.StateConnected:
			c.EnterError(linkCause(m.health.dead), "", code.ReasonSilent)
		case code.StateConnectPending:
			side.Fail(linkCause(m.health.dead), "")
		}
	}
	m.eng.WakeAll()
}
