// Package rpcbind is the directory of ONC RPC's programs (RFC 1833): which program listens at
// which address of a machine. It speaks versions 3 and 4 (rpcbind) and 2 (the portmapper), as
// a client and as a server.
//
// # Servers announce themselves
//
//	s := vrpc.NewServer(nil)
//	s.Register(program)
//	s.Listen("tcp", ":0")
//	s.Listen("udp", ":0")
//	a, err := rpcbind.Announce(ctx, s, nil)
//
// Announce registers every program of a server at every address where it listens, with the
// rpcbind of the system, by its socket; where none runs it becomes rpcbind (program 100000, TCP
// and UDP port 111, and the socket), for other processes, too. Server.Close removes the
// entries. Transports are named by netids ("tcp", "udp6", "local", "vmmc"), addresses are
// universal addresses (RFC 5665).
//
// # Clients find them
//
//	c, err := rpcbind.DialProgram(ctx, "tcp", "host", prog, vers, nil)
//
// A Client asks single questions: Addr, port, Dump, Endpoints, Indirect; Set and Unset change
// what is registered, which rpcbind allows to callers of its own machine only. A Client takes
// the highest version that rpcbind there has; the methods port and Ports are version 2's.
// DialVMMC finds servers over VMMC. Broadcast calls a procedure at all machines of the networks around, by way of their
// rpcbind, and collects the replies until the context ends.
//
// Netids that the system does not know (/etc/netconfig), as "vmmc", can be registered and are
// found in dumps, but rpcbind 1.2.6 does not answer RPCBPROC_GETADDRLIST (rpcinfo -l) for a
// program that has one.
//
// # What the server does
//
//	RFC 1833          what
//	2.1, version 3    SET, UNSET, GETADDR, DUMP, CALLIT, GETTIME, UADDR2TADDR, TADDR2UADDR
//	2.1, version 4    BCAST, GETVERSADDR, INDIRECT, GETADDRLIST, GETSTAT as well
//	3, version 2      SET, UNSET, GETPORT, DUMP, CALLIT
//
// GETADDR, GETVERSADDR and GETADDRLIST look at the transport by which they are asked, as the RFC
// wants it, and not at the netid in the call; Client.Addr reads the dump where another one is
// asked for. An address that is any of the machine's ("0.0.0.0.8.1") is told as the one that
// the caller can reach.
//
// Entries belong to the user for whom the kernel vouches at the socket, or to root where a
// caller has a port below 1024 at the loopback. Nobody else registers anything, entries are
// removed by their owner or by root, and rpcbind's own stay. There are 4096 entries at
// most, of 2 MiB in a dump, and a user other than root has an eighth of both at most. Calls made for others are off unless ServerConfig.RemoteCalls allows them: they let
// strangers speak to programs as if they were of the same machine. They are never made to
// rpcbind itself.
package rpcbind
