package rpcbind

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Answer is a server's reply to a broadcast.
type Answer struct {
	From netip.AddrPort // rpcbind there
	Addr string         // the program's universal address
}

// Broadcast has the rpcbind of every machine that it reaches call a procedure (PMAPPROC_CALLIT,
// which is what all versions of rpcbind answer), and collects the replies until the context
// ends or each returns false, which is no error. Before each call of each the results are in
// res. The addresses to send to are BroadcastAddrs, if to is empty. Machines whose rpcbind
// makes no remote calls, or that do not have the program, are not heard of.
func Broadcast(ctx context.Context, to []netip.AddrPort, prog, vers, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, each func(Answer) bool, cfg *vrpc.ClientConfig) error {
	encoded, err := xdr.Append(nil, args)
	if err != nil {
		return err
	}
	if len(to) == 0 {
		if to, err = BroadcastAddrs(); err != nil {
			return err
		}
	}
	r := rmtresult{v2: true}
	take := func(from netip.AddrPort) bool {
		if r.decode(res) != nil {
			return true // it is somebody who speaks another program
		}
		return each(Answer{from, r.addrAt(from.Addr())})
	}
	return vrpc.Broadcast(ctx, to, Program, Version2, procCallit, &rmtcall{prog, vers, proc, encoded}, &r, take, cfg)
}

// BroadcastAddrs returns rpcbind's port at the broadcast address of each network that the
// machine is in by IP version 4, and at the loopback.
func BroadcastAddrs() (list []netip.AddrPort, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok || n.IP.To4() == nil {
				continue
			}
			if to, ok := netip.AddrFromSlice(broadcastOf(n.IP.To4(), n.Mask, i.Flags)); ok {
				list = append(list, netip.AddrPortFrom(to, Port))
			}
		}
	}
	return list, nil
}

// broadcastOf returns the broadcast address of a network, or an interface's own address if it
// has no broadcasts.
func broadcastOf(ip net.IP, mask net.IPMask, flags net.Flags) net.IP {
	if flags&net.FlagBroadcast == 0 || len(mask) != net.IPv4len {
		return ip
	}
	all := make(net.IP, net.IPv4len)
	binary.BigEndian.PutUint32(all, binary.BigEndian.Uint32(ip)|^binary.BigEndian.Uint32(mask))
	return all
}
