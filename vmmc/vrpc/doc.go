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
// A transport at a server receives messages, has a Session answer each and sends what it
// returns; Server.Start ties its goroutines to the server's life. A transport at a client
// has the methods of Transport. Neither knows programs, authentication or XDR, so another
// transport changes nothing above it. Direct is the smallest.
package vrpc
