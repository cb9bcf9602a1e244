// Package layer is what the communication layers of Split-C implement, and what both
// sides promise. The side above, package splitc, has the heap's allocation, the global
// pointers, the collectives and all checks of what a program asks for; a layer moves
// bytes between heaps, runs procedures at their owner, and carries control messages.
//
// # What a layer promises
//
// An operation names a rank other than its own, and a part of that rank's heap by
// offset and length. The rank that asks has checked both; the owner checks them again,
// because it believes nobody, and harms nothing but its heap whatever comes.
//
// Get, Put and Call start an operation that counts in Counters.Outstanding until it has
// its data, or has changed the other heap, or has its result. A long one counts as one or
// as several, until all of it is done. Store starts an operation of which the sender never
// hears: its bytes count in the owner's Counters.Stored, after the data are in its heap. A
// layer may hold short ones back, so that they share a message, until its rank polls or
// waits.
// Everything is delivered exactly once. Between operations of one rank no order is
// promised, except that control messages of one rank arrive in the order in which they were
// sent.
//
// All of this happens in calls of the layer, on the goroutine that calls: counters
// change, procedures run and control messages are delivered nowhere else. A layer whose
// owner takes no part in Get and Put (by RDMA or shared memory) may change the heap at
// any time.
//
// A call that finds no credit waits for one, and serves the other ranks meanwhile, as
// Poll does. It waits in slices of Watch, and asks Watch.Stall between them whether it is to
// end.
//
// Nothing is allocated by Get, Put, Store, Poll and Wait once a program is under way.
//
// # What the side above promises
//
// One goroutine at a time calls a layer. Handler's functions call nothing of the layer.
// Operations name other ranks only, never a rank with Direct memory for Get and Put,
// and bytes within the heap. dst, result, and a src of more than MaxCopied bytes stay
// untouched until Outstanding and Sources are 0. Every rank makes control messages so
// that at the most MaxControls of one rank to another are on their way at a time.
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
	MaxCopied  = 64   // a src of Put and Store up to this length may be changed when they return
	MaxCall    = 256  // of arguments, and of a result
	MaxControl = 2048 // of a control message
)

// MaxControls is how many control messages of one rank to another may be on their way.
const MaxControls = 4

// Layer is one rank's end of a communication layer.
type Layer interface {
	// Heap returns this rank's spread heap, of Config.HeapSize bytes, zeroed at the start,
	// at an address that is a multiple of 4096. It is the same slice at all times.
	Heap() []byte
	// Direct returns the heap of another rank if this process may load from it and store
	// to it, and else nil. Get and Put to such a rank are not called; Store, Call and
	// Control are.
	Direct(proc int) []byte
	// Counters returns the counters, which change only in calls of the layer. The pointer
	// is the same at all times.
	Counters() *Counters

	// Get starts to fetch len(dst) bytes at offset off of a rank's heap.
	Get(ctx context.Context, proc int, dst []byte, off uint64) error
	// Put starts to write src at offset off of a rank's heap.
	Put(ctx context.Context, proc int, off uint64, src []byte) error
	// Store starts to write src at offset off of a rank's heap, where the bytes count as
	// stored. To a rank with Direct memory it need not poll: the caller does, now and then.
	Store(ctx context.Context, proc int, off uint64, src []byte) error
	// Call starts to run procedure fn at a rank: its Handler.Call gets args, and what that
	// returns is copied to result, which has room for MaxCall bytes.
	Call(ctx context.Context, proc int, fn uint32, args, result []byte) error
	// Control sends msg to a rank's Handler.Control. msg may be changed afterwards.
	Control(ctx context.Context, proc int, msg []byte) error

	// Poll takes in what has come, and does not block.
	Poll() error
	// Wait polls until something has come or ctx ends, which is no error. What was sent
	// before is on its way, or goes when there is a credit for it.
	Wait(ctx context.Context) error
	// Flush returns when the other ranks have what was sent, or a short time later, where
	// that needs this rank to poll; elsewhere at once. It comes before the end of the program.
	Flush(ctx context.Context) error
	// Stats returns what the layer has counted.
	Stats() Stats
	// Close waits until the control messages that were sent have been delivered, for a
	// second at the most and not at all if the program has failed, and releases everything.
	Close()
}

// Gatherer is what a layer is, too, that sends a message from two places, or gains by knowing that
// it will be answered.
type Gatherer interface {
	// Gather is Control of msg with data behind it, which together have MaxControl bytes at
	// the most. msg may be changed afterwards. data may be sent from where they lie: they
	// stay untouched until the other rank has answered, by a message that it sends because
	// of this one, or the program has ended.
	Gather(ctx context.Context, proc int, msg, data []byte) error
}

// Counters say how far a rank's operations are.
type Counters struct {
	// Outstanding counts the gets, puts and calls of this rank that are not complete.
	Outstanding int
	// Sources counts the stores of this rank whose src is still in use.
	Sources int
	// Stored counts the bytes that other ranks have stored into this rank's heap.
	Stored uint64
}

// Handler is what a layer calls above it.
type Handler interface {
	// Call runs procedure fn for a rank, and returns how many bytes of result it has set.
	// result has room for MaxCall bytes. args are valid until it returns.
	Call(from int, fn uint32, args, result []byte) int
	// Control takes a control message of a rank, which is valid until it returns.
	Control(from int, msg []byte)
}

// Config is what a layer starts from.
type Config struct {
	Member      *job.Member // of a job of at least two ranks
	NIC         *vipl.NIC
	Card        *lanai.Card // carries active messages in place of NIC; may be nil
	Rank, Procs int
	Generation  int    // how many programs this rank has begun before as the same Member
	HeapSize    int    // bytes, a multiple of 4096
	Heap        []byte // the heap, if another layer has it already, who frees it
	Handler     Handler
	Watch       *Watch
	Timeout     time.Duration // bounds the start
	PeerTimeout time.Duration // bounds how long a silent rank is believed to be alive; 0 means the default
	Logger      *slog.Logger  // never nil
}

// ErrUnequal is wrapped by the error of a start whose ranks differ in what must be equal.
var ErrUnequal = errors.New("splitc: the ranks have started unequally")

// Open starts a layer: it returns when this rank can exchange messages with every
// other one, or says which does not come.
type Open func(ctx context.Context, cfg Config) (Layer, error)

// Stats count what a layer has done. What a layer does not have stays 0.
type Stats struct {
	Requests        uint64        `metric:"bobnet_splitc_layer_requests_total" help:"Requests that the layer has sent." text:"requests"`
	Replies         uint64        `metric:"bobnet_splitc_layer_replies_total" help:"Replies that the layer has sent." text:"replies"`
	NoOps           uint64        `metric:"bobnet_splitc_layer_no_op_replies_total" help:"Replies that only acknowledge." text:"no-op replies"`
	Acknowledgments uint64        `metric:"bobnet_splitc_layer_acknowledgments_total" help:"Special acknowledgements sent, which give credits back." text:"acknowledgements"`
	Retransmissions uint64        `metric:"bobnet_splitc_layer_retransmissions_total" help:"Messages that the layer has sent again." text:"retransmissions"`
	Duplicates      uint64        `metric:"bobnet_splitc_layer_duplicates_total" help:"Messages that had come before." text:"duplicates"`
	CreditWaits     uint64        `metric:"bobnet_splitc_layer_credit_stalls_total" help:"Looks for a credit that found none." text:"waits for credits"`
	CreditTime      time.Duration `metric:"bobnet_splitc_layer_credit_seconds_total" help:"Time spent waiting for credits." text:"time of these waits"`
	Reads           uint64        `metric:"bobnet_splitc_layer_rdma_reads_total" help:"RDMA reads of the layer." text:"RDMA reads"`
	Writes          uint64        `metric:"bobnet_splitc_layer_rdma_writes_total" help:"RDMA writes of the layer." text:"RDMA writes"`
	Direct          uint64        `metric:"bobnet_splitc_layer_direct_stores_total" help:"Stores into memory of this host." text:"stores within the host"`
	Refused         uint64        `metric:"bobnet_splitc_layer_refused_total" help:"Requests of others that were refused: outside the heap, or garbled." text:"refused requests"`
	Strays          uint64        `metric:"bobnet_splitc_layer_stray_messages_total" text:"stray messages"` // messages that belong to nothing
}
