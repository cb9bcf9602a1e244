// Package hook holds the functions by which package internal/seam reaches what package vipl does not
// export. Package vipl sets them when it is initialized. It cannot be imported here, so its types
// are any, or type parameters.
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

	// Announce broadcasts where a name of the NIC is. Await looks up such a name: it sends a query only after about quiet.
	Announce func(nic any, name string)
	Await    func(ctx context.Context, nic any, name string, quiet time.Duration) (ethertype.Addr, error)

	// QueueOf returns the Queue of a *vipl.CQ.
	QueueOf func(cq any) any
)

// Completion is an entry of a completion queue together with the descriptor that it stands for.
// Err is vipl.ErrDescriptor if the descriptor completed in error. The entry of a listener that is
// bound to the queue has a Request and nothing else.
type Completion[VI, Descriptor, Request any] struct {
	VI         *VI
	Recv       bool // of the receive queue
	Descriptor *Descriptor
	Err        error
	Request    *Request
}

// Queue is what a completion queue does for seam.Queue.
type Queue[C any] interface {
	// Reap takes completions without polling. Seen is for WaitSince.
	Reap(out []C) (n int, seen uint32)
	// ReapDone is Reap, but polls the NIC once if there is nothing; then it returns ErrNotDone.
	ReapDone(out []C) (n int, err error)
	// ReapWait is ReapDone, but blocks until there is something.
	ReapWait(ctx context.Context, out []C) (n int, err error)
	WaitSince(ctx context.Context, d time.Duration, seen uint32) error
	Wake()
	Attend(f func()) error
}
