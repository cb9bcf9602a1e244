// Package transport moves Ethernet frames, unreliably.
//
// A Link sends and receives whole frames, in batches. Each driver is a subpackage:
//
//   - ring: AF_PACKET with a mapped receive ring, the fast driver
//   - packet: AF_PACKET through mdlayher/packet, to compare with ring
//   - udp: the same frames in UDP datagrams
//   - sim: a seeded network in virtual time
//   - myrinet: cables, switches and cards of a Myrinet in software
//
// The wrappers fault, trace, pcap and seal take a Link and are Links themselves. Most
// programs open a vipl.NIC instead, which also reaches other processes of the host through
// shared memory.
//
// A link filters frames by EtherType and port, in the kernel. It knows nothing of VIs
// and acknowledgements.
//
// # Driver loop
//
//	for {
//		n, err := link.Recv(views)   // never blocks
//		for _, frame := range views[:n] { handle(frame) }
//		link.Send(batch)             // never blocks
//		if n == 0 { link.Wait(deadline) }
//	}
package transport

import (
	"errors"
	"io/fs"
	"math"
	"net"
	"os"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/mdlayher/ethernet"
)

// Forever is a deadline for Link.Wait that never expires.
const Forever int64 = math.MaxInt64

// MaxBatch is the most frames that one call of Send or Recv moves, in every driver. A longer batch
// is truncated, not refused.
const MaxBatch = 64

// MaxBody is the most Body parts that a Frame may have.
const MaxBody = 256

// Frame is one frame to send: Head, followed by the parts of Body in order, contiguous on the wire.
// Head starts with the Ethernet header and holds at least ethertype.HeaderSize bytes. The caller
// keeps ownership of all memory of a Frame, and may reuse it as soon as Send has returned.
type Frame struct {
	Head []byte
	Body [][]byte

	// Mark, if not nil, points to a word that is not 0 as long as the bytes of Body keep their place and
	// value, unless the receiver has acknowledged the frame. A link between processes may then pass on where
	// these bytes are, and the value of the word, in place of a copy.
	Mark *atomic.Uint64
}

// Len returns the frame's length on the wire, without padding.
func (f *Frame) Len() int {
	n := len(f.Head)
	for _, part := range f.Body {
		n += len(part)
	}
	return n
}

// AppendTo appends the frame's bytes, in wire order, to b.
func (f *Frame) AppendTo(b []byte) []byte {
	b = append(b, f.Head...)
	for _, part := range f.Body {
		b = append(b, part...)
	}
	return b
}

// Link moves frames between stations of one segment. Frames may be lost, duplicated, reordered and,
// if Info says so, corrupted. They are never merged or split.
//
// Only one call of Send or Recv may run at a time: the caller holds one lock around both. Any
// goroutine may call Ready, Wait, Wake, Now, Info, Stats and Close at any time.
type Link interface {
	// Send passes frames to the network in order and returns the number of accepted frames. It
	// never blocks: n < len(frames) with a nil error means that the network's queue is full, and
	// the rest may be sent again later. Full queues are counted. If a frame is longer than
	// Info().MTU allows, Send accepts the frames before it and returns ErrFrameSize. A frame that
	// the network refuses for good is accepted and counted as dropped.
	Send(frames []Frame) (n int, err error)

	// Recv fills views with received frames, Ethernet header first, and returns their number. It
	// never blocks. The views are read-only. They are valid until the next call of Recv, and until
	// Close is called. A frame may have padding after its payload.
	Recv(views [][]byte) (n int, err error)

	// Ready reports whether Recv would find a frame now, without a system call if the driver can.
	// It may return true without a frame.
	Ready() bool

	// Wait blocks until a frame may have arrived, Wake is called, the link is closed (ErrClosed) or
	// the clock reaches until (see Now). A Wake while no goroutine waits ends the next Wait. One
	// goroutine at a time may wait.
	Wait(until int64) error

	// Wake ends the current or the next Wait.
	Wake()

	// Now returns the time of the link's monotonic clock in nanoseconds. The clock of a simulated
	// link is the simulation's. Now never returns 0.
	Now() int64

	// Info returns the current description of the link.
	Info() Info

	// Stats returns a snapshot of the counters. It may omit the frames of the last call of Recv.
	Stats() Stats

	// Close releases the link. A blocked Wait returns first. Views become invalid when Close is
	// called. Further calls of Close do nothing; Send, Recv and Wait return ErrClosed.
	Close() error
}

// Info describes a link.
type Info struct {
	Driver    string // "ring", "packet", "sim", ...; wrappers prepend their name: "fault+ring"
	Interface string // name of the network interface, for display
	MAC       ethertype.MAC
	Hardware  ethertype.MAC // the interface's own MAC as of the last Check, if stations have other MACs; otherwise 0
	EtherType ethernet.EtherType
	Ports     PortRange
	BasePort  uint16 // base UDP port of driver udp: links with another value are on another segment; otherwise 0
	MTU       int    // largest frame minus the 14 bytes of the Ethernet header
	Slots     int    // capacity of the receive queue in frames; 0 if unknown
	// Unprotected means that no layer below detects corrupt frames, so the CRC must cover the whole
	// frame.
	Unprotected bool
	// SameHost means that all stations are on this host and share one MAC address.
	SameHost bool
	// Virtual means that Now is not real time. A caller must not spin on Ready, because time passes
	// only in Wait, and must drive the link from one goroutine.
	Virtual bool
}

// PortRange is the inclusive range of ports whose frames a link receives. In addition, every link
// receives frames to ethertype.PortAll.
type PortRange struct{ Lo, Hi uint16 }

// Contains reports whether p lies in r.
func (r PortRange) Contains(p uint16) bool { return r.Lo <= p && p <= r.Hi }

// Len returns the number of ports in r.
func (r PortRange) Len() int { return int(r.Hi) - int(r.Lo) + 1 }

// AllPorts is the range of all ports of endpoints.
var AllPorts = PortRange{1, math.MaxUint16}

// Stats are a link's counters since it was opened. Each received frame that was not passed on is in
// exactly one of the drop counters.
type Stats struct {
	TxFrames    uint64 `metric:"bobnet_link_transmit_frames_total" help:"Frames sent by the link."`
	TxBytes     uint64
	RxFrames    uint64 `metric:"bobnet_link_receive_frames_total" help:"Frames received by the link."`
	RxBytes     uint64
	TxCalls     uint64 `metric:"bobnet_link_transmit_calls_total" help:"System calls, or their equivalent, that sent frames."`
	RxCalls     uint64 `metric:"bobnet_link_receive_calls_total" help:"System calls, or their equivalent, that received frames."`
	TxXDP       uint64 `metric:"bobnet_link_transmit_xdp_frames_total" help:"Frames sent through an AF_XDP socket."`
	Waits       uint64 `metric:"bobnet_link_waits_total" help:"Times a thread slept on the link."`
	Wakes       uint64 // calls of Wake
	TxFull      uint64 `metric:"bobnet_link_transmit_full_total" help:"Times the network's queue was full."`
	TxDrops     uint64 `metric:"bobnet_link_dropped_frames_total" reason:"transmit_refused" help:"the network refused them"`
	RxDrops     uint64 `metric:"bobnet_link_dropped_frames_total" reason:"receive_queue_full" help:"the receive queue was full"`
	RxTruncated uint64 `metric:"bobnet_link_dropped_frames_total" reason:"truncated" help:"longer than a slot of the receive queue"`
	RxCut       uint64 `metric:"bobnet_link_receive_segments_total" help:"Segments received of long frames that the path has cut."`
	RxTorn      uint64 `metric:"bobnet_link_dropped_frames_total" reason:"torn" help:"segments of long frames of which others are missing, or that repeat or overlap others"`
	RxFiltered  uint64 `metric:"bobnet_link_dropped_frames_total" reason:"filtered" help:"other EtherType, destination, port or source, or invalid headers of a long frame"`
	Refused     uint64 `metric:"bobnet_link_refused_users_total" help:"Programs of other users of this host refused shared memory."`
	Faults      uint64 `metric:"bobnet_link_dropped_frames_total" reason:"fault" help:"a fault wrapper dropped, duplicated, delayed or changed them"`
}

// Error classes of all packages. An error that wraps a sentinel of a package, for example
// mplite.ErrClosed, also matches the sentinel's class with errors.Is.
var (
	ErrClosed   = net.ErrClosed                     // the object is closed
	ErrTimeout  = os.ErrDeadlineExceeded            // a deadline has passed
	ErrArgument = fs.ErrInvalid                     // an argument is invalid; the call had no effect
	ErrPeer     = errors.New("the peer has failed") // the peer has ended, does not answer or violates the protocol
)

// Errors of links. Errors of drivers wrap these and ErrClosed.
var (
	ErrFrameSize  = errors.New("transport: frame is longer than the link's MTU allows")
	ErrInterface  = errors.New("transport: no usable network interface")
	ErrPermission = errors.New("transport: no permission for raw sockets")
	ErrLinkDown   = errors.New("transport: network interface is down") // or without carrier; it may recover
	// ErrGone means that the network interface was deleted, or moved to another network namespace.
	// The link cannot be used any more. A new interface of the same name is a different one: the
	// caller must open another link.
	ErrGone = errors.New("transport: network interface is gone")
)
