package vipl

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/host"
	"github.com/bobnet-go/bobnet/transport/shm"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"golang.org/x/sys/unix"
)

// local is what differs for connections between stations of one host, which
// have the same MAC address: their frames do not go over the wire.
type local struct {
	link transport.Local // nil: there is no way there
	mtu  int
	rel  reliability.Config // with a window that fits the link's queue
}

// A station that has just ended may hold the name of its ports within the host a
// little longer than the ports themselves. join waits for it so often and so long.
const (
	joinTries = 100
	joinPause = 10 * time.Millisecond
)

// join adds the way to other stations of this host to a link that has none. If
// the host has none the NIC does without and says so. If somebody else has the
// link's ports there it fails after so many tries, and leaves link as it was: what is
// meant for the NIC would go to him. The link is wrapped if wrap is not nil.
func join(link transport.Link, cfg *Config, wrap func(transport.Link) transport.Link, tries int) (transport.Link, error) {
	if wrap == nil {
		wrap = func(l transport.Link) transport.Link { return l }
	}
	if _, has := link.(transport.Local); has || cfg.WireOnly || link.Info().SameHost {
		return wrap(link), nil
	}
	within := host.Config{AnyUser: cfg.AnyUser, Wrap: wrap}
	joined, err := host.Join(link, &within)
	for try := 1; errors.Is(err, unix.EADDRINUSE) && try < tries; try++ {
		time.Sleep(joinPause)
		joined, err = host.Join(link, &within)
	}
	switch {
	case err == nil:
		return joined, nil
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("vipl: open NIC: the way to other programs on this host: %w; Config.WireOnly does without it", err)
	case cfg.Logger != nil:
		cfg.Logger.Warn("no way to other programs on this host", "interface", link.Info().Interface, "err", err)
	}
	return wrap(link), nil
}

func (l *local) init(n *NIC) {
	link, ok := n.link.(transport.Local)
	if !ok {
		return
	}
	l.link, l.mtu, l.rel = link, link.LocalMTU(), n.rel
	l.rel.Window = max(min(l.rel.Window, link.LocalSlots()), 1)
	l.rel.InitialWindow = min(l.rel.InitialWindow, l.rel.Window)
	l.rel.AckEvery = max(min(l.rel.AckEvery, l.rel.Window/4), 1)
	link.OnDeparture(n.departed)
}

// reaches reports whether the NIC has a way to a station, which is of this host or not.
func (n *NIC) reaches(mac ethertype.MAC) bool {
	return mac != n.info.MAC || n.host.link != nil || n.info.SameHost
}

// mtuTo returns the MTU towards a station.
func (n *NIC) mtuTo(mac ethertype.MAC) int {
	if mac == n.info.MAC && n.host.link != nil {
		return n.host.mtu
	}
	return n.conns.MTU
}

// relTo returns the limits and delays of a connection to a station.
func (n *NIC) relTo(mac ethertype.MAC) *reliability.Config {
	if mac == n.info.MAC && n.host.link != nil {
		return &n.host.rel
	}
	return &n.rel
}

// departed ends the connections to ports of this host whose station is gone:
// there is nothing to wait for. A request that has not been answered goes on,
// because it is repeated and another station may have taken the ports. The link
// calls it from within Recv, so the engine's lock is held.
func (n *NIC) departed(ports transport.PortRange, why error) {
	for _, v := range n.ports.vis {
		if v == nil || v.conn.Remote.MAC != n.info.MAC || !ports.Contains(v.conn.Remote.Port) {
			continue
		}
		cause, reason := ErrUnreachable, conn.ReasonSilent
		if errors.Is(why, shm.ErrBroken) {
			cause, reason = ErrProtocol, conn.ReasonProtocol
		}
		switch {
		case v.conn.State == StateConnected:
			v.conn.EnterError(cause, why.Error(), reason)
			n.conns.Stats.Failures++
		case v.conn.State == StateConnectPending && !v.side.Asks():
			v.side.Fail(cause, why.Error())
		}
	}
}
