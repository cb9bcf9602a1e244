package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Discriminators
//
// VIPL's address is that of a NIC and, behind it, a discriminator of the program's own
// choice, which tells apart those who listen there. It travels in front of the private
// data of a request, which goes to the NIC itself:
//
//	offset  size  field
//	     0     1  length of the discriminator
//	     1        discriminator
//	              private data

// maxDiscriminator is the longest discriminator, in bytes.
const maxDiscriminator = MaxConnData - peerSize

// ListenFor is Listen for requests that name a discriminator of 1 to NICAttributes.MaxDiscriminatorLen
// bytes (the local address of VipConnectWait), at a free port. ErrResource means that
// another listener of the NIC has it.
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

// Discriminator returns what ListenFor was called with, and nil for a listener of
// Listen.
func (l *Listener) Discriminator() []byte { return []byte(l.discriminator) }

// ConnectFor is Connect to whoever listens for a discriminator at a NIC, whose NIC.Addr
// is remote (the remote address of VipConnectRequest). data may have
// MaxConnData - 1 - len(discriminator) bytes.
func (v *VI) ConnectFor(ctx context.Context, remote ethertype.Addr, discriminator, data []byte) error {
	if err := v.connectFor(ctx, remote, discriminator, data); err != nil {
		return err
	}
	return v.awaitConnect(ctx)
}

// ConnectForStart begins what ConnectFor does and returns at once; ConnectDone tells how
// it went. It gives up after Attributes.ConnectTimeout.
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

// checkDiscriminator checks one that goes with so many bytes of private data.
func checkDiscriminator(op string, d []byte, data int) error {
	switch {
	case len(d) == 0 || len(d) > maxDiscriminator:
		return opError(op, ErrArgument, "a discriminator has 1..%d bytes, this one has %d", maxDiscriminator, len(d))
	case 1+len(d)+data > MaxConnData:
		return opError(op, ErrArgument, "%d bytes of private data are over the limit of %d beside a discriminator of %d",
			data, MaxConnData-1-len(d), len(d))
	}
	return nil
}
