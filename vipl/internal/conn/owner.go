package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Owner is what has a connection. It hears of what its program is to be told, and says
// when its handshake has something to do. Nothing of it is called for a frame that goes
// well, but Notify where handlers wait.
type Owner interface {
	// Raise tells of something that no call returns; d may be nil.
	Raise(what Fault, d *Descriptor, op code.Status, err error)
	// Lost tells that the connection has entered the Error state, before its queues are
	// flushed, and returns why as an error.
	Lost(cause error, detail string) error
	// Ended tells that they have been.
	Ended(cause error)
	// Notify has a handler take the oldest completed descriptor of the receive queue, or
	// the send queue.
	Notify(recv bool)
	// Due is when Step is to be called, while Connect Pending.
	Due() int64
	Step()
}

// Fault is what Owner.Raise tells of.
type Fault uint8

// The faults.
const (
	FaultNoReceive      Fault = iota // a message came and no receive was posted
	FaultWriteForbidden              // the peer's RDMA write to where it may not
	FaultWriteDamaged                // the peer's RDMA write arrived damaged; unreliable level only
	FaultWriteAborted                // the peer's RDMA write arrived in part; unreliable level only
	FaultReadForbidden               // the peer's RDMA read from where it may not
	FaultAltered                     // a descriptor was altered while it was posted
	FaultUnderWay                    // the connection ended with an RDMA operation of this side under way
)

// Hooks are what connections ask of their NIC, seldom. All run with the engine's lock
// held.
type Hooks struct {
	LinkError func(err error) // of Send
	Trouble   func() error    // looks at the interface, which may end connections, and returns what is wrong with the link
	Sweep     func()          // has each connection look after its peer
	MTU       func(to ethertype.MAC) int
	Limits    func(to ethertype.MAC) *reliability.Config
	Lives     func(peer ethertype.Addr) bool // is known to, though it may be silent
}
