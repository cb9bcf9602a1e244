package vipl

import (
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// Op is the operation of a send descriptor (VIP_CONTROL_OP_…). String and MarshalText return the
// operation's name.
type Op uint8

// The operations.
const (
	OpSend      = Op(code.OpSend)      // two-sided: fills a receive that the peer has posted
	OpRDMAWrite = Op(code.OpRDMAWrite) // one-sided: goes to Descriptor.Remote
	OpRDMARead  = Op(code.OpRDMARead)  // one-sided: comes from Descriptor.Remote; reliable levels only
)

// String returns the operation's name.
func (o Op) String() string { return code.Op(o).String() }

// MarshalText returns the same text as String.
func (o Op) MarshalText() ([]byte, error) { return code.Op(o).MarshalText() }

// UnmarshalText parses the output of MarshalText.
func (o *Op) UnmarshalText(text []byte) error { return (*code.Op)(o).UnmarshalText(text) }

// MaxSegments is the maximum number of data segments of a descriptor
// (VIP_NIC_ATTRIBUTES.MaxSegmentsPerDesc).
const MaxSegments = conn.MaxSegments

// MaxTransferSize is the largest message, in bytes, that any VI carries.
const MaxTransferSize = conn.MaxTransferSize

// Segment is a data segment (VIP_DATA_SEGMENT).
type Segment struct {
	Data   []byte    // must lie within the registered region that Handle names
	Handle MemHandle // of the region
}

// RemoteSegment is the address segment of an RDMA descriptor (VIP_ADDRESS_SEGMENT). The peer checks
// both fields on every access.
type RemoteSegment struct {
	Addr   uint64    // virtual address in the peer's memory
	Handle MemHandle // the peer's handle of the region that contains Addr
}

// Descriptor describes one transfer (VIP_DESCRIPTOR). The caller fills the first group of fields
// and posts the descriptor. The caller must then leave it, its segments and their memory alone until
// a Done or Wait call returns it with the second group filled. It can then be posted again. A posted
// descriptor must not be copied.
type Descriptor struct {
	// Segs is the memory of the transfer, in order: the source of a send or RDMA write, the
	// destination of a receive or RDMA read. A message may be shorter than the receive. A read
	// transfers as many bytes as Segs hold.
	Segs []Segment
	// Op is the operation. It is ignored on a receive.
	Op Op
	// Remote is the destination of an RDMA write or the source of an RDMA read.
	Remote RemoteSegment
	// Fence delays the descriptor, and those after it, until all earlier RDMA reads of the VI have
	// completed (VIP_CONTROL_QFENCE). Without it sends and writes may overtake reads.
	Fence bool
	// Unordered asserts that no other write in progress changes the memory that this RDMA write
	// changes. The receiver may then store the write's data before the data of earlier messages: if
	// frames of earlier messages are lost, the write is not sent again. The receiver still reports it
	// in order. VIA has no such flag.
	Unordered bool
	// AckNow makes the last frame of a send or RDMA write on a reliable VI request an
	// acknowledgement, for a program that waits for the descriptor to complete. Normally the peer
	// acknowledges at once. If the peer's program answers most messages soon, the acknowledgement
	// waits for the answer, or until that program waits. If that program computes instead, the
	// acknowledgement is sent some milliseconds later. Without AckNow the peer may wait up to 250 us
	// for a frame that can carry the acknowledgement. VIA has no such flag.
	AckNow bool
	// HasImmediate sends Immediate with the message, which must not be an RDMA read. On a completed
	// receive it means that the message carried immediate data.
	HasImmediate bool
	Immediate    uint32
	// Context belongs to the caller. The provider never reads it.
	Context any

	// Status is 0 until the descriptor has completed.
	Status Status
	// Length is the number of bytes transferred.
	Length uint32

	work conn.Descriptor // the engine's own copy
}

// Status is a descriptor's completion status: StatusDone, flags, the operation and possibly an
// error (VIPL reference, section 6; the same bits).
type Status uint32

// The bits of a Status.
const (
	StatusDone            = Status(code.StatusDone)
	StatusFormatError     = Status(code.StatusFormatError)
	StatusProtectionError = Status(code.StatusProtectionError)
	StatusLengthError     = Status(code.StatusLengthError)
	StatusPartialError    = Status(code.StatusPartialError)
	StatusFlushed         = Status(code.StatusFlushed)
	StatusTransportError  = Status(code.StatusTransportError)
	StatusRDMAProtError   = Status(code.StatusRDMAProtError)
	StatusRemoteDescError = Status(code.StatusRemoteDescError)
	StatusErrorMask       = Status(code.StatusErrorMask)

	StatusOpMask            = Status(code.StatusOpMask)
	StatusOpSend            = Status(code.StatusOpSend)
	StatusOpReceive         = Status(code.StatusOpReceive)
	StatusOpRDMAWrite       = Status(code.StatusOpRDMAWrite)
	StatusOpRemoteRDMAWrite = Status(code.StatusOpRemoteRDMAWrite)
	StatusOpRDMARead        = Status(code.StatusOpRDMARead)
	StatusImmediate         = Status(code.StatusImmediate)
)

// Done reports whether the descriptor has completed.
func (s Status) Done() bool { return s&StatusDone != 0 }

// Failed reports whether the descriptor has completed in error.
func (s Status) Failed() bool { return s&StatusErrorMask != 0 }

// String returns the operation and the bits, for example "receive: done, immediate".
func (s Status) String() string { return code.Status(s).String() }
