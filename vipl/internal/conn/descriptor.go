package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// MaxSegments is how many data segments a descriptor may have
// (VIP_NIC_ATTRIBUTES.MaxSegmentsPerDesc).
const MaxSegments = 16

// MaxTransferSize is the largest message, in bytes, that any VI carries.
const MaxTransferSize = 1 << 30

// Segment is a data segment of a descriptor.
type Segment = memory.Segment

// Descriptor is the engine's copy of a descriptor of the program: vipl.Descriptor, which documents
// the fields. Changes that the program makes to its own one while it is posted do not reach the
// engine. Only the elements of Segs are the program's. Programs have many descriptors, so the fields
// leave no gaps, and the segments are not a slice.
type Descriptor struct {
	segs           *Segment // the first of count; Segs returns them
	ethertype.RDMA          // the remote address of an RDMA operation; the immediate data of any

	Status code.Status // 0 until completion
	Length uint32      // bytes transferred

	total uint32 // bytes that Segs holds
	txState
	rxState

	Op           code.Op
	Fence        bool // waits for all earlier RDMA reads
	Unordered    bool // of an RDMA write: its data need not wait for messages before it
	AckNow       bool // requests an immediate acknowledgement from the peer
	HasImmediate bool
	posted       bool  // it is on a queue
	count        uint8 // of segments
	when         When
}

// When selects when a send descriptor is sent.
type When uint8

// AtOnce sends the descriptor at once if possible. Late leaves it to the engine's next step. With
// More, a short RDMA write may wait for others, as sends always may.
const (
	AtOnce When = iota
	Late
	More
)

// txState is the sender's state of a descriptor.
type txState struct {
	msg         ethertype.Seq // message number, if the message consumes a receive at the peer
	first, last ethertype.Seq // sequence numbers of its frames
}

// rxState is the receiver's state of a descriptor.
type rxState struct {
	length  uint32 // of the message, after the first fragment
	got     uint32
	final   ethertype.Seq // sequence number of its last fragment
	begun   bool
	ended   bool // the last fragment has arrived
	oneSide bool // consumed by an RDMA write with immediate data
}

func (d *Descriptor) opStatus() code.Status { return code.OpStatus(d.Op) }

// Posted reports whether d is on a queue.
func Posted(d *Descriptor) bool { return d.posted }
