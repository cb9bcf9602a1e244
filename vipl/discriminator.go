package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Discriminators
//
// A VIPL address consists of a NIC's address and a discriminator that the program chooses. The
// discriminator selects one of the listeners behind the NIC. A request for a discriminator goes to
// the NIC itself and carries the discriminator in front of the private data:
//
//	offset  size  field
//	     0     1  length of the discriminator
//	     1        discriminator
//	              private data

// maxDiscriminator is the longest discriminator, in bytes.
const maxDiscriminator = MaxConnData - peerSize

// ListenFor is like Listen, but accepts requests for a discriminator (the local address of
// VipConnectWait). It uses a free port. The discriminator has 1 to NICAttributes.MaxDiscriminatorLen
// bytes. If another listener of the NIC has it, the error is ErrResource.
func (n *NIC) ListenFor(discriminator []byte) (*Listener, error) {
	const op = "listen for a discriminator"
	if err := checkDiscriminator(op, discriminator, 0); err != nil {
		return nil, err
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Ports.Names[string(discriminator)] != nil {
		return nil, opError(op, ErrResource, "another listener of this NIC has %q", discriminator)
	}
	l, err := n.listen(0)
	if err != nil {
		return nil, err
	}
	l.discriminator = string(discriminator)
	n.m.Ports.Names[l.discriminator] = &l.in
	return l, nil
}

// Discriminator returns the discriminator that was passed to ListenFor, or nil if Listen created
// the listener.
func (l *Listener) Discriminator() []byte { return []byte(l.discriminator) }

// ConnectFor is like Connect, but connects to the listener for a discriminator at the NIC whose
// NIC.Addr is remote (the remote address of VipConnectRequest). data has at most MaxConnData - 1 -
// len(discriminator) bytes.
func (v *VI) ConnectFor(ctx context.Context, remote ethertype.Addr, discriminator, data []byte) error {
	if err := v.connectFor(ctx, remote, discriminator, data); err != nil {
		return err
	}
	return v.awaitConnect(ctx)
}

// ConnectForStart starts a connection as ConnectFor does and returns at once. ConnectDone reports
// the outcome. The attempt fails after Attributes.ConnectTimeout.
func (v *VI) ConnectForStart(remote ethertype.Addr, discriminator, data []byte) error {
	return v.connectFor(context.Background(), remote, discriminator, data)
}

func (v *VI) connectFor(ctx context.Context, remote ethertype.Addr, discriminator, data []byte) error {
	if err := checkDiscriminator("connect", discriminator, len(data)); err != nil {
		return err
	}
	all := append([]byte{byte(len(discriminator))}, discriminator...)
	return v.connectStart(ctx, remote, append(all, data...), true)
}

// checkDiscriminator checks a discriminator that is sent with data bytes of private data.
func checkDiscriminator(op string, d []byte, data int) error {
	switch {
	case len(d) == 0 || len(d) > maxDiscriminator:
		return opError(op, ErrArgument, "a discriminator must have 1..%d bytes, this one has %d", maxDiscriminator, len(d))
	case 1+len(d)+data > MaxConnData:
		return opError(op, ErrArgument, "%d bytes of private data are over the limit of %d with a discriminator of %d",
			data, MaxConnData-1-len(d), len(d))
	}
	return nil
}
