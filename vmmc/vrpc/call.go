package vrpc

import (
	"context"
	"net/netip"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Peer is where a call came from.
type Peer struct {
	Netid string         // "tcp", "udp", "tcp6", "udp6", "local", "vmmc"
	Addr  netip.AddrPort // of the Internet transports
	Name  string         // of the others
	// UID is the user that the kernel names for the other end of a local connection, and
	// Proven says that it does.
	UID    uint32
	Proven bool
}

func (p *Peer) String() string {
	if p.Addr.IsValid() {
		return p.Netid + " " + p.Addr.String()
	}
	return p.Netid + " " + p.Name
}

// host is what all connections of a peer have in common.
type host struct {
	netid string
	addr  netip.Addr // or name
	name  string
}

func (p *Peer) host() host {
	if p.Addr.IsValid() {
		return host{addr: p.Addr.Addr()} // whether by TCP or UDP
	}
	return host{netid: p.Netid, name: p.Name}
}

// Call is a call that a procedure carries out. It and what its methods return is valid
// until the procedure returns, and belongs to the procedure's goroutine.
type Call struct {
	header  callHeader
	session *Session
	sys     *SysCred // of AUTH_SYS and AUTH_SHORT
	ownSys  SysCred  // the memory for it
	verf    OpaqueAuth
	dec     xdr.Decoder
	enc     xdr.Encoder
	onSent  func()
}

// XID returns the transaction id, with which the client repeats the call, if it does.
func (c *Call) XID() uint32 { return c.header.xid }

// Program returns the number of the program that is called.
func (c *Call) Program() uint32 { return c.header.prog }

// Version returns the version of the program.
func (c *Call) Version() uint32 { return c.header.vers }

// Procedure returns the number of the procedure.
func (c *Call) Procedure() uint32 { return c.header.proc }

// Context ends when the server closes or, where the server gets to know it, the client's
// connection breaks. A procedure must return soon afterwards.
func (c *Call) Context() context.Context { return c.session.ctx }

// Peer returns where the call came from.
func (c *Call) Peer() *Peer { return &c.session.Peer }

// Credential returns what the caller sent to say who it is.
func (c *Call) Credential() (cred, verf OpaqueAuth) { return c.header.cred, c.header.verf }

// Sys returns what an AUTH_SYS credential says, or the one that an AUTH_SHORT stands for;
// nil for other flavors. It is only read.
func (c *Call) Sys() *SysCred { return c.sys }

// Decode decodes the arguments into v. An error, to be returned by the procedure, answers
// the call with GarbageArgs; bytes after the arguments are one.
func (c *Call) Decode(v xdr.Unmarshaler) error {
	v.UnmarshalXDR(&c.dec)
	if err := c.dec.End(); err != nil {
		return &argsError{err}
	}
	return nil
}

// Arguments returns the encoded arguments that have not been decoded. They lie in the message.
func (c *Call) Arguments() []byte { return c.dec.Rest() }

// Encode encodes the results. An error, which the procedure returns, is that the results
// violate their declaration or do not fit into a message.
func (c *Call) Encode(v xdr.Marshaler) error {
	v.MarshalXDR(&c.enc)
	return c.enc.Err()
}

// OnSent has f run, once, when the memory of the results is not needed any more: the reply has
// been copied or sent, or never will be. It runs on the goroutine that carries out the calls of
// the connection, which waits for that, and must return soon.
func (c *Call) OnSent(f func()) { c.onSent = f }
