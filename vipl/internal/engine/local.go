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

// local is the state for connections between stations of one host. They have the same MAC address,
// and their frames do not go over the wire.
type local struct {
	link optional.Local   // nil if these stations cannot be reached
	says optional.Witness // reports living processes; nil if the link cannot
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

// lives reports whether a silent peer is known to be alive. The link knows this for processes of
// this host, and departed ends their connections when they end.
func (m *Machine) lives(peer ethertype.Addr) bool {
	return peer.MAC == m.Info.MAC && m.host.says != nil && m.host.says.Lives(peer.Port)
}

// Reaches reports whether the NIC can reach a station, of this host or another.
func (m *Machine) Reaches(mac ethertype.MAC) bool {
	return mac != m.Info.MAC || m.host.link != nil || m.Info.SameHost
}

// mtuTo returns the MTU of the path to a station.
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

// departed ends the connections to ports of this host whose station has gone. A request without an
// answer continues, because it is repeated and another station may have claimed the ports. The link
// calls departed from within Recv, with the engine's lock held.
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
