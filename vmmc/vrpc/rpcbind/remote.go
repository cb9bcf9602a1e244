package rpcbind

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// remotePatience is how long a call may take that is made for somebody else.
const remotePatience = 10 * time.Second

// remote returns the procedure that calls another one for its caller. But for INDIRECT there
// is no reply where that call has none, so that a broadcast is answered only by those who
// have something to say.
func (s *Server) remote(version, proc uint32, name string) vrpc.Procedure {
	indirect := proc == procIndirect
	return s.counted(version, proc, name, vrpc.Proc(proc, name, func(c *vrpc.Call, arg *rmtcall, res *rmtresult) error {
		err := s.forward(c, version, arg, res)
		s.tally(version).remoteCall(arg, c.Peer().Netid, indirect, err == nil)
		if err != nil && !indirect {
			return vrpc.ErrNoReply
		}
		return err
	}))
}

// forward makes the call. Its error is what the caller of INDIRECT is told.
func (s *Server) forward(c *vrpc.Call, version uint32, arg *rmtcall, res *rmtresult) error {
	if !s.cfg.RemoteCalls || arg.prog == Program {
		return vrpc.ProcUnavail
	}
	to, ok := s.programAddr(arg.prog, arg.vers)
	if !ok {
		return vrpc.ProgUnavail
	}
	network, address, err := to.NetworkAddr()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), remotePatience)
	defer cancel()
	client, err := vrpc.Dial(ctx, network, address, arg.prog, arg.vers, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	args, results := raw(arg.args), raw(nil)
	if err := client.Call(ctx, arg.proc, &args, &results); err != nil {
		return told(err)
	}
	to.Addr = reachable(s.table.find(arg.prog, arg.vers, to.Netid, true), peerIP(c))
	*res = rmtresult{addr: to.Addr, port: portOf(to.Addr), results: results, v2: version == Version2}
	return nil
}

// told returns what another server has answered, as an answer of this one.
func told(err error) error {
	var rpc *vrpc.RPCError
	if !errors.As(err, &rpc) {
		return err
	}
	switch stat := rpc.Stat.(type) {
	case vrpc.AcceptStat:
		if stat != vrpc.ProgMismatch { // whose versions would be this program's
			return stat
		}
		return vrpc.ProgUnavail
	case vrpc.AuthStat:
		return stat
	}
	return err
}
