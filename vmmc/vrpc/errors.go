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
	// ErrTooLarge: a message is longer than the transport or MaxMessage allows.
	ErrTooLarge = errors.New("vrpc: message too large")
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
