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

// health is the state of a NIC's link, whose interface may change while it is in use.
//
// An interface that goes down does not break anything by itself: traffic continues when it comes up
// within PeerTimeout. An interface that is deleted does not return: the NIC has failed. With a
// smaller MTU the connections end whose frames no longer fit, and new ones use smaller frames. With
// another MAC no frames arrive any more: the NIC has failed and must be reopened. Peers are
// notified in both cases. The NIC checks a few times a second, even without connections, and before
// it connects anything.
//
// A udp station survives a change of the MAC. But its peers' kernels look up the new MAC only after
// they have doubted the old one for seconds, or when the station sends something. So the station
// sends a frame to each peer a while after the change. It waits because its own kernel must first
// forget its neighbours: frames sent before that do not trigger a lookup.
type health struct {
	m      *Machine
	checks bool  // the interface may change under the link
	failed error // the link's current error, or nil
	dead   error // the permanent error, or nil
	alone  bool  // it was logged that memory cannot be shared with other processes
	moved  bool  // the MAC has changed, and the peers do not know it
	seen   int64 // when the change was detected
}

// forgetful is how long, in nanoseconds, after a change of the MAC a lookup of neighbours has no
// effect. The kernel may still know them from before the change, and theirs ignore a second MAC of
// one address within a second (sysctl net.ipv4.neigh.*.locktime).
const forgetful = 1_200_000_000

func (l *health) init(m *Machine) {
	_, checks := m.Link.(transport.Checker)
	l.m, l.checks = m, checks && !m.Info.Virtual
}

// recordError records an error of the link. A link that was closed, or whose interface is gone, has
// failed permanently. An interface that is down does not break anything by itself: it may return,
// and the connections' own timeouts decide. The error is logged once.
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

// closed reports whether another owner has closed the link. It may still carry frames for a moment.
// Answering them would tell peers that this NIC lives, before the program that takes its place can
// inform them.
func (l *health) closed() bool { return l.dead != nil && errors.Is(l.dead, transport.ErrClosed) }

// check checks the link's interface for changes, and handles them.
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

// LinkError returns the current or the permanent error of the link, or nil if it works.
func (m *Machine) LinkError() error {
	if m.health.dead != nil {
		return m.health.dead
	}
	return m.health.failed
}

// Trouble checks the link now and returns its error, or nil. A caller that is about to report a
// silent peer calls it first, because this side may be the one that receives nothing.
func (m *Machine) Trouble() error {
	m.health.check()
	return m.LinkError()
}

// TroubleTo is Trouble for the path to one station. Frames to stations of this host go through
// shared memory.
func (m *Machine) TroubleTo(station ethertype.MAC) error {
	trouble := m.Trouble()
	if station == m.Info.MAC && m.health.dead == nil {
		return optional.ShareTrouble(m.Link)
	}
	return trouble
}

// Dead returns the error of connections if the link has failed permanently, or nil.
func (m *Machine) Dead() error {
	if m.health.dead == nil {
		return nil
	}
	return linkCause(m.health.dead)
}

// CheckLink checks the interface before an operation that a change would break. It returns an error
// if the NIC has failed.
func (m *Machine) CheckLink() error {
	if m.health.checks && m.health.dead == nil {
		m.health.check()
	}
	return m.Dead()
}

// linkCause returns the error of connections that end because of the link's error err.
func linkCause(err error) error { return fmt.Errorf("%w: %w", code.ErrLink, err) }

// lookAtHardware informs the peers of a new MAC of the interface, a while after the change, if
// stations have another MAC than the interface. The interface must be able to send.
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

// appear sends a frame to the peer's host. It makes the kernel look up the peer, which announces
// this host's own MAC.
func (m *Machine) appear(c *conn.Conn) {
	if c.Reliable {
		c.SendAck(ethertype.FlagAckNow)
		return
	}
	// The level has no keep-alive. An inquiry to a port that belongs to a VI has no receiver.
	m.SendControl(ethertype.Header{Dst: c.Remote.MAC, DstPort: c.Remote.Port, Kind: ethertype.KindQuery, SrcPort: c.Port, Tag: c.RemoteTag})
}

// shrink switches to a smaller MTU.
func (m *Machine) shrink(change *transport.ChangeError) {
	if m.MTU() == change.MTU {
		return
	}
	m.SetMTU(change.MTU)
	m.endAll(change, func(c *conn.Conn) bool {
		return c.Path.Data+ethertype.BaseSize > m.MTU() && c.Remote.MAC != m.Info.MAC
	})
}

// endAll ends the connections, including pending ones, that a change of the interface affects, and
// notifies their peers.
func (m *Machine) endAll(change error, concerned func(*conn.Conn) bool) {
	m.log.Warn("connections end", "interface", m.Info.Interface, "err", change)
	cause := linkCause(change)
	for c, side := range m.Ports.sides() {
		if concerned(c) {
			m.end(c, side, cause, "", code.ReasonLink)
		}
	}
}

// end ends a connection, or an attempt to make one that has been answered.
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

// endConnections ends everything that depends on a failed link.
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
