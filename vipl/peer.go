package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

const peerSize = handshake.PeerSize

// ConnectPeer connects an idle VI to one of another program that does the same
// at about the same time, and waits until both are connected
// (VipConnectPeerRequest, VipConnectPeerWait). remote is the address of the
// other's NIC, NIC.Addr; both sides give the same discriminator, at most
// NICAttributes.MaxDiscriminatorLen bytes, which tells the connections between two NICs apart.
// Without a deadline in ctx it gives up after Attributes.ConnectTimeout.
//
// It returns ErrTimeout when the other side has not asked in time, and
// ErrInvalidReliability, ErrInvalidMTU or ErrInvalidQoS, on both sides, when
// the attributes of the VIs differ; all as *ConnError, which names both sides
// and what each has.
func (v *VI) ConnectPeer(ctx context.Context, remote ethertype.Addr, discriminator []byte) error {
	if err := v.connectPeer(ctx, remote, discriminator); err != nil {
		return err
	}
	return v.awaitConnect(ctx)
}

// ConnectPeerStart begins what ConnectPeer does and returns at once
// (VipConnectPeerRequest); ConnectPeerDone and ConnectPeerWait tell how it
// went. It gives up after Attributes.ConnectTimeout.
func (v *VI) ConnectPeerStart(remote ethertype.Addr, discriminator []byte) error {
	return v.connectPeer(context.Background(), remote, discriminator)
}

// ConnectPeerDone reports how the attempt went (VipConnectPeerDone): nil when
// the VI is connected, ErrNotDone while it is pending, else why it failed. It
// polls the NIC once if need be.
func (v *VI) ConnectPeerDone() error { return v.ConnectDone() }

// ConnectPeerWait blocks until the attempt has an outcome (VipConnectPeerWait).
// When ctx ends first the attempt is abandoned.
func (v *VI) ConnectPeerWait(ctx context.Context) error { return v.awaitConnect(ctx) }

func (v *VI) connectPeer(ctx context.Context, remote ethertype.Addr, discriminator []byte) error {
	const op = "connect to peer"
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := v.admitConnect(op, remote); err != nil {
		return err
	}
	switch {
	case len(discriminator) > maxDiscriminator:
		return opError(op, ErrArgument, "a discriminator of %d bytes is over the limit of %d", len(discriminator), maxDiscriminator)
	case remote == n.Addr():
		return opError(op, ErrArgument, "%v is this NIC: of two VIs of one NIC, one listens and the other connects", remote)
	case n.m.Connects.Meets(remote, discriminator):
		return opError(op, ErrInvalidState, "another VI is being connected to %v with the same discriminator", remote)
	}
	n.m.ReadClock()
	v.left = false
	v.side.AskPeer(remote, discriminator, int64(n.eng.Left(ctx, v.attr.ConnectTimeout)))
	n.m.Flush()
	return nil
}
