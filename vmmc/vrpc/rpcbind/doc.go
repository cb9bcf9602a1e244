// Package rpcbind is a client and a server of rpcbind, the directory of ONC RPC programs (RFC
// 1833). Rpcbind records the addresses at which the programs of a machine listen. The package
// supports versions 3 and 4 (rpcbind) and 2 (the portmapper).
//
// # Registering a server
//
//	s := vrpc.NewServer(nil)
//	s.Register(program)
//	s.Listen("tcp", ":0")
//	s.Listen("udp", ":0")
//	a, err := rpcbind.Announce(ctx, s, nil)
//
// Announce registers every program of a server, at every address where the server listens, with the
// system's rpcbind, through rpcbind's socket. If no rpcbind runs, the process becomes rpcbind, for
// other processes too: program 100000 on TCP and UDP port 111 and on the socket. Server.Close
// removes the entries. Netids name the transports ("tcp", "udp6", "local", "vmmc"). Addresses are
// universal addresses (RFC 5665).
//
// # Finding a server
//
//	c, err := rpcbind.DialProgram(ctx, "tcp", "host", prog, vers, nil)
//
// A Client makes single requests. Addr, Ports, Dump and Endpoints look up addresses. Indirect calls a procedure
// through rpcbind. Set and Unset change entries, which rpcbind permits only to callers on its own machine. A Client
// uses the highest version that rpcbind there supports; Ports uses version 2. DialVMMC finds servers over VMMC.
// Broadcast calls a procedure on all machines of the local networks, through their rpcbind, and collects the replies
// until the context ends.
//
// A program can register netids that the system does not know (/etc/netconfig), such as "vmmc", and
// dumps contain them. But rpcbind 1.2.6 does not answer RPCBPROC_GETADDRLIST (rpcinfo -l) for a
// program with such a netid.
//
// # Procedures of the server
//
//	RFC 1833          what
//	2.1, version 3    SET, UNSET, GETADDR, DUMP, CALLIT, GETTIME, UADDR2TADDR, TADDR2UADDR
//	2.1, version 4    BCAST, GETVERSADDR, INDIRECT, GETADDRLIST, GETSTAT as well
//	3, version 2      SET, UNSET, GETPORT, DUMP, CALLIT
//
// GETADDR, GETVERSADDR and GETADDRLIST use the transport of the request, as the RFC requires, and
// not the netid in the call. For another transport, Client.Addr reads the dump. If a program
// listens at a wildcard address ("0.0.0.0.8.1"), the server returns the address that the caller can
// reach.
//
// An entry belongs to the user that the kernel reports for the socket's peer. It belongs to root if the caller uses a
// loopback port below 1024. No other caller can register entries. Only the owner or root can remove an entry. Nobody
// can remove rpcbind's own entries. The server holds at most 4096 entries, which take at most 2 MiB in a dump. A user
// other than root may have one eighth of both limits.
//
// The server makes calls for its clients only if ServerConfig.RemoteCalls allows them, because such calls seem to the
// program to come from its own machine. The server never forwards a call to rpcbind itself.
package rpcbind
