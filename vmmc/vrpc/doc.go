// Package vrpc is ONC RPC version 2 (RFC 5531, once SunRPC): clients call the procedures
// of programs, which are numbered, at servers on other machines. It is the vRPC of the VMMC
// paper (section 5.4): what goes over the wire is the standard's, so that one server
// answers clients of any make.
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
// Pair and Sum have the methods of xdr.Unmarshaler and xdr.Marshaler, as the types have
// that bobnet rpcgen makes from a file in RPC language. It makes the Program, too, from
// an interface with a method for each procedure. Procedure has the rule for what a procedure's
// error means to the client.
//
// # Clients
//
// A Client calls one version of a program over a Transport:
//
//	err := client.Call(ctx, 1, &Pair{1, 2}, &sum)
//
// Call says which errors there are. Goroutines may share a client; their calls are under
// way at the same time, over one connection. Batch sends calls that have no reply.
//
// # Transports
//
// Server.Listen and Dial have TCP, UDP and sockets of Unix, ListenVMMC and DialVMMC have VMMC.
// One server has any of them at once. Over TCP and sockets of Unix messages are records in
// fragments (RFC 5531 section 11). A client has one connection, made at first by Dial. When it
// breaks, the calls under way fail with a *TransportError whose Sent is true, because the
// procedures may have run, and the next call makes another connection; no call is sent twice.
// A connection that has brought nothing for the whole time of a call is taken for broken. A
// server closes connections that are silent for too long, between calls or within one.
//
// By UDP a call is sent again after ClientConfig.Retry, twice that, and so on, until its
// time is over. The server remembers its replies for a while (ServerConfig.DuplicateAge), so
// that a repeated call runs its procedure once; a reply that left the cache early, because it
// was full, is counted, as its call might run again. A call and its reply must fit into a
// datagram. That nobody listens at the port ends the calls under way at once.
//
// # Over VMMC
//
//	p, err := vmmc.Open(ctx, &vmmc.Config{Process: 1})
//	name, err := s.ListenVMMC(p, 100, vmmc.Everybody)
//
//	q, err := vmmc.Open(ctx, &vmmc.Config{Process: 2})
//	c, err := vrpc.DialVMMC(ctx, q, name, 0x20000001, 1, nil)
//
// Each side of a connection exports a ring to the other, and a call is one message, encoded
// where it is sent from, into the server's ring: no system call, no layer in between, and one
// copy on each way, when XDR decodes opaque data out of the ring (the paper's compatible form).
// Program.InPlace and Client.CallInPlace leave it there instead, and Program.ResultsInPlace
// has results sent from where they lie. Arguments are always copied into the message as they
// are encoded: a call can end, with its context, before it has been sent, and then they are
// the caller's again. That is no copy of a receive, which are those that the paper counts
// (section 5.4). A message of more than 3/8 of ServerConfig.Ring or
// ClientConfig.Ring goes in several pieces, which are put together by one copy more.
// The caller's goroutine drives the network while it waits, and takes the replies of other
// callers, too.
//
// A server is named by its node, process and export, which is what its endpoint of netid "vmmc"
// says as text (ParseVMMC) and rpcbind tells; DialVMMCProgram finds one by the name service
// of the segment. Who may connect is the export's policy. A ring is written to by its client
// alone, and what lies in it is checked for all that: a client that breaks the rules, or is
// silent in the middle of a call, loses its connection. The end of a process ends the calls
// of the other; the next call makes another connection.
//
// # Other transports
//
// Any other transport at a server receives messages, has a Session answer each and sends what
// that returns; Server.Start ties its goroutines to the server's life. A transport at a client
// has the methods of Transport. Neither knows programs, authentication or XDR, so another
// transport changes nothing above it. Direct is the smallest.
//
// # Bounds
//
// Lengths are believed only so far as the octets have arrived. ServerConfig bounds the
// connections, the octets of a message, the time that one may take, the calls that are
// carried out at once and the tables of duplicates and shorthands. What exceeds a bound is
// dropped or refused, and counted (Snapshot).
//
// # What there is of RFC 5531
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
// Package rpcbind has RFC 1833: how servers tell where they listen, and clients find them.
// RPCSEC_GSS is not there.
package vrpc
