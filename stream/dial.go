package stream

import (
	"context"
	"net"
	"os"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Dialer connects to listeners. The zero Dialer is ready to use. It may be shared between
// goroutines.
type Dialer struct {
	// Host is the NIC to use. Nil means the default Host of the process, which is opened with the
	// default Config when it is first needed, and stays open. After its network interface has gone,
	// the next Dial or Listen opens another one.
	Host *Host
}

// Dial connects with the default Dialer. address is "bobnet://NAME" or "MAC:PORT": see
// the package comment.
func Dial(ctx context.Context, address string) (*Conn, error) { return (&Dialer{}).Dial(ctx, address) }

// Dial connects to a listener at "bobnet://NAME" or "MAC:PORT" (see the package comment). It
// fails when ctx ends. Without a deadline it fails after vipl.DefaultConnectTimeout for the
// look-up of the name, and the same for the connection. The error is a *net.OpError that wraps
// the error of package vipl, for example vipl.ErrNoMatch if no listener exists; its Timeout
// method reports whether the time was up.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	addr, err := ParseAddr(address)
	if err != nil {
		return nil, dialError(nil, err)
	}
	h, err := d.Host.orStandard(ctx)
	if err != nil {
		return nil, dialError(addr, err)
	}
	c, err := h.dial(ctx, addr)
	if err != nil {
		h.count(&h.counts.Failed)
		if ctx.Err() != nil {
			err = timeUp{ctx.Err(), err}
		}
		return nil, dialError(addr, err)
	}
	return c, nil
}

// DialContext is Dial as a function for libraries, for example for the field DialContext of
// http.Transport. It ignores the network.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	c, err := d.Dial(ctx, address)
	if err != nil {
		return nil, err // a nil Conn would not be a nil net.Conn
	}
	return c, nil
}

func dialError(addr net.Addr, err error) error {
	return &net.OpError{Op: "dial", Net: Network, Addr: addr, Err: err}
}

// timeUp is the error of a call whose context has ended. It wraps the context's error and the
// cause.
type timeUp struct{ context, cause error }

func (e timeUp) Error() string   { return e.cause.Error() }
func (e timeUp) Unwrap() []error { return []error{e.context, e.cause} }

// Timeout reports whether the deadline of the context has passed.
func (e timeUp) Timeout() bool { return os.IsTimeout(e.context) }

func (h *Host) dial(ctx context.Context, addr Addr) (*Conn, error) {
	to := addr.Addr
	if to == (ethertype.Addr{}) {
		var err error
		if to, err = h.nic.Lookup(ctx, addr.Name); err != nil {
			return nil, err
		}
	}
	c, err := h.newConn()
	if err != nil {
		return nil, err
	}
	if err = c.connect(ctx, to); err == nil {
		err = h.addConn(c, &h.counts.Dialed)
	}
	if err != nil {
		c.tear()
		return nil, err
	}
	return c, nil
}
