package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Connect connects an idle VI to a listener at remote and waits until both sides are
// connected (VipConnectRequest). data, at most MaxConnData bytes, goes with the request.
// Without a deadline in ctx it fails after Attributes.ConnectTimeout.
//
// These errors are a *ConnError: ErrNoMatch at once if the NIC at remote has no such
// listener, ErrReject with the server's text if the server refuses, ErrTimeout if remote does
// not answer, ErrInvalidMTU, with both sizes, if the path does not carry full-size frames,
// and ErrLink at once if the NIC is closed or its link has failed.
func (v *VI) Connect(ctx context.Context, remote ethertype.Addr, data []byte) error {
	if err := v.connectStart(ctx, remote, data, false); err != nil {
		return err
	}
	return v.awaitConnect(ctx)
}

// ConnectStart starts a connection as Connect does and returns at once. ConnectDone reports the
// outcome. The attempt fails after Attributes.ConnectTimeout.
func (v *VI) ConnectStart(remote ethertype.Addr, data []byte) error {
	return v.connectStart(context.Background(), remote, data, false)
}

// connectStart sends the first request. named means that data begins with a discriminator.
func (v *VI) connectStart(ctx context.Context, remote ethertype.Addr, data []byte, named bool) error {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := v.admitConnect("connect", remote); err != nil {
		return err
	}
	if len(data) > MaxConnData {
		return opError("connect", ErrArgument, "%d bytes of private data are over the limit of %d", len(data), MaxConnData)
	}
	n.m.ReadClock()
	v.left = false
	v.side.Ask(remote, append([]byte(nil), data...), named, int64(n.eng.Left(ctx, v.attr.ConnectTimeout)))
	n.m.Flush()
	return nil
}

// admitConnect checks the VI's state and the address before an attempt to connect.
func (v *VI) admitConnect(op string, remote ethertype.Addr) error {
	n := v.nic
	if err := v.isClosed(); err != nil {
		return err
	}
	switch {
	case v.conn.State != code.StateIdle:
		return opError(op, ErrInvalidState, "the VI is %v, want idle: call Disconnect first", v.conn.State)
	case remote.MAC.IsGroup() || remote.IsZero():
		return opError(op, ErrArgument, "%v is not the address of one endpoint", remote)
	case !n.m.Reaches(remote.MAC):
		return opError(op, ErrArgument, "%v is on this host, which this NIC cannot reach (open it without Config.WireOnly)", remote)
	}
	if err := n.m.CheckLink(); err != nil {
		return &ConnError{Local: v.Local(), Remote: remote, Err: err}
	}
	return nil
}

// ConnectDone reports the outcome of a connection attempt, on either side: nil if the VI is
// connected, ErrNotDone while the attempt is pending, otherwise the cause of the failure. It polls
// the NIC once if necessary.
func (v *VI) ConnectDone() error {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if v.conn.State == code.StateConnectPending && !n.m.Closed {
		n.eng.Poll()
	}
	return v.connectOutcome()
}

func (v *VI) connectOutcome() error {
	if err := v.isClosed(); err != nil {
		return err
	}
	switch {
	case v.conn.State == code.StateConnected:
		return nil
	case v.conn.State == code.StateConnectPending:
		return ErrNotDone
	case v.conn.State == code.StateError:
		return v.conn.End.Err
	case v.side.Err != nil:
		return v.side.Err
	case v.left:
		return opError("connect", ErrInvalidState, "no attempt was made since Disconnect was called")
	}
	return opError("connect", ErrInvalidState, "no attempt was made")
}

// awaitConnect blocks until the attempt has an outcome. If ctx ends first, it abandons the attempt.
func (v *VI) awaitConnect(ctx context.Context) error {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	for {
		if err := v.connectOutcome(); err != ErrNotDone {
			return err
		}
		if err := n.m.Wait(&w, &v.gate); err != nil {
			if v.conn.State == code.StateConnectPending {
				if v.side.Expire(n.eng.Ended(ctx) == context.DeadlineExceeded) {
					return v.connectOutcome()
				}
				v.leave()
				n.m.Flush()
			}
			return err
		}
	}
}
