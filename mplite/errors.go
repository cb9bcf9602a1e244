package mplite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport"
)

// Error classes for errors.Is. The errors of this package wrap these.
var (
	// ErrRankFailed is the class of every RankError.
	ErrRankFailed = job.ErrRankFailed
	// ErrTruncate is the class of every TruncateError.
	ErrTruncate = errors.New("message is longer than the receive buffer")
	// ErrRank means that a rank does not exist in the communicator.
	ErrRank = errors.New("no such rank")
	// ErrTag means that a tag is negative, and so reserved.
	ErrTag = errors.New("invalid tag")
	// ErrComm means that a call is not allowed on this communicator (MPI_ERR_COMM).
	ErrComm = errors.New("wrong communicator")
	// ErrArgument means that another argument is invalid.
	ErrArgument = errclass.New(transport.ErrArgument, "invalid argument")
	// ErrMismatch is the class of every MismatchError.
	ErrMismatch = errors.New("collective calls do not match")
	// ErrType means that sender and receiver use different types of elements, or that a type cannot
	// be an element.
	ErrType = errors.New("wrong type of elements")
	// ErrCanceled means that the sender withdrew its message during the transfer.
	ErrCanceled = errors.New("sender gave up")
	// ErrRequest means that a request has already been waited for or freed, or that it cannot be
	// started.
	ErrRequest = errors.New("request is not in use")
	// ErrInStatus is the class of every RequestsError.
	ErrInStatus = errors.New("requests failed")
	// ErrClosed is the class of ErrFinalized.
	ErrClosed = errclass.New(transport.ErrClosed, "communicator is closed")
	// ErrFinalized is returned by every call after Finalize or Free. It also ends the calls of
	// other goroutines that wait when their rank finalizes.
	ErrFinalized = fmt.Errorf("%w: it has been freed, or its job finalized", ErrClosed)
	// ErrAborted is the class of every AbortError.
	ErrAborted = errors.New("job was aborted")
	// ErrInit is wrapped by the error of Init if not all ranks join the job.
	ErrInit = job.ErrInit
)

// RankError is the error of an operation that ended because a rank died: its process ended without
// Finalize, it stopped answering, its connection broke, or it sent a malformed message. From Init,
// it may also mean a rank that never joined. Its Rank is the rank in the job's first communicator.
type RankError = job.RankError

// DuplicateError means that two processes claim one rank of a job: the job was started twice, or
// two jobs of the same name run on the segment. All ranks that have not completed Init fail with
// it.
type DuplicateError = job.DuplicateError

// TruncateError means that a message was longer than the buffer of its receive. The buffer holds
// the message's first Room bytes. Later messages are not affected.
type TruncateError struct {
	Source, Tag int // of the message
	Size, Room  int // bytes of the message and of the buffer
}

func (e *TruncateError) Error() string {
	return fmt.Sprintf("mplite: message of %d bytes from rank %d, tag %d, does not fit the receive buffer of %d bytes",
		e.Size, e.Source, e.Tag, e.Room)
}

// Unwrap returns ErrTruncate.
func (e *TruncateError) Unwrap() error { return ErrTruncate }

// RequestsError is returned by a call on several requests, such as Waitall, if at least one request
// failed (MPI_ERR_IN_STATUS).
type RequestsError struct {
	// Errs has the error of each request by its index, nil for those that succeeded. If a context
	// ended a Waitall, it has the context's error for requests that are not complete.
	Errs []error
}

func (e *RequestsError) Error() string {
	var b strings.Builder
	n := 0
	for i, err := range e.Errs {
		if err != nil {
			n++
			fmt.Fprintf(&b, "; request %d: %v", i, err)
		}
	}
	return fmt.Sprintf("mplite: %d of %d %v%s", n, len(e.Errs), ErrInStatus, b.String())
}

// Unwrap returns ErrInStatus and the errors of the requests.
func (e *RequestsError) Unwrap() []error {
	all := []error{ErrInStatus}
	for _, err := range e.Errs {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// with returns e with the error of request i added. If e is nil it creates one for n requests.
func (e *RequestsError) with(n, i int, err error) *RequestsError {
	if e == nil {
		e = &RequestsError{Errs: make([]error, n)}
	}
	e.Errs[i] = err
	return e
}

// orNil returns e as an error, or nil if no request has failed.
func (e *RequestsError) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

// MismatchError means that ranks of a communicator made different collective calls under the same
// number: another function, root, operation, length or type of elements. Every rank of the
// communicator gets it, from this call or, if the rank has already returned, from its next
// collective. All later collectives on the communicator return it, too, so the communicator cannot
// be used for collectives any more.
//
// If one rank passes invalid arguments, the other ranks get a MismatchError, too, but only from
// this call and only if they have not returned yet.
type MismatchError struct {
	Call   int       // number of the call on the communicator; the first is 1
	Ranks  [2]int    // in the communicator: the rank that detected it, and the other rank; None if there is no other
	Calls  [2]string // their calls
	Reason string    // the difference, if the calls do not show it

	turn  int32 // turn, ranks and sigs are Call, Ranks and Calls as sent to other ranks
	ranks [2]int32
	sigs  [2]callSig
	only  bool // ends this call alone
	said  bool // a call has returned this error to the program of this rank
}

func (e *MismatchError) Error() string {
	if e.ranks[1] == noRank {
		return fmt.Sprintf("mplite: call %d of a collective on the communicator: rank %d called %s with invalid arguments: %s",
			e.Call, e.Ranks[0], e.Calls[0], e.Reason)
	}
	text := fmt.Sprintf("mplite: call %d of a collective on the communicator: rank %d called %s, rank %d called %s",
		e.Call, e.Ranks[0], e.Calls[0], e.Ranks[1], e.Calls[1])
	if e.Reason != "" {
		text += ", and " + e.Reason
	}
	return text + "; collectives on it have ended: all ranks must call the same collectives in the same order, with matching arguments"
}

// Unwrap returns ErrMismatch and ErrArgument.
func (e *MismatchError) Unwrap() []error { return []error{ErrMismatch, ErrArgument} }

// AbortError means that a rank called Abort.
type AbortError struct {
	Rank int // in the job's first communicator
	Code int
}

func (e *AbortError) Error() string {
	return fmt.Sprintf("mplite: rank %d aborted the job with code %d", e.Rank, e.Code)
}

// Unwrap returns ErrAborted.
func (e *AbortError) Unwrap() error { return ErrAborted }

// checkContext returns an error for a nil context.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return nil
}

// errNilContext is a variable, because the path of a message must not allocate.
var errNilContext = fmt.Errorf("mplite: %w: the context is nil: pass context.Background() to wait without a limit", ErrArgument)

// interrupted returns the error of a wait that err has ended early. If an error has ended all work
// of this rank, it returns that error unchanged.
func (w *world) interrupted(what string, err error) error {
	if err == w.fatal {
		return err
	}
	return fmt.Errorf("mplite: %s: %w", what, err)
}

// interrupted returns the error of a wait for r that err has ended early. It describes r.
func (r *request) interrupted(err error) error { return r.w.interrupted(r.String(), err) }

// String describes r for error messages: the operation, the rank in its communicator, and the call
// of a collective that it belongs to.
func (r *request) String() string {
	if r.state == collRunning {
		for _, part := range r.sched.parts {
			if part.state != stateDone {
				return part.String()
			}
		}
		return r.sched.x.mine().String()
	}
	o := r.describe()
	if o.Rank >= 0 {
		o.Rank = int(r.c.index[o.Rank])
	}
	text := "send to rank " + wild(o.Rank) + ", tag " + wild(o.Tag)
	if r.state == recvMeet || r.state == recvPosted || r.state.matched() {
		text = "receive " + from(o.Rank, o.Tag)
	}
	if r.coll { // the tag is the number of the call
		text, _, _ = strings.Cut(text, ",")
		text = fmt.Sprintf("%v, call %d of a collective on the communicator: %s", callSig{r.call, r.typ.sig}, r.env.tag, text)
	}
	return text
}

// from describes the source and tag of a receive.
func from(src, tag int) string {
	return "from rank " + wild(src) + ", tag " + wild(tag)
}

// opError returns an error of the package: operation, class, and cause.
func opError(op string, class error, format string, args ...any) error {
	return fmt.Errorf("mplite: %s: %w: %s", op, class, fmt.Sprintf(format, args...))
}
