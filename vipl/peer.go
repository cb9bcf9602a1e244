package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

const peerSize = handshake.PeerSize

// ConnectPeer connects an idle VI to a VI of another program that calls ConnectPeer at about the
// same time, and waits until both are connected (VipConnectPeerRequest, VipConnectPeerWait). remote
// is the NIC.Addr of the other program's NIC. Both sides pass the same discriminator, of at most
// NICAttributes.MaxDiscriminatorLen bytes, which identifies the connection between the two NICs.
// Without a deadline in ctx the attempt fails after Attributes.ConnectTimeout.
//
// It returns ErrTimeout if the other side has not called in time. If the attributes of the VIs
// differ, it returns ErrInvalidReliability, ErrInvalidMTU or ErrInvalidQoS on both sides. All are a
// *ConnError, which names both sides and their values.
func (v *VI) ConnectPeer(ctx context.Context, remote ethertype.Addr, discriminator []byte) error {
	if err := v.connectPeer(ctx, remote, discriminator); err != nil {
		return err
	}
	return v.awaitConnect(ctx)
}

// ConnectPeerStart starts a connection as ConnectPeer does and returns at once
// (VipConnectPeerRequest). ConnectPeerDone and ConnectPeerWait report the outcome. The attempt
// fails after Attributes.ConnectTimeout.
func (v *VI) ConnectPeerStart(remote ethertype.Addr, discriminator []byte) error {
	return v.connectPeer(context.Background(), remote, discriminator)
}

// ConnectPeerDone reports the outcome of the attempt (VipConnectPeerDone): nil if the VI is
// connected, ErrNotDone while the attempt is pending, otherwise the cause of the failure. It polls
// the NIC once if necessary.
func (v *VI) ConnectPeerDone() error { return v.ConnectDone() }

// ConnectPeerWait blocks until the attempt has an outcome (VipConnectPeerWait). If ctx ends first,
// it abandons the attempt.
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
