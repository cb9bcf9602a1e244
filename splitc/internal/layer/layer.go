// Package layer defines the interface of Split-C's communication layers, and the obligations of
// both sides. The upper side, package splitc, contains the heap's allocation, the global pointers,
// the collectives and all checks of the program's arguments. A layer moves bytes between heaps,
// runs procedures at their owner, and carries control messages.
//
// # Obligations of a layer
//
// An operation names another rank, and a part of that rank's heap by offset and length. The
// requesting rank has checked both. The owner checks them again, because it trusts no other rank:
// whatever arrives, it changes only its heap.
//
// Get, Put and Call start an operation. It counts in Counters.Outstanding until it has its data,
// has changed the other heap, or has its result. A long operation counts as one or several until
// all of it is complete. Store starts an operation without notification of the sender: its bytes
// count in the owner's Counters.Stored after the data are in its heap. A layer may hold back short
// stores, so that they share a message, until its rank polls or waits. Everything is delivered
// exactly once. Operations of one rank have no order, except that control messages of one rank
// arrive in the order of sending.
//
// All of this happens in calls of the layer, on the calling goroutine: counters change, procedures
// run and control messages are delivered only there. A layer whose Get and Put do not involve the
// owner (RDMA or shared memory) may change the heap at any time.
//
// A call without a credit waits for one, and serves the other ranks meanwhile, as Poll does. It
// waits in slices of Watch. Between them it asks Watch.Stall whether to end.
//
// Get, Put, Store, Poll and Wait allocate nothing in steady state.
//
// # Obligations of the upper side
//
// One goroutine at a time calls a layer. Handler's functions do not call the layer. Operations name
// only other ranks, and bytes within the heap. Get and Put never name a rank with Direct memory.
// dst, result, and a src of more than MaxCopied bytes must not be used until Outstanding and
// Sources are 0. At most MaxControls control messages of one rank to another are in flight at a
// time.
package layer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// Limits of what the layers carry, in bytes.
const (
	MaxCopied  = 64   // a src of Put and Store up to this length may be changed after they return
	MaxCall    = 256  // of the arguments, and of the result
	MaxControl = 2048 // of a control message
)

// MaxControls is the most control messages in flight of one rank to another.
const MaxControls = 4

// Layer is one rank's end of a communication layer.
type Layer interface {
	// Heap returns this rank's spread heap, of Config.HeapSize bytes, initially zero. Its address
	// is a multiple of 4096. Every call returns the same slice.
	Heap() []byte
	// Direct returns the heap of another rank if this process may access it directly, and otherwise
	// nil. Get and Put are not called for such a rank; Store, Call and Control are.
	Direct(proc int) []byte
	// Counters returns the counters, which change only in calls of the layer. Every call returns
	// the same pointer.
	Counters() *Counters

	// Get starts to fetch len(dst) bytes at offset off of a rank's heap.
	Get(ctx context.Context, proc int, dst []byte, off uint64) error
	// Put starts to write src at offset off of a rank's heap.
	Put(ctx context.Context, proc int, off uint64, src []byte) error
	// Store starts to write src at offset off of a rank's heap, where the bytes count as stored.
	// For a rank with Direct memory it need not poll: the caller polls from time to time.
	Store(ctx context.Context, proc int, off uint64, src []byte) error
	// Call starts to run procedure fn at a rank. The rank's Handler.Call gets args, and its result
	// is copied to result, which has room for MaxCall bytes.
	Call(ctx context.Context, proc int, fn uint32, args, result []byte) error
	// Control sends msg to a rank's Handler.Control. msg may be changed afterwards.
	Control(ctx context.Context, proc int, msg []byte) error

	// Poll processes received messages, and does not block.
	Poll() error
	// Wait polls until something has arrived or ctx ends, which is not an error. Earlier messages
	// are sent, or will be when there is a credit.
	Wait(ctx context.Context) error
	// Flush returns when the other ranks have received the messages so far, or a short time later,
	// if delivery needs this rank to poll; otherwise it returns at once. It is called before the
	// end of the program.
	Flush(ctx context.Context) error
	// Stats returns the layer's counters.
	Stats() Stats
	// Close waits until the control messages have been delivered, for at most a second, and not at
	// all if the program has failed. Then it releases everything.
	Close()
}

// Gatherer is implemented by layers that can send a message from two places, or benefit from
// knowing that it will be answered.
type Gatherer interface {
	// Gather is Control of msg followed by data, together at most MaxControl bytes. msg may be
	// changed afterwards. data may be sent in place. They must not change until the other rank has
	// answered, with a message that it sends because of this one, or the program has ended.
	Gather(ctx context.Context, proc int, msg, data []byte) error
}

// Counters are the progress of a rank's operations.
type Counters struct {
	// Outstanding counts this rank's incomplete gets, puts and calls.
	Outstanding int
	// Sources counts the stores of this rank whose src is still in use.
	Sources int
	// Stored counts the bytes that other ranks have stored into this rank's heap.
	Stored uint64
}

// Handler is the upper side, which a layer calls.
type Handler interface {
	// Call runs procedure fn for a rank, and returns the length of the result. result has room for
	// MaxCall bytes. args are valid until it returns.
	Call(from int, fn uint32, args, result []byte) int
	// Control processes a control message of a rank, which is valid until it returns.
	Control(from int, msg []byte)
}

// Config configures a layer.
type Config struct {
	Member      *job.Member // of a job of at least two ranks
	NIC         *vipl.NIC
	Card        *lanai.Card // carries active messages instead of NIC; may be nil
	Rank, Procs int
	Generation  int    // number of programs that this rank has started before as the same Member
	HeapSize    int    // bytes, a multiple of 4096
	Heap        []byte // the heap, if another layer has allocated it, which frees it
	Handler     Handler
	Watch       *Watch
	Timeout     time.Duration // bounds the start
	PeerTimeout time.Duration // how long a silent rank counts as alive; 0 means the default
	Logger      *slog.Logger  // never nil
}

// ErrUnequal is wrapped by the error of a start whose ranks differ in something that must be equal.
var ErrUnequal = errors.New("splitc: ranks disagree on configuration")

// Open starts a layer. It returns when this rank can exchange messages with every other one, or an
// error with the rank that is missing.
type Open func(ctx context.Context, cfg Config) (Layer, error)

// Stats are a layer's counters. Counters that do not apply to a layer stay 0.
type Stats struct {
	Requests        uint64        `metric:"bobnet_splitc_layer_requests_total" help:"Requests sent by the layer." text:"requests"`
	Replies         uint64        `metric:"bobnet_splitc_layer_replies_total" help:"Replies sent by the layer." text:"replies"`
	NoOps           uint64        `metric:"bobnet_splitc_layer_no_op_replies_total" help:"Replies that only acknowledge." text:"no-op replies"`
	Acknowledgments uint64        `metric:"bobnet_splitc_layer_acknowledgments_total" help:"Special acknowledgements sent, which return credits." text:"acknowledgements"`
	Retransmissions uint64        `metric:"bobnet_splitc_layer_retransmissions_total" help:"Messages retransmitted by the layer." text:"retransmissions"`
	Duplicates      uint64        `metric:"bobnet_splitc_layer_duplicates_total" help:"Duplicate messages received." text:"duplicates"`
	CreditWaits     uint64        `metric:"bobnet_splitc_layer_credit_stalls_total" help:"Checks for a credit that found none." text:"waits for credits"`
	CreditTime      time.Duration `metric:"bobnet_splitc_layer_credit_seconds_total" help:"Time spent waiting for credits." text:"time of these waits"`
	Reads           uint64        `metric:"bobnet_splitc_layer_rdma_reads_total" help:"RDMA reads of the layer." text:"RDMA reads"`
	Writes          uint64        `metric:"bobnet_splitc_layer_rdma_writes_total" help:"RDMA writes of the layer." text:"RDMA writes"`
	Direct          uint64        `metric:"bobnet_splitc_layer_direct_stores_total" help:"Stores into shared memory of this host." text:"stores within the host"`
	Refused         uint64        `metric:"bobnet_splitc_layer_refused_total" help:"Requests of other processes that were refused: outside the heap, or malformed." text:"refused requests"`
	Strays          uint64        `metric:"bobnet_splitc_layer_stray_messages_total" text:"stray messages"` // unexpected messages
}
