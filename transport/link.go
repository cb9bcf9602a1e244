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

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/mdlayher/ethernet"
)

// Forever is a deadline for Link.Wait that never comes.
const Forever int64 = math.MaxInt64

// MaxBatch is the most frames that one call of Send or Recv moves in every
// driver; more in one call is cut short, not refused.
const MaxBatch = 64

// MaxBody is the most Body parts that a Frame may have.
const MaxBody = 256

// Frame is one frame to be sent: Head, then the parts of Body in order, on the
// wire without a gap. Head starts with the Ethernet header and holds at least
// ethertype.HeaderSize bytes. Whoever passes a Frame keeps ownership of all
// its memory and may reuse it as soon as Send has returned.
type Frame struct {
	Head []byte
	Body [][]byte
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

// Link moves frames between stations of one segment. Frames may be lost,
// duplicated, reordered and, if Info says so, corrupted; they are never merged
// or split.
//
// Send and Recv must not run at the same time as each other or as themselves:
// the caller holds one lock around both. Ready, Wait, Wake, Now, Info, Stats
// and Close may be called by any goroutine at any time.
type Link interface {
	// Send hands frames to the network in order and returns how many it took.
	// It never blocks: n < len(frames) with a nil error means that the
	// network's queue is full now and the rest may be offered again later.
	// Full queues are counted. A frame longer than Info().MTU allows ends the
	// batch before it with ErrFrameSize; a frame that the network refuses for
	// good is counted as a drop and taken.
	Send(frames []Frame) (n int, err error)

	// Recv fills views with frames that have arrived, Ethernet header first,
	// and returns how many. It never blocks. The views are valid until the
	// next call of Recv, and until Close has been called; they are read-only.
	// A frame may carry padding after its payload.
	Recv(views [][]byte) (n int, err error)

	// Ready reports, without a system call where the driver can, whether Recv
	// would find a frame now. It may err towards true.
	Ready() bool

	// Wait blocks until a frame may have arrived, Wake is called, the link is
	// closed (ErrClosed) or the clock reaches until (in terms of Now). A Wake
	// that comes while nobody waits ends the next Wait. One goroutine at a
	// time may wait.
	Wait(until int64) error

	// Wake ends the current or the next Wait.
	Wake()

	// Now returns the link's monotonic clock in nanoseconds. The clock of a
	// simulated link is the simulation's. Now never returns 0.
	Now() int64

	// Info describes the link as it is now.
	Info() Info

	// Stats returns a snapshot of the counters. Frames that the last call of
	// Recv returned may not be in it until the next call.
	Stats() Stats

	// Close releases the link. A blocked Wait returns first. Views are
	// invalid from the moment of the call. Further calls of Close do nothing;
	// Send, Recv and Wait return ErrClosed.
	Close() error
}

// Info describes a link.
type Info struct {
	Driver    string // "ring", "packet", "sim", ...; wrappers put their name before it: "fault+ring"
	Interface string // name of the network interface, for people
	MAC       ethertype.MAC
	Hardware  ethertype.MAC // the interface's own, where stations have another, as of the last Check; 0 elsewhere
	EtherType ethernet.EtherType
	Ports     PortRange
	BasePort  uint16 // of udp, whose links with another one are not of this segment; 0 elsewhere
	MTU       int    // largest frame minus the 14 bytes of the Ethernet header
	Slots     int    // frames that the receive queue holds before it drops; 0 if unknown
	// Unprotected says that nothing below detects corrupt frames, so that the
	// CRC must cover the whole frame.
	Unprotected bool
	// SameHost says that all stations are of this host and share one MAC address.
	SameHost bool
	// Virtual says that Now is not real time: a caller must not spin on Ready,
	// because time passes only in Wait, and must drive the link from one
	// goroutine.
	Virtual bool
}

// PortRange is the inclusive range of ports whose frames a link receives.
// Besides, every link receives frames to ethertype.PortAll.
type PortRange struct{ Lo, Hi uint16 }

// Contains reports whether p lies in r.
func (r PortRange) Contains(p uint16) bool { return r.Lo <= p && p <= r.Hi }

// Len returns the number of ports in r.
func (r PortRange) Len() int { return int(r.Hi) - int(r.Lo) + 1 }

// AllPorts is the range of every port that an endpoint can have.
var AllPorts = PortRange{1, math.MaxUint16}

// Stats counts what a link has done since it was opened. Every frame that was
// not passed on is in exactly one of the drop counters.
type Stats struct {
	TxFrames    uint64 `metric:"bobnet_link_transmit_frames_total" help:"Frames that the link has sent."`
	TxBytes     uint64
	RxFrames    uint64 `metric:"bobnet_link_receive_frames_total" help:"Frames that the link has received."`
	RxBytes     uint64
	TxCalls     uint64 `metric:"bobnet_link_transmit_calls_total" help:"System calls, or what stands for them, that sent frames."`
	RxCalls     uint64 `metric:"bobnet_link_receive_calls_total" help:"System calls, or what stands for them, that received frames."`
	TxXDP       uint64 `metric:"bobnet_link_transmit_xdp_frames_total" help:"Of the frames that the link has sent, those through an AF_XDP socket."`
	Waits       uint64 `metric:"bobnet_link_waits_total" help:"Times a thread slept on the link."`
	Wakes       uint64 // calls of Wake
	TxFull      uint64 `metric:"bobnet_link_transmit_full_total" help:"Times the network's queue was full."`
	TxDrops     uint64 `metric:"bobnet_link_dropped_frames_total" reason:"transmit_refused" help:"the network refused them"`
	RxDrops     uint64 `metric:"bobnet_link_dropped_frames_total" reason:"receive_queue_full" help:"they came faster than anybody took them"`
	RxTruncated uint64 `metric:"bobnet_link_dropped_frames_total" reason:"truncated" help:"longer than a slot of the receive queue"`
	RxFiltered  uint64 `metric:"bobnet_link_dropped_frames_total" reason:"filtered" help:"not ours: EtherType, destination, port or source"`
	Refused     uint64 `metric:"bobnet_link_refused_users_total" help:"Times a program of another user of this host was refused shared memory."`
	Faults      uint64 `metric:"bobnet_link_dropped_frames_total" reason:"fault" help:"a fault wrapper dropped, copied, delayed or changed them"`
}

// The classes that the errors of all packages belong to: what errors.Is finds for one of these, for
// example mplite.ErrClosed, is found for its class too.
var (
	ErrClosed   = net.ErrClosed                     // what was used is closed
	ErrTimeout  = os.ErrDeadlineExceeded            // a limit of time has passed
	ErrArgument = fs.ErrInvalid                     // an argument is wrong; nothing was done
	ErrPeer     = errors.New("the peer has failed") // the other end has ended, does not answer or breaks the protocol
)

// What links return. Errors of drivers wrap these and ErrClosed.
var (
	ErrFrameSize  = errors.New("transport: frame is longer than the link's MTU allows")
	ErrInterface  = errors.New("transport: no usable network interface")
	ErrPermission = errors.New("transport: no permission for raw sockets")
	ErrLinkDown   = errors.New("transport: network interface is down") // or without carrier: it may come back
	// ErrGone says that the network interface was deleted, or moved to another network
	// namespace. The link is of no use any more, also when there is an interface of the same
	// name again: that is another one, for which the caller opens another link.
	ErrGone = errors.New("transport: network interface is gone")
)
