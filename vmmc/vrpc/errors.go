package vrpc

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// What else can become of a call, for errors.Is.
var (
	// ErrTimeout: no reply came in the time of the call. The procedure may have run.
	ErrTimeout = errclass.New(transport.ErrTimeout, "vrpc: no reply in time")
	// ErrClosed: the client or server was closed.
	ErrClosed = errclass.New(transport.ErrClosed, "vrpc: closed")
	// ErrTransport: the connection could not be made, or broke. A *TransportError says
	// whether the procedure may have run.
	ErrTransport = errors.New("vrpc: transport failed")
	// errTooLarge: a message is longer than the transport or MaxMessage allows.
	errTooLarge = errors.New("vrpc: message too large")
	// ErrBadReply: the reply is no RPC message, or the results in it are not the declared type.
	ErrBadReply = errors.New("vrpc: malformed reply")
	// ErrNoReply: returned by a procedure, the server sends no reply, as batched calls want it.
	ErrNoReply = errors.New("vrpc: no reply to this call")
)

// RPCError is a reply that says that the server did not carry out the call.
type RPCError struct {
	Program, Version, Procedure uint32 // what was called
	// Stat is why: an AcceptStat, RPCMismatch or an AuthStat.
	Stat error
	// Low and High are the versions that the server has, of the program for ProgMismatch and
	// of the RPC protocol for RPCMismatch.
	Low, High uint32
}

// Unwrap returns Stat, so that errors.Is finds it.
func (e *RPCError) Unwrap() error { return e.Stat }

func (e *RPCError) Error() string {
	text := fmt.Sprintf("call of program %d version %d procedure %d: %v", e.Program, e.Version, e.Procedure, e.Stat)
	if e.Stat == ProgMismatch || e.Stat == RPCMismatch {
		text += fmt.Sprintf("; it has versions %d to %d", e.Low, e.High)
	}
	return text
}

// TransportError is why a call could not be brought to the server, or its reply back.
type TransportError struct {
	Addr string // the server
	// Sent says that some of the call was handed to the transport: the procedure may have
	// run. If it is false the call can be repeated without harm.
	Sent bool
	Err  error
}

// Unwrap returns ErrTransport and the cause.
func (e *TransportError) Unwrap() []error { return []error{ErrTransport, e.Err} }

func (e *TransportError) Error() string {
	after := "nothing was sent, the call can be repeated"
	if e.Sent {
		after = "the procedure may have run"
	}
	return fmt.Sprintf("vrpc: server %s: %v: %s", e.Addr, e.Err, after)
}

// argsError is an error in the arguments, which the server answers with GarbageArgs.
type argsError struct{ err error }

func (e *argsError) Error() string   { return "vrpc: arguments: " + e.err.Error() }
func (e *argsError) Unwrap() []error { return []error{GarbageArgs, e.err} }

// AcceptStat says what became of a call that was accepted (RFC 5531 section 9, accept_stat).
// Its values but Success are errors: a procedure returns one to answer with it, and
// errors.Is finds it in what a client's call returns.
type AcceptStat uint32

// The values of accept_stat.
const (
	Success      AcceptStat = 0 // the procedure ran
	ProgUnavail  AcceptStat = 1 // the server does not have the program
	ProgMismatch AcceptStat = 2 // the server has other versions of the program
	ProcUnavail  AcceptStat = 3 // the program does not have the procedure
	GarbageArgs  AcceptStat = 4 // the procedure could not decode its arguments
	SystemErr    AcceptStat = 5 // the procedure failed, for example for want of memory
)

func (s AcceptStat) Error() string { return "vrpc: " + s.String() }

func (s AcceptStat) String() string {
	switch s {
	case Success:
		return "success"
	case ProgUnavail:
		return "the server does not have the program"
	case ProgMismatch:
		return "the server does not have this version of the program"
	case ProcUnavail:
		return "the program does not have the procedure"
	case GarbageArgs:
		return "the server could not decode the arguments"
	case SystemErr:
		return "the procedure failed at the server"
	}
	return fmt.Sprintf("accept_stat %d", uint32(s))
}

// RejectStat says why a call was denied (RFC 5531 section 9, reject_stat). Its values are
// errors, as those of AcceptStat are. AuthError stands for any AuthStat.
type RejectStat uint32

// The values of reject_stat.
const (
	RPCMismatch RejectStat = 0 // the server speaks another version of the RPC protocol
	AuthError   RejectStat = 1 // the server does not believe the caller, or wants more proof
)

func (s RejectStat) Error() string {
	switch s {
	case RPCMismatch:
		return "vrpc: the server does not speak version 2 of the RPC protocol"
	case AuthError:
		return "vrpc: the server refused the caller's authentication"
	}
	return fmt.Sprintf("vrpc: reject_stat %d", uint32(s))
}

// AuthStat says why authentication failed (RFC 5531 section 9, auth_stat). Its values are
// errors, as those of AcceptStat are; each of them is AuthError as well.
type AuthStat uint32

// The values of auth_stat but for those of Kerberos and RPCSEC_GSS (8 to 14). Where the RFC has the failure at the client, the error comes
// from the client's own look at the reply.
const (
	AuthOK           AuthStat = 0
	AuthBadCred      AuthStat = 1 // the credential is malformed
	AuthRejectedCred AuthStat = 2 // the client must begin a new session
	AuthBadVerf      AuthStat = 3 // the verifier is malformed
	AuthRejectedVerf AuthStat = 4 // the verifier has expired or was replayed
	AuthTooWeak      AuthStat = 5 // refused for security: a stronger flavor is wanted
	AuthInvalidResp  AuthStat = 6 // the reply's verifier is wrong (found by the client)
	AuthFailed       AuthStat = 7 // for a reason that is not known (found by the client)
)

var authTexts = [...]string{
	AuthOK:           "success",
	AuthBadCred:      "the credential is malformed",
	AuthRejectedCred: "the credential is rejected: begin a new session",
	AuthBadVerf:      "the verifier is malformed",
	AuthRejectedVerf: "the verifier has expired or was replayed",
	AuthTooWeak:      "the credential is too weak",
	AuthInvalidResp:  "the verifier of the reply is wrong",
	AuthFailed:       "failed for an unknown reason",
	8:                "Kerberos error",
	9:                "the time of the credential has expired",
	10:               "a problem with the ticket file",
	11:               "the authenticator cannot be decoded",
	12:               "wrong network address in the ticket",
	13:               "no credentials for the user",
	14:               "a problem with the security context",
}

func (s AuthStat) Error() string { return "vrpc: authentication: " + s.String() }

func (s AuthStat) String() string {
	if int(s) < len(authTexts) {
		return authTexts[s]
	}
	return fmt.Sprintf("auth_stat %d", uint32(s))
}

// Is reports that every AuthStat is AuthError, too.
func (s AuthStat) Is(target error) bool { return target == AuthError }
