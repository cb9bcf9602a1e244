package vipl

import (
	"math"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Defaults of Attributes and of calls whose context has no deadline.
const (
	DefaultQueueDepth     = 1024
	defaultReadDepth      = 16
	DefaultPeerTimeout    = 10 * time.Second
	DefaultConnectTimeout = 5 * time.Second
	MaxQueueDepth         = 1 << 16
	maxReadDepth          = handshake.MaxReadDepth
	maxVIs                = 1 << 14
	maxRegions            = memory.MaxRegions
	maxRegisterBytes      = math.MaxInt // of all regions of a NIC together, and so of one
	maxPtags              = maxVIs      // of one NIC, in addition to tag 0
	maxCQs                = 2 * maxVIs  // of one NIC: one for each queue
	MaxCQEntries          = 1 << 20
)

// Attributes are a VI's attributes (VIP_VI_ATTRIBUTES). Connect and Accept require that
// Reliability, MaxTransferSize and QoS of the two VIs are equal.
type Attributes struct {
	// Reliability is the level; the zero value means ReliableDelivery.
	Reliability reliability.Level
	// MaxTransferSize is the longest message in bytes; 0 means MaxTransferSize.
	MaxTransferSize uint32
	// QoS must be equal on both sides. It has no other meaning; the application defines its values.
	QoS uint32
	// Ptag must equal the tag of every region that the VI's descriptors name
	// and that the peer writes to.
	Ptag Ptag
	// EnableRDMAWrite lets the peer write to this side's memory, where the
	// region allows it too.
	EnableRDMAWrite bool
	// EnableRDMARead lets the peer read from this side's memory, where the
	// region allows it too. The unreliable level has no reads: there it must be false,
	// else CreateVI and SetAttributes return ErrInvalidRDMARead.
	EnableRDMARead bool
	// ReadDepth is how many of the peer's RDMA reads this side serves at a time, at most 256; 0
	// means 16. The peer learns the limit and delays further reads. Each read takes 32 bytes of
	// memory, allocated at the first read.
	ReadDepth int
	// QueueDepth is the maximum number of descriptors on each queue; 0 means
	// DefaultQueueDepth. Queues take memory as they fill, 8 bytes per entry.
	QueueDepth int
	// WholeCRC extends the CRC of every data frame to the payload. It is always on for links
	// without protection of their own, and if the peer requests it.
	WholeCRC bool
	// PeerTimeout is how long a silent peer is assumed to be alive, on the reliable levels; 0 means
	// DefaultPeerTimeout. Time in which this process is stopped or gets no processor does not
	// count. A peer on another host that gets no processor for longer looks the same as a dead one:
	// use a larger value on such busy hosts. A peer on this host is kept while its process lives,
	// because the kernel reports the end of a process.
	PeerTimeout time.Duration
	// ConnectTimeout bounds an attempt to connect, on either side, unless its context has a
	// deadline; 0 means DefaultConnectTimeout. Time in which this process gets no processor does
	// not count.
	ConnectTimeout time.Duration
}

// DefaultAttributes returns the attributes that CreateVI uses for nil: reliable delivery, messages
// of up to 1 GiB, RDMA writes and reads allowed. Clear EnableRDMARead before use with the
// unreliable level.
func DefaultAttributes() *Attributes {
	return &Attributes{Reliability: reliability.ReliableDelivery, EnableRDMAWrite: true, EnableRDMARead: true}
}

func (a Attributes) withDefaults() Attributes {
	if a.Reliability == 0 {
		a.Reliability = reliability.ReliableDelivery
	}
	if a.MaxTransferSize == 0 {
		a.MaxTransferSize = MaxTransferSize
	}
	if a.QueueDepth == 0 {
		a.QueueDepth = DefaultQueueDepth
	}
	if a.ReadDepth == 0 {
		a.ReadDepth = defaultReadDepth
	}
	if a.PeerTimeout == 0 {
		a.PeerTimeout = DefaultPeerTimeout
	}
	if a.ConnectTimeout == 0 {
		a.ConnectTimeout = DefaultConnectTimeout
	}
	return a
}

// terms returns the attributes that concern connections.
func (a *Attributes) terms() conn.Terms {
	return conn.Terms{
		Reliability: a.Reliability, Ptag: memory.Tag(a.Ptag), EnableRDMAWrite: a.EnableRDMAWrite, EnableRDMARead: a.EnableRDMARead,
		ReadDepth: a.ReadDepth, PeerTimeout: a.PeerTimeout,
	}
}

func (a *Attributes) validate(op string) error {
	switch {
	case !a.Reliability.Valid():
		return opError(op, ErrInvalidReliability, "invalid level %d (want 1, 2 or 4)", a.Reliability)
	case a.EnableRDMARead && a.Reliability == reliability.Unreliable:
		return opError(op, ErrInvalidRDMARead, "level %v has no RDMA reads (set EnableRDMARead to false)", a.Reliability)
	case a.MaxTransferSize > MaxTransferSize:
		return opError(op, ErrInvalidMTU, "MaxTransferSize %d is over the limit of %d", a.MaxTransferSize, MaxTransferSize)
	case a.QueueDepth < 1 || a.QueueDepth > MaxQueueDepth:
		return opError(op, ErrArgument, "QueueDepth %d is not in 1..%d", a.QueueDepth, MaxQueueDepth)
	case a.ReadDepth < 1 || a.ReadDepth > maxReadDepth:
		return opError(op, ErrArgument, "ReadDepth %d is not in 1..%d", a.ReadDepth, maxReadDepth)
	case a.PeerTimeout < 0:
		return opError(op, ErrArgument, "PeerTimeout %v is negative", a.PeerTimeout)
	case a.ConnectTimeout < 0:
		return opError(op, ErrArgument, "ConnectTimeout %v is negative", a.ConnectTimeout)
	}
	return nil
}

// NICAttributes describe a NIC (VIP_NIC_ATTRIBUTES).
type NICAttributes struct {
	Name                   string // the interface
	Driver                 string // the link's driver
	HardwareVersion        string // the kernel's driver for the interface and a card's firmware, as `ethtool -i` has them; "" where there is none
	ProviderVersion        int    // version of the frame format; NICs ignore frames of other versions
	Addr                   ethertype.Addr
	Ports                  transport.PortRange
	NativeMTU              int `metric:"bobnet_nic_mtu_bytes" help:"Largest frame without its Ethernet header."`
	MaxTransferSize        uint32
	MaxDiscriminatorLen    int
	MaxVI                  int
	MaxDescriptorsPerQueue int
	MaxSegmentsPerDesc     int
	MaxRegisterRegions     int
	MaxRegisterBytes       int // of all regions together
	MaxRegisterBlockBytes  int // of one region
	MaxPtags               int // in addition to tag 0
	MaxCQ                  int
	MaxCQEntries           int
	ReliabilityLevels      reliability.Level // bits
	RDMAReadSupport        bool
	ThreadSafe             bool
	Incarnation            uint64 // random, new with every Open
}

// State is a VI's state (VIP_VI_STATE). String and MarshalText return the state's name.
type State uint8

// The states, in VIPL's order.
const (
	StateIdle           = State(code.StateIdle)
	StateConnected      = State(code.StateConnected)
	StateConnectPending = State(code.StateConnectPending)
	StateError          = State(code.StateError)
)

// String returns the state's name.
func (s State) String() string { return code.State(s).String() }

// MarshalText returns the same text as String.
func (s State) MarshalText() ([]byte, error) { return code.State(s).MarshalText() }

// UnmarshalText parses the output of MarshalText.
func (s *State) UnmarshalText(text []byte) error { return (*code.State)(s).UnmarshalText(text) }
