package conn

import (
	"strconv"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Op is what a send descriptor asks for (VIP_CONTROL_OP_…).
type Op uint8

// The operations.
const (
	OpSend      Op = iota // two-sided: fills a receive that the peer has posted
	OpRDMAWrite           // one-sided: goes to Descriptor.Remote
	OpRDMARead            // one-sided: comes from Descriptor.Remote; reliable levels only
)

// MaxSegments is how many data segments a descriptor may have
// (VIP_NIC_ATTRIBUTES.MaxSegmentsPerDesc).
const MaxSegments = 16

// MaxTransferSize is the largest message, in bytes, that any VI carries.
const MaxTransferSize = 1 << 30

// Segment is a data segment (VIP_DATA_SEGMENT): Data must lie within the
// registered region that Handle, a MemHandle, names. Both are its only fields.
type Segment = memory.Segment

// RemoteSegment is the address segment of an RDMA descriptor
// (VIP_ADDRESS_SEGMENT): a virtual address at the peer and the peer's handle
// for the region it lies in. The peer checks both on every access.
type RemoteSegment struct {
	Addr   uint64
	Handle memory.Handle
}

// Descriptor describes one transfer (VIP_DESCRIPTOR). The caller fills the
// first group, posts it, and leaves it and the memory it names alone until a
// Done or Wait call returns it with the second group filled. A descriptor may
// then be posted again. It must not be copied while posted.
type Descriptor struct {
	// Segs is gathered from on a send or RDMA write and scattered to on a
	// receive or RDMA read, in order. A message may be shorter than the
	// receive; a read is of as many bytes as Segs hold.
	Segs []Segment
	// Op is the operation; ignored on a receive.
	Op Op
	// Remote is where an RDMA write goes or an RDMA read comes from.
	Remote RemoteSegment
	// Fence keeps the descriptor, and those behind it, from being started
	// before all earlier RDMA reads of the VI have completed
	// (VIP_CONTROL_QFENCE). Without it sends and writes may overtake them.
	Fence bool
	// Unordered says of an RDMA write that nothing else which is under way writes
	// where it does, so that its data need not wait for the messages before it: on a
	// path that loses frames it is not sent again for those. The peer hears of it in
	// its turn all the same. VIA has no such thing.
	Unordered bool
	// Later has PostSend leave a send to the engine's next turn: whoever polls, waits or
	// flushes next sends it, or the NIC's own goroutine, and the caller goes on at once,
	// however long the message is. It goes with what is posted behind it.
	Later bool
	// HasImmediate says that Immediate goes with the message, which must
	// not be an RDMA read. On completion of
	// a receive it says that immediate data came.
	HasImmediate bool
	Immediate    uint32
	// Context is the caller's own; the provider never looks at it.
	Context any

	// Status is 0 until completion. Length is the number of bytes transferred.
	Status Status
	Length uint32

	total  uint32 // bytes that Segs holds
	posted bool   // it is on a queue, and not the caller's
	txState
	rxState
}

// txState is what the send side keeps in a descriptor.
type txState struct {
	msg         ethertype.Seq // message number, if the peer spends a receive on it
	first, last ethertype.Seq // sequence numbers of its frames
}

// rxState is what the receive side keeps in a descriptor.
type rxState struct {
	length  uint32 // of the message, once a fragment has come
	got     uint32
	final   ethertype.Seq // sequence number of its last fragment
	begun   bool
	ended   bool // the last fragment has come
	oneSide bool // spent by an RDMA write with immediate data
}

// Status is a descriptor's completion status: StatusDone, perhaps an error,
// flags and the operation (VIPL reference, section 6; the same bits).
type Status uint32

// The bits of a Status.
const (
	StatusDone            Status = 0x1
	StatusFormatError     Status = 0x2
	StatusProtectionError Status = 0x4
	StatusLengthError     Status = 0x8
	StatusPartialError    Status = 0x10
	StatusFlushed         Status = 0x20
	StatusTransportError  Status = 0x40
	StatusRDMAProtError   Status = 0x80
	StatusRemoteDescError Status = 0x100
	StatusErrorMask       Status = 0x1FE

	StatusOpMask            Status = 0x70000
	StatusOpSend            Status = 0
	StatusOpReceive         Status = 0x10000
	StatusOpRDMAWrite       Status = 0x20000
	StatusOpRemoteRDMAWrite Status = 0x30000
	StatusOpRDMARead        Status = 0x40000
	StatusImmediate         Status = 0x80000
)

// Done reports whether the descriptor has completed.
func (s Status) Done() bool { return s&StatusDone != 0 }

// Failed reports whether it completed in error.
func (s Status) Failed() bool { return s&StatusErrorMask != 0 }

// OpStatus returns the bits that name an operation of the send queue.
func OpStatus(op Op) Status {
	switch op {
	case OpRDMAWrite:
		return StatusOpRDMAWrite
	case OpRDMARead:
		return StatusOpRDMARead
	}
	return StatusOpSend
}

func (d *Descriptor) opStatus() Status { return OpStatus(d.Op) }

// Posted reports whether d is on a queue.
func Posted(d *Descriptor) bool { return d.posted }

var statusNames = []struct {
	bit  Status
	name string
}{
	{StatusDone, "done"}, {StatusFormatError, "format error"}, {StatusProtectionError, "protection error"},
	{StatusLengthError, "length error"}, {StatusPartialError, "partial error"}, {StatusFlushed, "flushed"},
	{StatusTransportError, "transport error"}, {StatusRDMAProtError, "RDMA protection error"},
	{StatusRemoteDescError, "remote descriptor error"}, {StatusImmediate, "immediate"},
}

var opNames = [...]string{"send", "receive", "RDMA write", "remote RDMA write", "RDMA read"}

// String names the operation and the bits, for example "receive: done, immediate".
func (s Status) String() string {
	op := "op " + strconv.Itoa(int(s&StatusOpMask>>16))
	if i := int(s & StatusOpMask >> 16); i < len(opNames) {
		op = opNames[i]
	}
	sep := ": "
	for _, n := range statusNames {
		if s&n.bit != 0 {
			op += sep + n.name
			sep = ", "
		}
	}
	if sep == ": " {
		op += ": pending"
	}
	return op
}

// String returns the operation's name.
func (o Op) String() string {
	switch o {
	case OpSend:
		return "send"
	case OpRDMAWrite:
		return "RDMA write"
	case OpRDMARead:
		return "RDMA read"
	}
	return "op " + strconv.Itoa(int(o))
}

// MarshalText returns what String does.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
