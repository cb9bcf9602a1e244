package vipl

import (
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Op is the operation of a send descriptor (VIP_CONTROL_OP_…). String and MarshalText return the
// operation's name.
type Op = code.Op

// The operations.
const (
	OpSend      = code.OpSend      // two-sided: fills a receive that the peer has posted
	OpRDMAWrite = code.OpRDMAWrite // one-sided: goes to Descriptor.Remote
	OpRDMARead  = code.OpRDMARead  // one-sided: comes from Descriptor.Remote; reliable levels only
)

// MaxSegments is the most data segments of a descriptor (VIP_NIC_ATTRIBUTES.MaxSegmentsPerDesc).
const MaxSegments = conn.MaxSegments

// MaxTransferSize is the largest message, in bytes, that any VI carries.
const MaxTransferSize = conn.MaxTransferSize

// Segment is a data segment (VIP_DATA_SEGMENT): Data must lie within the
// registered region that Handle, a MemHandle, names. Both are its only fields.
type Segment = memory.Segment

// RemoteSegment is the address segment of an RDMA descriptor (VIP_ADDRESS_SEGMENT). Addr is a
// virtual address of the peer, and Handle is the peer's MemHandle of the region that contains it.
// Both are its only fields. The peer checks both on every access.
type RemoteSegment = conn.RemoteSegment

// Descriptor describes one transfer (VIP_DESCRIPTOR). The caller fills the first group of fields
// and posts the descriptor. The caller must then leave it and its memory alone until a Done or Wait
// call returns it with the second group filled. It can then be posted again. A posted descriptor
// must not be copied. Its fields:
//
//	// Segs is the memory of the transfer, in order: the source of a send or RDMA write,
//	// the destination of a receive or RDMA read. A message may be shorter than the
//	// receive. A read transfers as many bytes as Segs hold.
//	Segs []Segment
//	// Op is the operation. It is ignored on a receive.
//	Op Op
//	// Remote is the destination of an RDMA write or the source of an RDMA read.
//	Remote RemoteSegment
//	// Fence delays the descriptor, and those after it, until all earlier RDMA reads of
//	// the VI have completed (VIP_CONTROL_QFENCE). Without it sends and writes may
//	// overtake reads.
//	Fence bool
//	// Unordered asserts that no other write in progress changes the memory that this RDMA
//	// write changes. The receiver may then store its data before those of earlier
//	// messages: if frames of earlier messages are lost, the write is not sent again. The
//	// receiver still reports it in order. VIA has no such flag.
//	Unordered bool
//	// AckNow makes the last frame of a send or RDMA write on a reliable VI request an
//	// acknowledgement, for a program that waits for the descriptor to complete. The peer
//	// acknowledges at once. If it answers most messages soon, it acknowledges with the answer, or
//	// when its program waits; if its program computes instead, some milliseconds later. Without
//	// AckNow the peer may wait up to 250 us for a frame that can carry the acknowledgement. VIA
//	// has no such thing.
//	AckNow bool
//	// HasImmediate sends Immediate with the message, which must not be an RDMA read. On
//	// a completed receive it means that the message carried immediate data.
//	HasImmediate bool
//	Immediate    uint32
//	// Context belongs to the caller. The provider never reads it.
//	Context any
//
//	// Status is 0 until completion. Length is the number of bytes transferred.
//	Status Status
//	Length uint32
type Descriptor = conn.Descriptor

// Status is a descriptor's completion status: StatusDone, flags, the operation and possibly an
// error (VIPL reference, section 6; the same bits). Done reports whether the descriptor has
// completed, and Failed whether it completed in error. String returns the operation and the bits,
// for example "receive: done, immediate".
type Status = code.Status

// The bits of a Status.
const (
	StatusDone            = code.StatusDone
	StatusFormatError     = code.StatusFormatError
	StatusProtectionError = code.StatusProtectionError
	StatusLengthError     = code.StatusLengthError
	StatusPartialError    = code.StatusPartialError
	StatusFlushed         = code.StatusFlushed
	StatusTransportError  = code.StatusTransportError
	StatusRDMAProtError   = code.StatusRDMAProtError
	StatusRemoteDescError = code.StatusRemoteDescError
	StatusErrorMask       = code.StatusErrorMask

	StatusOpMask            = code.StatusOpMask
	StatusOpSend            = code.StatusOpSend
	StatusOpReceive         = code.StatusOpReceive
	StatusOpRDMAWrite       = code.StatusOpRDMAWrite
	StatusOpRemoteRDMAWrite = code.StatusOpRemoteRDMAWrite
	StatusOpRDMARead        = code.StatusOpRDMARead
	StatusImmediate         = code.StatusImmediate
)
