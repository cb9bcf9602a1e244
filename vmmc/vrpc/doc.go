// Package vrpc implements ONC RPC version 2 (RFC 5531, formerly SunRPC). Clients call numbered
// procedures of numbered programs at servers. It runs over VMMC, TCP, UDP and Unix sockets. Its
// messages follow the standard, so it works with other ONC RPC clients and servers, like the vRPC
// of the VMMC paper (section 5.4).
//
// # Servers
//
// A Server has one dispatch table and any number of transports:
//
//	s := vrpc.NewServer(nil)
//	s.Register(&vrpc.Program{Number: 0x20000001, Version: 1, Procedures: []vrpc.Procedure{
//		vrpc.Proc(1, "ADD", func(c *vrpc.Call, arg *Pair, sum *Sum) error {
//			sum.Value = arg.A + arg.B
//			return nil
//		}),
//	}})
//
// Pair and Sum implement xdr.Unmarshaler and xdr.Marshaler. The command bobnet rpcgen
// generates such types from a file in RPC language, and the Program from an interface with
// a method for each procedure. Procedure documents what a procedure's error means to the
// client.
//
// # Clients
//
// A Client calls one version of a program over a Transport:
//
//	err := client.Call(ctx, 1, &Pair{1, 2}, &sum)
//
// Client.Call lists the errors. Goroutines may share a client; their calls run
// concurrently over one connection. Batch sends calls that have no reply.
//
// # Transports
//
// Server.Listen and Dial are for TCP, UDP and Unix sockets, ListenVMMC and DialVMMC for VMMC.
// One server can use all of them at once. Over TCP and Unix sockets messages are
// records in fragments (RFC 5531 section 11).
//
// A client has one connection, which Dial makes. If it breaks, calls under way fail with a
// *TransportError. Its Sent is true, because the procedures may have run. The next call
// makes a new connection; no call is sent twice. A connection without any received byte
// during the whole time of a call counts as broken. A server closes connections that are
// silent for too long, between calls or within a call.
//
// Over UDP a call is sent again after ClientConfig.Retry, then after twice that time, and so
// on until its timeout. The server caches its replies (ServerConfig.DuplicateAge), so that a
// repeated call runs its procedure once. It counts replies that left the full cache early,
// because such calls may run again. A call and its reply must each fit into a datagram. If
// nothing listens at the port, the calls under way fail at once.
//
// # Over VMMC
//
//	p, err := vmmc.Open(ctx, &vmmc.Config{Process: 1})
//	name, err := s.ListenVMMC(p, 100, vmmc.Everybody)
//
//	q, err := vmmc.Open(ctx, &vmmc.Config{Process: 2})
//	c, err := vrpc.DialVMMC(ctx, q, name, 0x20000001, 1, nil)
//
// A server has an address: node, process and export number (vmmc.Name, ParseVMMC). Clients
// that do not know it use DialVMMCProgram, which finds a server by its program number with the
// name service of the segment. The policy of ListenVMMC says which users may connect.
//
// A call is one message into the server's memory: no system call, and one copy in each
// direction. Program.InPlace, Client.CallInPlace and Program.ResultsInPlace avoid that copy.
// A message longer than 3/8 of ServerConfig.Ring or ClientConfig.Ring travels in pieces and
// costs one copy more. The caller's goroutine drives the network while it waits.
//
// A client that breaks the rules, or is silent in the middle of a call, loses its
// connection. If the process of the server ends, calls under way fail; the next call makes
// a new connection.
//
// # Other transports
//
// A server's other transport receives messages, passes each to a Session and sends the
// result; Server.Start ties its goroutines to the server's life. A client's other transport
// implements Transport. Transports know nothing of programs, authentication and XDR. Direct
// is the smallest example.
//
// # Bounds
//
// Memory for a message grows only as its bytes arrive. ServerConfig bounds the number of
// connections, the bytes of a message and the time that it may take, the concurrent calls,
// and the tables of duplicates and shorthands. The server drops or refuses what exceeds a
// bound, and counts it (Snapshot).
//
// # Coverage of RFC 5531
//
//	section        what
//	8              calls and replies; batching 8.4.1 (Client.Batch, ErrNoReply)
//	8.4.2          broadcast RPC over UDP (Broadcast)
//	8.2            opaque_auth; AUTH_NONE, AUTH_SYS, AUTH_SHORT; others are AUTH_REJECTEDCRED
//	9              every accept_stat, reject_stat and auth_stat, as errors
//	11             record marking, fragments in both directions
//	12.1           procedure 0 of every program
//	appendix A     authsys_parms; the server's shorthands
//
// Package rpcbind implements RFC 1833: servers register their addresses, and clients find
// them. There is no RPCSEC_GSS.
package vrpc

// Notes for maintainers, which go doc does not print.
//
// # Rings
//
// Each side of a connection exports a ring to the other side. A call is encoded into one message,
// which is written straight into the server's ring. This needs no system call, no layer in between,
// and one copy in each direction, in which XDR decodes opaque data out of the ring (the paper's
// compatible form). Program.InPlace and Client.CallInPlace leave the data in the ring instead, and
// Program.ResultsInPlace sends results straight from their memory. Arguments are always copied into
// the message as they are encoded: a call may end, with its context, before it has been sent, and
// then they belong to the caller again. The paper does not count this copy (section 5.4); it counts
// copies at the receiver. A message of more than 3/8 of ServerConfig.Ring or ClientConfig.Ring is
// sent in several pieces, which cost one more copy to reassemble. The caller's goroutine drives the
// network while it waits, and also receives the replies of other callers.
//
// A server's address is its node, process and export number. ParseVMMC parses its text form, which
// is the universal address of netid "vmmc" in rpcbind. DialVMMCProgram finds a server by the name
// service of the segment. The export's policy determines which processes may connect. Only its
// client writes to a ring, and the server still validates its contents. A client that violates the
// protocol, or is silent in the middle of a call, loses its connection. If a process ends, the
// calls of the other side fail, and the next call makes another connection.
