package vipl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync/atomic"
)

// ErrorCode is the code of an asynchronous error (VIP_ERROR_CODE). String returns the code as it
// appears in logs and metrics.
type ErrorCode uint8

// The codes, in VIPL's order (VIPL reference, section 7).
const (
	CodePostDesc      ErrorCode = iota // a descriptor was refused when it was posted (VIP_ERROR_POST_DESC)
	CodeConnLost                       // a connection ended and the VI is in the Error state (VIP_ERROR_CONN_LOST)
	CodeRecvqEmpty                     // a message arrived and no receive was posted (VIP_ERROR_RECVQ_EMPTY)
	CodeVIOverrun                      // a work queue or a completion queue overflowed (VIP_ERROR_VI_OVERRUN)
	CodeRDMAWProt                      // a peer's RDMA write to memory without permission (VIP_ERROR_RDMAW_PROT)
	CodeRDMAWData                      // a peer's RDMA write arrived damaged; unreliable level only (VIP_ERROR_RDMAW_DATA)
	CodeRDMAWAbort                     // a peer's RDMA write arrived in part; unreliable level only (VIP_ERROR_RDMAW_ABORT)
	CodeRDMARProt                      // a peer's RDMA read from memory without permission (VIP_ERROR_RDMAR_PROT)
	CodeCompProt                       // a descriptor was changed while it was posted, detected at its completion (VIP_ERROR_COMP_PROT)
	CodeRDMATransport                  // a connection ended during an RDMA operation of this side (VIP_ERROR_RDMA_TRANSPORT)
	CodeCatastrophic                   // the link was closed or its MAC changed: the NIC is unusable (VIP_ERROR_CATASTROPHIC)
	codeEnd
)

var codeNames = [codeEnd]string{
	"post_desc", "conn_lost", "recvq_empty", "vi_overrun", "rdmaw_prot", "rdmaw_data", "rdmaw_abort",
	"rdmar_prot", "comp_prot", "rdma_transport", "catastrophic",
}

// String returns the code as it appears in logs and metrics.
func (c ErrorCode) String() string {
	if c < codeEnd {
		return codeNames[c]
	}
	return "invalid"
}

// ErrorCounts counts asynchronous errors, indexed by ErrorCode. Its JSON is an object with a member
// for each code that has occurred.
type ErrorCounts [codeEnd]uint64

// MarshalJSON returns an object with a member for each code that has occurred.
func (c ErrorCounts) MarshalJSON() ([]byte, error) {
	by := map[string]uint64{}
	for code, n := range c {
		if n > 0 {
			by[ErrorCode(code).String()] = n
		}
	}
	return json.Marshal(by)
}

// UnmarshalJSON reads what MarshalJSON writes. Codes that it does not know are left out.
func (c *ErrorCounts) UnmarshalJSON(text []byte) error {
	by := map[string]uint64{}
	err := json.Unmarshal(text, &by)
	for code := range c {
		c[code] = by[ErrorCode(code).String()]
	}
	return err
}

// ResourceCode is the kind of object that an asynchronous error concerns (VIP_RESOURCE_CODE).
type ResourceCode uint8

// The resources, in VIPL's order.
const (
	ResourceNIC ResourceCode = iota
	ResourceVI
	ResourceCQ
	ResourceDescriptor
	resourceEnd
)

var resourceNames = [resourceEnd]string{"NIC", "VI", "CQ", "descriptor"}

// String returns the resource's name.
func (r ResourceCode) String() string {
	if r < resourceEnd {
		return resourceNames[r]
	}
	return "invalid"
}

// AsyncError is an error that no call returns (VIP_ERROR_DESCRIPTOR): a peer caused it, or the call
// that caused it has already returned. Fields of objects that the error does not concern are nil.
type AsyncError struct {
	NIC        *NIC
	VI         *VI
	CQ         *CQ
	Descriptor *Descriptor // its fields may be read only if Resource is ResourceDescriptor; otherwise it may still be posted
	Op         Status      // the operation, one of the StatusOp values
	Resource   ResourceCode
	Code       ErrorCode
	Err        error // what happened, in words; wraps the package's sentinels
}

// Error returns the code, the resource and the cause.
func (e AsyncError) Error() string {
	where := ""
	if e.VI != nil {
		where = " " + e.VI.conn.Local().String()
	}
	return fmt.Sprintf("vipl: asynchronous error %v on %v%s: %v", e.Code, e.Resource, where, e.Err)
}

// Unwrap returns the cause.
func (e AsyncError) Unwrap() error { return e.Err }

// errorsMax is the maximum number of asynchronous errors that wait for a blocked handler. Further
// errors are counted in NICStats.ErrorsLost.
const errorsMax = 1024

// Causes that are reported only asynchronously.
var (
	errCQOverrun = fmt.Errorf("%w: the completion queue is full and an entry is lost; its descriptor stays on the work queue", ErrResource)
	errDamaged   = errors.New("vipl: an RDMA write arrived damaged and was dropped")
)

// errorState holds a NIC's asynchronous errors.
type errorState struct {
	handler func(AsyncError)
	owed    atomic.Int32 // calls of the handler
	counts  ErrorCounts
	lost    uint64 // for which the handler was too slow
}

// SetErrorHandler installs the handler of asynchronous errors (VipErrorCallback). Nil restores the
// default handler, which logs the first error of each code and then each time their number has
// doubled. VI.SendNotify documents how handlers run. Errors before the call are not reported again;
// NICStats.Errors counts all of them.
func (n *NIC) SetErrorHandler(f func(e AsyncError)) {
	n.eng.Lock()
	defer n.eng.Unlock()
	n.errs.handler = f
}

// raise reports an asynchronous error. v and d may be nil, and op may be 0; raise derives the
// resource from them and from the code. The caller must hold the engine's lock.
func (n *NIC) raise(why ErrorCode, v *VI, d *Descriptor, op Status, err error) {
	e := AsyncError{NIC: n, VI: v, Descriptor: d, Op: op & StatusOpMask, Code: why, Err: err}
	switch {
	case d != nil && (why == CodePostDesc || why == CodeCompProt):
		e.Resource = ResourceDescriptor
	case v != nil:
		e.Resource = ResourceVI
	}
	n.tell(&e)
}

// raiseCQ reports that q has lost an entry.
func (n *NIC) raiseCQ(q *CQ, v *VI) {
	n.tell(&AsyncError{NIC: n, VI: v, CQ: q, Resource: ResourceCQ, Code: CodeVIOverrun, Err: errCQOverrun})
}

func (n *NIC) tell(e *AsyncError) {
	n.errs.counts[e.Code]++
	switch {
	case n.errs.handler == nil:
		n.logError(e)
	case n.errs.owed.Load() >= errorsMax:
		n.errs.lost++
	case !n.m.Closed:
		n.errs.owed.Add(1)
		n.calls.Owe(call{fail: n.errs.handler, async: *e})
	}
}

// logError is the default handler. A peer can cause some of these errors at will, so they must not
// fill the log.
func (n *NIC) logError(e *AsyncError) {
	count := n.errs.counts[e.Code]
	if bits.OnesCount64(count) != 1 {
		return
	}
	level := slog.LevelWarn
	switch {
	case e.Code == CodeCatastrophic:
		level = slog.LevelError
	case e.Code == CodePostDesc, e.Code == CodeVIOverrun && e.CQ == nil, e.Code == CodeConnLost, e.Code == CodeRDMATransport:
		level = slog.LevelDebug // calls on the VI return it
	}
	args := []any{"code", e.Code, "resource", e.Resource, "count", count, "err", e.Err}
	if e.VI != nil {
		args = append(args, "local", e.VI.conn.Local(), "remote", e.VI.conn.Remote)
	}
	n.log.Log(context.Background(), level, "asynchronous error", args...)
}
