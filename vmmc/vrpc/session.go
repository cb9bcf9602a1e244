package vrpc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Session answers calls, one at a time. A transport has one for each connection, or for each
// goroutine that receives. It reuses its memory for each call.
type Session struct {
	// Peer is the origin of the next call. The transport sets it.
	Peer Peer

	server   *Server
	ctx      context.Context
	maxReply int
	refers   bool // replies may refer to results
	call     Call
}

// NewSession returns a Session for a transport whose replies have up to maxReply bytes. ctx is the
// context of the procedures.
func (s *Server) NewSession(ctx context.Context, peer Peer, maxReply int) *Session {
	ss := &Session{Peer: peer, server: s, ctx: ctx, maxReply: maxReply}
	ss.call.session = ss
	return ss
}

// errNoCall: a message is not a call, so there is no one to answer.
var errNoCall = errors.New("vrpc: not a call message")

// Answer runs the call in msg and appends the reply to reply, whose capacity it uses. If it appends
// nothing, no reply must be sent. msg must not change until Answer returns. It returns an error if
// msg is not a call. A stream is then no longer readable.
func (ss *Session) Answer(msg, reply []byte) ([]byte, error) {
	defer ss.sent()
	return ss.answer(msg, reply)
}

// referFrom is the minimum length, in bytes, of opaque results that are left in place. For
// shorter results, copying takes less time than gathering in the network.
const referFrom = 8 << 10

// keeps reports whether the call, of so many bytes, and the results must be kept until the reply
// has been sent. Results that the reply refers to may lie in the call.
func (ss *Session) keeps(size int) bool {
	return ss.call.onSent != nil || size >= referFrom && len(ss.call.enc.Refs()) > 0
}

// sent notifies the procedure that its results are no longer needed.
func (ss *Session) sent() {
	if f := ss.call.onSent; f != nil {
		ss.call.onSent = nil
		f()
	}
}

// answer is Answer without Call.OnSent. If the session refers to results, the reply does not
// contain them.
func (ss *Session) answer(msg, reply []byte) ([]byte, error) {
	c, base := &ss.call, len(reply)
	c.sys, c.verf = nil, OpaqueAuth{}
	c.enc.MaxSize, c.enc.ReferFrom = ss.maxReply, 0
	c.enc.Reset(reply)
	c.dec.InPlace = false
	c.dec.Reset(msg)
	switch c.header.decode(&c.dec) {
	case headerNoCall:
		ss.server.stats.NotACall.Add(1)
		return reply, errNoCall
	case headerVersion:
		ss.server.stats.RPCMismatch.Add(1)
		encodeMismatch(&c.enc, c.header.xid)
		return c.enc.Bytes(), nil
	case headerCred:
		return ss.deny(AuthBadCred), nil
	case headerVerf:
		return ss.deny(AuthBadVerf), nil
	}
	if stat := ss.authenticate(c); stat != AuthOK {
		return ss.deny(stat), nil
	}
	err := ss.dispatch(c)
	if err == nil {
		return c.enc.Bytes(), nil
	}
	return ss.fail(c.enc.Bytes()[:base], err), nil
}

// authenticate returns whether the server accepts the caller's credential.
func (ss *Session) authenticate(c *Call) AuthStat {
	switch cred := &c.header.cred; cred.Flavor {
	case FlavorNone:
		return AuthOK
	case FlavorSys:
		return ss.authenticateSys(c)
	case FlavorShort:
		if table := ss.server.shorthands; table != nil {
			if s := table.find(ss.Peer.host(), cred.Body); s != nil {
				c.sys = &s.cred
				return AuthOK
			}
		}
	}
	return AuthRejectedCred
}

func (ss *Session) authenticateSys(c *Call) AuthStat {
	body := c.header.cred.Body
	c.dec.Reset(body) // and back to the arguments afterwards
	c.ownSys.UnmarshalXDR(&c.dec)
	err := c.dec.End()
	c.dec.Reset(c.header.args)
	if err != nil {
		return AuthBadCred
	}
	if c.header.verf.Flavor != FlavorNone {
		return AuthBadVerf
	}
	c.sys = &c.ownSys
	if table := ss.server.shorthands; table != nil {
		c.verf = table.hand(ss.Peer.host(), body, c.sys).verf
	}
	return AuthOK
}

// dispatch finds the procedure and runs it. The caller must have encoded the reply's header, as for
// a success.
func (ss *Session) dispatch(c *Call) error {
	prog, err := ss.server.find(c)
	if err != nil {
		return err
	}
	c.dec.InPlace = prog.inPlace
	proc := prog.procedures[c.header.proc]
	switch {
	case proc == nil && c.header.proc != 0:
		err = ProcUnavail
	case prog.authorize != nil && c.header.proc != 0:
		if stat := ss.authorize(prog, c); stat != AuthOK {
			err = stat
		}
	}
	if err == nil {
		encodeAccepted(&c.enc, c.header.xid, &c.verf, Success)
		if ss.refers && prog.resultsInPlace {
			c.enc.ReferFrom = referFrom
		}
		if proc != nil {
			err = ss.run(proc, c)
		}
		if err == nil {
			err = c.enc.Err()
		}
	}
	prog.stats.count(status(err))
	return err
}

// authorize returns the decision of the program's Authorize.
func (ss *Session) authorize(prog *program, c *Call) (stat AuthStat) {
	defer func() {
		if p := recover(); p != nil {
			ss.server.logFailure(c, ss.panicked(p))
			stat = AuthFailed
		}
	}()
	return prog.authorize(c)
}

// run runs a procedure and converts a panic to an error.
func (ss *Session) run(proc *Procedure, c *Call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = ss.panicked(p)
		}
	}()
	if err = proc.Run(c); err == error(Success) {
		err = nil
	}
	return err
}

func (ss *Session) panicked(value any) error {
	ss.server.stats.Panics.Add(1)
	return fmt.Errorf("panic: %v\n%s", value, debug.Stack())
}

// fail encodes the reply to a call that failed.
func (ss *Session) fail(reply []byte, err error) []byte {
	c := &ss.call
	c.enc.MaxSize = 0 // it is short
	c.enc.Reset(reply)
	switch stat := status(err).(type) {
	case nil: // ErrNoReply
		return reply
	case AuthStat:
		return ss.deny(stat)
	case AcceptStat:
		encodeAccepted(&c.enc, c.header.xid, &c.verf, stat)
		if stat == ProgMismatch {
			low, high := ss.server.versions(c.header.prog)
			c.enc.Uint(low)
			c.enc.Uint(high)
		}
		if stat == SystemErr && err != error(SystemErr) {
			ss.server.logFailure(c, err)
		}
	}
	return c.enc.Bytes()
}

func (ss *Session) deny(stat AuthStat) []byte {
	ss.server.stats.countAuth(stat)
	encodeAuthError(&ss.call.enc, ss.call.header.xid, stat)
	return ss.call.enc.Bytes()
}

// status returns the status in the reply to a call whose procedure returned err: Success, another
// AcceptStat, an AuthStat, or nil for no reply. A status that another server returned to the
// procedure does not count.
func status(err error) error {
	if err == nil {
		return Success
	}
	return failure(err)
}

// failure is status for errors. It is separate because its variables are allocated.
func failure(err error) error {
	var rpc *RPCError
	var accept AcceptStat
	var auth AuthStat
	switch {
	case errors.Is(err, ErrNoReply):
		return nil
	case errors.As(err, &rpc):
		return SystemErr
	case errors.As(err, &accept) && accept <= SystemErr:
		return accept
	case errors.As(err, &auth) && auth != AuthOK:
		return auth
	}
	return SystemErr
}

// Peer is the origin of a call.
type Peer struct {
	Netid string         // "tcp", "udp", "tcp6", "udp6", "local", "vmmc"
	Addr  netip.AddrPort // of the Internet transports
	Name  string         // for other transports
	// UID is the user at the other end of a local connection, as reported by the kernel. Proven
	// means that UID is valid.
	UID    uint32
	Proven bool
}

func (p *Peer) String() string {
	if p.Addr.IsValid() {
		return p.Netid + " " + p.Addr.String()
	}
	return p.Netid + " " + p.Name
}

// host identifies a peer over all its connections.
type host struct {
	netid string
	addr  netip.Addr // or name
	name  string
}

func (p *Peer) host() host {
	if p.Addr.IsValid() {
		return host{addr: p.Addr.Addr()} // the same over TCP and UDP
	}
	return host{netid: p.Netid, name: p.Name}
}

// Call is a call that a procedure runs. It and the results of its methods are valid until the
// procedure returns, and belong to the procedure's goroutine.
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

// XID returns the transaction id. Retransmissions of the call have the same one.
func (c *Call) XID() uint32 { return c.header.xid }

// Program returns the number of the called program.
func (c *Call) Program() uint32 { return c.header.prog }

// Version returns the version of the program.
func (c *Call) Version() uint32 { return c.header.vers }

// Procedure returns the number of the procedure.
func (c *Call) Procedure() uint32 { return c.header.proc }

// Context returns the call's context. It ends when the server closes. If the server can detect it,
// it also ends when the client's connection breaks. A procedure must return soon afterwards.
func (c *Call) Context() context.Context { return c.session.ctx }

// Peer returns the origin of the call.
func (c *Call) Peer() *Peer { return &c.session.Peer }

// Credential returns the caller's credential and verifier.
func (c *Call) Credential() (cred, verf OpaqueAuth) { return c.header.cred, c.header.verf }

// Sys returns the contents of an AUTH_SYS credential, or of the one that an AUTH_SHORT stands for,
// or nil for other flavors. It must not be changed.
func (c *Call) Sys() *SysCred { return c.sys }

// Decode decodes the arguments into v. Bytes after the arguments are an error. A procedure that
// returns the error answers the call with GarbageArgs.
func (c *Call) Decode(v xdr.Unmarshaler) error {
	v.UnmarshalXDR(&c.dec)
	if err := c.dec.End(); err != nil {
		return &argsError{err}
	}
	return nil
}

// Arguments returns the encoded arguments that have not been decoded. They lie in the message.
func (c *Call) Arguments() []byte { return c.dec.Rest() }

// Encode encodes the results. It returns an error, which the procedure must return, if the results
// violate their declaration or do not fit into a message.
func (c *Call) Encode(v xdr.Marshaler) error {
	v.MarshalXDR(&c.enc)
	return c.enc.Err()
}

// OnSent registers f to be called once when the memory of the results is no longer needed: the
// reply has been copied or sent, or never will be. f runs on the goroutine that serves the
// connection, and must return soon.
func (c *Call) OnSent(f func()) { c.onSent = f }
