package vrpc

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// Further errors of calls, for errors.Is.
var (
	// ErrTimeout: no reply arrived within the time of the call. The procedure may have run.
	ErrTimeout = errclass.New(transport.ErrTimeout, "vrpc: no reply in time")
	// ErrClosed: the client or server was closed.
	ErrClosed = errclass.New(transport.ErrClosed, "vrpc: closed")
	// ErrTransport: the connection could not be made, or broke. A *TransportError reports whether
	// the procedure may have run.
	ErrTransport = errors.New("vrpc: transport failed")
	// errTooLarge: a message is longer than the transport or MaxMessage allows.
	errTooLarge = errors.New("vrpc: message too large")
	// ErrBadReply: the reply is not an RPC message, or its results do not match their declaration.
	ErrBadReply = errors.New("vrpc: malformed reply")
	// ErrNoReply makes the server send no reply if a procedure returns it, as for batched calls.
	ErrNoReply = errors.New("vrpc: no reply to this call")
)

// RPCError is the error of a call whose reply states that the server did not run the
// procedure.
type RPCError struct {
	Program, Version, Procedure uint32 // of the call
	// Stat is the reason: an AcceptStat, RPCMismatch or an AuthStat.
	Stat error
	// Low and High are the versions that the server supports: of the program for ProgMismatch, and
	// of the RPC protocol for RPCMismatch.
	Low, High uint32
}

// Unwrap returns Stat.
func (e *RPCError) Unwrap() error { return e.Stat }

func (e *RPCError) Error() string {
	text := fmt.Sprintf("call of program %d version %d procedure %d: %v", e.Program, e.Version, e.Procedure, e.Stat)
	if e.Stat == ProgMismatch || e.Stat == RPCMismatch {
		text += fmt.Sprintf("; it has versions %d to %d", e.Low, e.High)
	}
	return text
}

// TransportError is the reason why a call did not reach the server, or its reply did not reach the
// client.
type TransportError struct {
	Addr string // the server
	// Sent means that part of the call was passed to the transport: the procedure may have run. If
	// it is false, the call can safely be repeated.
	Sent bool
	Err  error
}

// Unwrap returns ErrTransport and the cause.
func (e *TransportError) Unwrap() []error { return []error{ErrTransport, e.Err} }

func (e *TransportError) Error() string {
	after := "nothing was sent, so the call can be repeated"
	if e.Sent {
		after = "the procedure may have run"
	}
	return fmt.Sprintf("vrpc: server %s: %v: %s", e.Addr, e.Err, after)
}

// argsError is an error in the arguments. The server answers it with GarbageArgs.
type argsError struct{ err error }

func (e *argsError) Error() string   { return "vrpc: arguments: " + e.err.Error() }
func (e *argsError) Unwrap() []error { return []error{GarbageArgs, e.err} }

// AcceptStat is the outcome of a call that was accepted (RFC 5531 section 9, accept_stat). All
// values except Success are errors. A procedure returns one to send it as the reply, and errors.Is
// finds it in the error of a client's call.
type AcceptStat uint32

// The values of accept_stat.
const (
	Success      AcceptStat = 0 // the procedure ran
	ProgUnavail  AcceptStat = 1 // the server does not have the program
	ProgMismatch AcceptStat = 2 // the server has other versions of the program
	ProcUnavail  AcceptStat = 3 // the program does not have the procedure
	GarbageArgs  AcceptStat = 4 // the procedure could not decode its arguments
	SystemErr    AcceptStat = 5 // the procedure failed, for example for lack of memory
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

// RejectStat is the reason why a call was denied (RFC 5531 section 9, reject_stat). Its values are
// errors, like those of AcceptStat. AuthError stands for any AuthStat.
type RejectStat uint32

// The values of reject_stat.
const (
	RPCMismatch RejectStat = 0 // the server uses another version of the RPC protocol
	AuthError   RejectStat = 1 // the server does not accept the caller's authentication, or requires a stronger one
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

// AuthStat is the reason why authentication failed (RFC 5531 section 9, auth_stat). Its values are
// errors, like those of AcceptStat. Each of them also matches AuthError.
type AuthStat uint32

// The values of auth_stat, except those of Kerberos and RPCSEC_GSS (8 to 14). If the RFC assigns a failure to the
// client, the client detects it in the reply.
const (
	AuthOK           AuthStat = 0
	AuthBadCred      AuthStat = 1 // the credential is malformed
	AuthRejectedCred AuthStat = 2 // the client must begin a new session
	AuthBadVerf      AuthStat = 3 // the verifier is malformed
	AuthRejectedVerf AuthStat = 4 // the verifier has expired or was replayed
	AuthTooWeak      AuthStat = 5 // refused for security: a stronger flavor is required
	AuthInvalidResp  AuthStat = 6 // the reply's verifier is invalid (detected by the client)
	AuthFailed       AuthStat = 7 // unknown reason (detected by the client)
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

// Is reports that every AuthStat also matches AuthError.
func (s AuthStat) Is(target error) bool { return target == AuthError }
