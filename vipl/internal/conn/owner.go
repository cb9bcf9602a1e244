package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Owner is the VI of a connection. It receives reports for its program, and drives the handshake.
// For a frame without errors the connection calls only Notify, and only if handlers wait.
type Owner interface {
	// Raise reports an event that no call returns; d may be nil.
	Raise(what Fault, d *Descriptor, op code.Status, err error)
	// Lost reports that the connection has entered the Error state, before its queues are flushed,
	// and returns the reason as an error.
	Lost(cause error, detail string) error
	// Ended reports that the queues have been flushed.
	Ended(cause error)
	// Notify makes a handler take the oldest completed descriptor of the receive or the send queue.
	Notify(recv bool)
	// Due returns when to call Step during Connect Pending.
	Due() int64
	Step()
}

// Fault is an event that Owner.Raise reports.
type Fault uint8

// The faults.
const (
	FaultNoReceive      Fault = iota // a message arrived and no receive was posted
	FaultWriteForbidden              // the peer's RDMA write to forbidden memory
	FaultWriteDamaged                // the peer's RDMA write arrived damaged; unreliable level only
	FaultWriteAborted                // the peer's RDMA write arrived in part; unreliable level only
	FaultReadForbidden               // the peer's RDMA read from forbidden memory
	FaultAltered                     // a descriptor was altered while it was posted
	FaultUnderWay                    // the connection ended during an RDMA operation of this side
)

// Hooks are rare calls from connections to their NIC. The engine's lock is held.
type Hooks struct {
	LinkError func(err error) // of Send
	Trouble   func() error    // checks the interface, which may end connections, and returns the link's error
	Sweep     func()          // makes each connection check its peer
	MTU       func(to ethertype.MAC) int
	Limits    func(to ethertype.MAC) *reliability.Config
	Lives     func(peer ethertype.Addr) bool // reports whether a silent peer is known to be alive
}
