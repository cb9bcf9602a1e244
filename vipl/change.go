package vipl

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// This file is about interfaces that are changed while they are in use. It runs
// with the engine's lock held.
//
// An interface that goes down breaks nothing by itself: traffic goes on when
// it comes up before PeerTimeout is over. With a smaller MTU the connections
// end whose frames it does not carry, and new ones use smaller frames. With
// another MAC nothing arrives any more: the NIC is dead and must be opened
// again. Peers are told in either case. The NIC looks a few times a second, also
// when nothing is connected, and before it connects anything.
//
// A station of udp outlives the MAC. But its peers' kernels ask for the new one
// only when they have doubted the old one for seconds, or when the station sends
// something. So it does, to each.

// MinMTU is the smallest MTU in bytes of an interface that Open takes: the
// frames of the connection handshake fit it.
const MinMTU = minMTU

// checkLink asks the link whether its interface is as it was, and draws the
// consequences.
func (n *NIC) checkLink() {
	err := transport.Check(n.link)
	if err == nil {
		if n.conns.MTU != n.info.MTU || n.health.failed != nil {
			n.log.Info("link is well again", "interface", n.info.Interface)
		}
		n.conns.MTU, n.health.failed = n.info.MTU, nil
		n.lookAtHardware()
		return
	}
	if n.linkError(err); n.health.failed != nil {
		n.health.failed = err // says more than what Send returns
	}
	var change *transport.ChangeError
	switch {
	case !errors.As(err, &change):
	case change.MTU >= minMTU:
		n.shrink(change)
		n.lookAtHardware()
	case n.health.dead == nil && !n.closed:
		n.health.dead = err
		n.raise(CodeCatastrophic, nil, nil, 0, linkCause(err))
		n.endAll(err, func(*VI) bool { return true })
	}
}

// lookAtFailure is checkLink for connections that are given up, and returns what is
// wrong with the link.
func (n *NIC) lookAtFailure() error {
	n.checkLink()
	return n.health.failed
}

// lookAtHardware has the peers learn the MAC of an interface whose stations have
// another, if it has changed. The interface can send.
func (n *NIC) lookAtHardware() {
	now := n.link.Info().Hardware
	if now == n.info.Hardware {
		return
	}
	n.info.Hardware = now
	n.log.Info("interface has another MAC", "interface", n.info.Interface, "mac", now)
	for _, v := range n.ports.vis {
		if v != nil && v.conn.State == StateConnected && v.conn.Remote.MAC != n.info.MAC {
			v.appear()
		}
	}
}

// appear sends a frame to the peer's host. What matters is that the kernel asks
// for the way there, and says its own MAC with that.
func (v *VI) appear() {
	if v.conn.Reliable {
		v.conn.SendAck(ethertype.FlagAckNow)
		return
	}
	// The level has no keepalive. An inquiry to a port that is no NIC's own is for
	// nobody.
	v.nic.conns.SendControl(ethertype.Header{Dst: v.conn.Remote.MAC, DstPort: v.conn.Remote.Port, Kind: ethertype.KindQuery, SrcPort: v.conn.Port, Tag: v.conn.RemoteTag})
}

// lookAtLink looks at the interface before something is begun that a change of it
// would spoil, and returns an error if the NIC is of no use any more.
func (n *NIC) lookAtLink() error {
	if n.health.checks && n.health.dead == nil {
		n.checkLink()
	}
	if n.health.dead != nil {
		return linkCause(n.health.dead)
	}
	return nil
}

// linkCause is what ends connections when err befalls the link.
func linkCause(err error) error { return fmt.Errorf("%w: %w", ErrLink, err) }

// shrink goes over to a smaller MTU.
func (n *NIC) shrink(change *transport.ChangeError) {
	if n.conns.MTU == change.MTU {
		return
	}
	n.conns.MTU = change.MTU
	n.endAll(change, func(v *VI) bool {
		return v.conn.Path.Data+ethertype.BaseSize > n.conns.MTU && v.conn.Remote.MAC != n.info.MAC
	})
}

// endAll ends the connections, pending ones too, that a change of the interface
// concerns, and tells their peers.
func (n *NIC) endAll(change error, concerned func(*VI) bool) {
	n.log.Warn("connections end", "interface", n.info.Interface, "err", change)
	cause := linkCause(change)
	for _, v := range n.ports.vis {
		switch {
		case v == nil || !concerned(v):
		case v.conn.State == StateConnected:
			v.conn.SendDisconnect(conn.ReasonLink)
			v.conn.EnterError(cause, "", conn.ReasonLink)
			n.conns.Stats.Failures++
		case v.conn.State == StateConnectPending && !v.side.Asks():
			v.side.Fail(cause, "")
		}
	}
}
