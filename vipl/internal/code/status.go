package code

import (
	"fmt"
	"strconv"
)

// Op is the operation of a send descriptor (VIP_CONTROL_OP_…).
type Op uint8

// The operations.
const (
	OpSend      Op = iota // two-sided: fills a receive that the peer has posted
	OpRDMAWrite           // one-sided: goes to Descriptor.Remote
	OpRDMARead            // one-sided: comes from Descriptor.Remote; reliable levels only
)

// Status is a descriptor's completion status: StatusDone, flags, the operation and possibly an
// error (VIPL reference, section 6; the same bits).
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

// OpStatus returns the bits for an operation of the send queue.
func OpStatus(op Op) Status {
	switch op {
	case OpRDMAWrite:
		return StatusOpRDMAWrite
	case OpRDMARead:
		return StatusOpRDMARead
	}
	return StatusOpSend
}

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

// String returns the operation and the bits, for example "receive: done, immediate".
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

// MarshalText returns the same text as String.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (o *Op) UnmarshalText(text []byte) error {
	for _, known := range []Op{OpSend, OpRDMAWrite, OpRDMARead} {
		if known.String() == string(text) {
			*o = known
			return nil
		}
	}
	return fmt.Errorf("vipl: invalid operation %q", text)
}
