package doctor

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
)

// Facts are what Collect has found and Judge judges.
type Facts struct {
	Driver     string // of the NIC, as vipl.Config has it
	Program    string // this program's file, for advice
	Temporary  bool   // it was built by go run, and is gone when this program ends
	Rights     Rights
	Agent      Agent
	Interfaces Interfaces
	Host       Host
	NIC        NIC
	Segment    Segment
	Filter     Filter
	Traffic    Traffic
	Faults     string // what vipl.EnvFault asks for; "" if nothing
	FaultsErr  error  // why it cannot be read
}

// Rights are what this process may do.
type Rights struct {
	NetRaw, NetAdmin, IPCLock bool  // effective capabilities
	RawSocket                 error // of opening a packet socket
	XDPSocket                 error // of opening an AF_XDP socket
	Lab                       error // why namespaces cannot be made
}

// Agent is what came of asking the node's agent for sockets. Nothing is asked without an
// interface, for a driver without such sockets, or if vipl.Config and the environment say so.
type Agent struct {
	Path string // of its socket; "" if nothing was asked
	None bool   // no agent serves there, or none that this process may speak to
	Err  error  // why it gives no sockets
	User int    // of this process
}

// Interfaces are the Ethernet interfaces and the choice between them.
type Interfaces struct {
	Want   string // what the user named; "" for the only one that is up
	List   []iface.Interface
	Chosen iface.Interface // valid if Err is nil; the zero one if the driver does without
	Why    string          // that one
	Err    error           // why none was chosen
	Driver Driver          // of the chosen one
}

// Driver is what the network card's driver says of itself.
type Driver struct {
	Name           string
	Err            error // why it could not be asked; the rest is empty then
	GRO            bool  // generic receive offload
	UDPSegments    bool  // the card cuts datagrams
	Coalesces      bool  // the card can hold back receive interrupts, as follows
	CoalesceMicros int   // for how long at the most
	AdaptiveRx     bool  // and it chooses itself
	RxRing         int   // frames that the card's receive queue holds; 0: unknown
	RxRingMax      int   // and could hold
}

// Host is the machine as this process sees it.
type Host struct {
	CPUs       int     // of the machine
	Affinity   int     // of them, those that this process may use
	Quota      float64 // processors' worth of time that the control group grants; 0: no limit
	GOMAXPROCS int
	Load       float64 // runnable threads, averaged over a minute
	Memlock    uint64  // bytes; Unlimited: no limit
	RmemMax    int     // net.core.rmem_max in bytes; 0: not to be seen
	WmemMax    int     // net.core.wmem_max
	Share      error   // why this process can make no shared memory
}

// Unlimited is the value of a limit that is none.
const Unlimited = ^uint64(0)

// NIC is what came of opening one. Nothing is tried without an interface.
type NIC struct {
	Tried  bool
	Err    error
	Addr   ethertype.Addr
	Driver string
	MTU    int
	Slots  int // frames that the receive queue holds; 0: unknown
}

// Filter is what nftables does with Bobnet's frames on the chosen interface.
type Filter struct {
	Drops []Drop
	Err   error // why the rules could not be read
}

// Traffic is what was counted while the segment was asked. It is zero where nothing was counted.
type Traffic struct {
	Sent                 uint64 // frames that the NIC has sent, or tried to
	Left, Came           uint64 // frames that the interface has counted as they left and came
	TxDropped, RxDropped uint64 // that it has dropped
}

// Segment is who else is there.
type Segment struct {
	Err   error // why nobody could be asked
	Peers []Peer
	Local int // NICs that other programs have on the same interface
}

// Peer is a NIC that has answered.
type Peer struct {
	Addr      ethertype.Addr
	Host      string
	MTU       int
	Small     time.Duration // round trip of a short frame, the best of a few
	SmallErr  error
	Full      time.Duration // of one as long as both MTUs allow
	FullErr   error
	FullBytes int  // of its payload
	Carries   int  // the largest MTU whose frames came back, if full frames did not; 0: not measured
	Gone      bool // it did not answer, and was no longer there afterwards
}
