// Package seam holds what package vipl offers to Bobnet's other packages, but not to users.
package seam

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/internal/seam/hook"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
)

// EngineOf returns the engine of a NIC, for packages whose goroutines wait at their own gates. The
// engine's lock is the NIC's lock. Hold it only briefly, and do not call package vipl while you
// hold it.
func EngineOf(nic *vipl.NIC) *progress.Engine { return hook.EngineOf(nic) }

// Link returns the link that the NIC drives, for its Info and Stats.
func Link(nic *vipl.NIC) transport.Link { return hook.LinkOf(nic) }

// PostLate is VI.PostSend, but defers the send to the engine's next turn: the next poll, wait or
// flush sends it, or the NIC's own goroutine. It returns at once, however long the message is.
// Later descriptors are sent with it.
func PostLate(vi *vipl.VI, d *vipl.Descriptor) error { return hook.PostLate(vi, d) }

// PostMore is VI.PostSend for a caller that is about to post another descriptor, or to poll or
// wait. While frames are in flight, a short RDMA write on a reliable VI may then wait for other
// operations that share its frame, as sends and RDMA reads always may: until the frame is full, an
// acknowledgement arrives, or the program polls.
func PostMore(vi *vipl.VI, d *vipl.Descriptor) error { return hook.PostMore(vi, d) }

// Key returns the source of keys that the environment selects, or nil if it selects none.
func Key() (seal.Source, error) { return hook.Key() }

// Faults returns the faults that vipl.EnvFault requests, or the zero Options if it is not set.
func Faults() (fault.Options, error) { return hook.Faults() }

// Timeout returns the value of vipl.EnvTimeout, or 0 if it is not set.
func Timeout() (time.Duration, error) { return hook.Timeout() }

// AnnounceName broadcasts the address of a name that nic advertises.
func AnnounceName(nic *vipl.NIC, name string) { hook.Announce(nic, name) }

// AwaitName is NIC.Lookup for a name that its owner announces. It returns when the owner announces
// the name or answers a query. It sends the first query only after about the time quiet.
func AwaitName(ctx context.Context, nic *vipl.NIC, name string, quiet time.Duration) (ethertype.Addr, error) {
	return hook.Await(ctx, nic, name, quiet)
}
