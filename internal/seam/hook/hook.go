// Package hook holds the functions through which package internal/seam calls unexported functions
// of package vipl. Package vipl sets them when it is initialized. This package cannot import vipl,
// so it uses any, or type parameters, for vipl's types.
package hook

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/seal"
)

// Functions of package internal/seam, which documents them.
var (
	EngineOf func(nic any) *progress.Engine
	LinkOf   func(nic any) transport.Link
	PostLate func(vi, descriptor any) error
	PostMore func(vi, descriptor any) error
	Key      func() (seal.Source, error)
	Faults   func() (fault.Options, error)
	Timeout  func() (time.Duration, error)

	// Announce broadcasts the address of a name of the NIC. Await looks up such a name, and sends
	// the first query only after about the time quiet.
	Announce func(nic any, name string)
	Await    func(ctx context.Context, nic any, name string, quiet time.Duration) (ethertype.Addr, error)

	// QueueOf returns the Queue of a *vipl.CQ.
	QueueOf func(cq any) any
)

// Completion is an entry of a completion queue, with its descriptor. Err is vipl.ErrDescriptor if
// the descriptor completed in error. The entry of a listener that is bound to the queue has only a
// Request.
type Completion[VI, Descriptor, Request any] struct {
	VI         *VI
	Recv       bool // the entry is of the receive queue
	Descriptor *Descriptor
	Err        error
	Request    *Request
}

// Queue contains the methods of a completion queue that seam.Queue uses.
type Queue[C any] interface {
	// Reap takes completions without polling. Seen is for WaitSince.
	Reap(out []C) (n int, seen uint32)
	// ReapDone is Reap, but polls the NIC once if there is no completion. If there is still none,
	// it returns ErrNotDone.
	ReapDone(out []C) (n int, err error)
	// ReapWait is ReapDone, but blocks until there is a completion.
	ReapWait(ctx context.Context, out []C) (n int, err error)
	WaitSince(ctx context.Context, d time.Duration, seen uint32) error
	Wake()
	Attend(f func()) error
	LookElsewhere(look func(sleep bool) bool) bool
}
