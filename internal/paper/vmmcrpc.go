package paper

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam/hook"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// The program whose procedure returns its argument, and its server's address.
const (
	rpcProgram = 0x20000001
	rpcEcho    = 1
	rpcDoor    = 100
	rpcRing    = 1 << 20 // bytes: no message is sent in pieces
)

// opaque is an argument or result of arbitrary bytes.
type opaque struct{ data []byte }

func (o *opaque) MarshalXDR(e *xdr.Encoder)   { e.Opaque(o.data, xdr.Unbounded) }
func (o *opaque) UnmarshalXDR(d *xdr.Decoder) { o.data = d.Opaque(o.data, xdr.Unbounded) }

// rpcs makes one side call a procedure of the other side, which returns its argument, with package
// vmmc/vrpc. It returns the time of a call with n bytes of argument. Each side is charged for a
// send, for its half of the routines, and for its two copies in vmmc/vrpc: of sent data into the
// message, and of received data out of the message.
func (m *vmmcModel) rpcs(ctx context.Context, n int) (us float64, err error) {
	const warm = 3
	err = m.run(ctx, 4, vmmc.DefaultShort, func(s *vmmcSide) error {
		pays := func() error {
			copied := time.Duration(2 * float64(n) / m.bcopy * 1e9)
			return s.w.Sleep(m.send + m.call/2 + copied)
		}
		if s.side == 1 {
			return s.serveCalls(pays)
		}
		client, end, err := hook.DialRPC(ctx, s.p, vmmc.Name{Process: 1, ID: rpcDoor}, rpcProgram, 1, rpcRing)
		if err != nil {
			return err
		}
		arg, began := opaque{make([]byte, n)}, int64(0)
		var res opaque
		for i := range warm + vmmcRounds {
			if i == warm {
				began = s.w.Now()
			}
			if err := client.(*vrpc.Client).Call(ctx, rpcEcho, &arg, &res); err != nil {
				return err
			}
			if err := pays(); err != nil {
				return err
			}
		}
		us = micro(time.Duration(s.w.Now()-began)) / vmmcRounds
		return end()
	})
	return us, err
}

// serveCalls answers the calls of one client, and charges the host for each call.
func (s *vmmcSide) serveCalls(pays func() error) error {
	server := vrpc.NewServer(&vrpc.ServerConfig{Ring: rpcRing, IdleTimeout: -1, RecordTimeout: -1})
	if err := server.Register(&vrpc.Program{Number: rpcProgram, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(rpcEcho, "ECHO", func(_ *vrpc.Call, arg, res *opaque) error {
			res.data = arg.data
			return pays()
		}),
	}}); err != nil {
		return err
	}
	return hook.ServeRPC(s.ctx, server, s.p, rpcDoor)
}
