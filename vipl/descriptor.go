package vipl

import (
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Op is what a send descriptor asks for (VIP_CONTROL_OP_…). Its String is the
// operation's name, and so is its MarshalText.
type Op = code.Op

// The operations.
const (
	OpSend      = code.OpSend      // two-sided: fills a receive that the peer has posted
	OpRDMAWrite = code.OpRDMAWrite // one-sided: goes to Descriptor.Remote
	OpRDMARead  = code.OpRDMARead  // one-sided: comes from Descriptor.Remote; reliable levels only
)

// MaxSegments is how many data segments a descriptor may have
// (VIP_NIC_ATTRIBUTES.MaxSegmentsPerDesc).
const MaxSegments = conn.MaxSegments

// MaxTransferSize is the largest message, in bytes, that any VI carries.
const MaxTransferSize = conn.MaxTransferSize

// Segment is a data segment (VIP_DATA_SEGMENT): Data must lie within the
// registered region that Handle, a MemHandle, names. Both are its only fields.
type Segment = memory.Segment

// RemoteSegment is the address segment of an RDMA descriptor
// (VIP_ADDRESS_SEGMENT): Addr, a virtual address at the peer, and Handle, the
// peer's MemHandle for the region that it lies in. Both are its only fields. The
// peer checks both on every access.
type RemoteSegment = conn.RemoteSegment

// Descriptor describes one transfer (VIP_DESCRIPTOR). The caller fills the
// first group of fields, posts it, and leaves it and the memory it names alone until a
// Done or Wait call returns it with the second group filled. A descriptor may
// then be posted again. It must not be copied while posted. Its fields:
//
//	// Segs is gathered from on a send or RDMA write and scattered to on a
//	// receive or RDMA read, in order. A message may be shorter than the
//	// receive; a read is of as many bytes as Segs hold.
//	Segs []Segment
//	// Op is the operation; ignored on a receive.
//	Op Op
//	// Remote is where an RDMA write goes or an RDMA read comes from.
//	Remote RemoteSegment
//	// Fence keeps the descriptor, and those behind it, from being started
//	// before all earlier RDMA reads of the VI have completed
//	// (VIP_CONTROL_QFENCE). Without it sends and writes may overtake them.
//	Fence bool
//	// Unordered says of an RDMA write that nothing else which is under way writes
//	// where it does, so that its data need not wait for the messages before it: on a
//	// path that loses frames it is not sent again for those. The peer hears of it in
//	// its turn all the same. VIA has no such thing.
//	Unordered bool
//	// AckNow makes the last frame of a send or RDMA write on a reliable VI request an
//	// acknowledgement, for a program that waits for the descriptor to complete. The peer
//	// acknowledges at once. If it answers most messages soon, it acknowledges with the answer, or
//	// when its program waits; if its program computes instead, some milliseconds later. Without
//	// AckNow the peer may wait up to 250 us for a frame that can carry the acknowledgement. VIA
//	// has no such thing.
//	AckNow bool
//	// HasImmediate says that Immediate goes with the message, which must
//	// not be an RDMA read. On completion of
//	// a receive it says that immediate data came.
//	HasImmediate bool
//	Immediate    uint32
//	// Context is the caller's own; the provider never looks at it.
//	Context any
//
//	// Status is 0 until completion. Length is the number of bytes transferred.
//	Status Status
//	Length uint32
type Descriptor = conn.Descriptor

// Status is a descriptor's completion status: StatusDone, perhaps an error,
// flags and the operation (VIPL reference, section 6; the same bits). Its Done reports
// whether the descriptor has completed, its Failed whether it completed in error, and its
// String names the operation and the bits, for example "receive: done, immediate".
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
