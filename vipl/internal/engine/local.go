package engine

import (
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// local is what differs for connections between stations of one host, which
// have the same MAC address: their frames do not go over the wire.
type local struct {
	link optional.Local   // nil: there is no way there
	says optional.Witness // which processes live; nil: the link does not know
	mtu  int
	rel  reliability.Config // with a window that fits the link's queue
}

func (l *local) init(m *Machine) {
	link, ok := m.Link.(optional.Local)
	if !ok {
		return
	}
	l.link, l.mtu, l.rel = link, link.LocalMTU(), m.rel
	l.rel.Window = max(min(l.rel.Window, link.LocalSlots()), 1)
	l.rel.InitialWindow = min(l.rel.InitialWindow, l.rel.Window)
	l.rel.AckEvery = max(min(l.rel.AckEvery, l.rel.Window/4), 1)
	l.says, _ = m.Link.(optional.Witness)
	link.OnDeparture(m.departed)
}

// lives reports whether a silent peer is known to live. The link says so of processes of this
// host, and departed ends their connections as soon as they do not.
func (m *Machine) lives(peer ethertype.Addr) bool {
	return peer.MAC == m.Info.MAC && m.host.says != nil && m.host.says.Lives(peer.Port)
}

// Reaches reports whether the NIC has a way to a station, which is of this host or not.
func (m *Machine) Reaches(mac ethertype.MAC) bool {
	return mac != m.Info.MAC || m.host.link != nil || m.Info.SameHost
}

// mtuTo returns the MTU towards a station.
func (m *Machine) mtuTo(mac ethertype.MAC) int {
	if mac == m.Info.MAC && m.host.link != nil {
		return m.host.mtu
	}
	return m.MTU()
}

// relTo returns the limits and delays of a connection to a station.
func (m *Machine) relTo(mac ethertype.MAC) *reliability.Config {
	if mac == m.Info.MAC && m.host.link != nil {
		return &m.host.rel
	}
	return &m.rel
}

// departed ends the connections to ports of this host whose station is gone:
// there is nothing to wait for. A request that has not been answered goes on,
// because it is repeated and another station may have taken the ports. The link
// calls it from within Recv, so the engine's lock is held.
func (m *Machine) departed(ports transport.PortRange, why error) {
	cause, reason := code.ErrUnreachable, code.ReasonSilent
	if errors.Is(why, shm.ErrBroken) {
		cause, reason = code.ErrProtocol, code.ReasonProtocol
	}
	for c, side := range m.Ports.sides() {
		if c.Remote.MAC == m.Info.MAC && ports.Contains(c.Remote.Port) {
			m.end(c, side, cause, why.Error(), reason)
		}
	}
}
