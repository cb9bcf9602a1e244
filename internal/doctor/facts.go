package doctor

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// Facts are the input of Judge, from Collect.
type Facts struct {
	Driver     string // of the NIC, as vipl.Config has it
	Program    string // this program's file, for advice
	Temporary  bool   // it was built by go run, which removes it when this program ends
	Rights     Rights
	Agent      Agent
	Interfaces Interfaces
	Host       Host
	NIC        NIC
	Segment    Segment
	Filter     Filter
	Bridges    Bridges
	Traffic    Traffic
	Faults     string // faults set by vipl.EnvFault; "" for none
	FaultsErr  error  // why vipl.EnvFault cannot be parsed
}

// Rights are the permissions of this process.
type Rights struct {
	NetRaw, NetAdmin, IPCLock bool  // effective capabilities
	RawSocket                 error // of opening a packet socket
	XDPSocket                 error // of opening an AF_XDP socket
	Lab                       error // why namespaces cannot be created
}

// Agent is the result of a request for sockets to the node's agent. There is no request without an
// interface, for a driver without such sockets, or if vipl.Config or the environment disables the
// agent.
type Agent struct {
	Path string // of its socket; "" without a request
	None bool   // no agent serves there, or this process may not connect to it
	Err  error  // why the agent gives no sockets
	User int    // of this process
}

// Interfaces are the Ethernet interfaces and the choice between them.
type Interfaces struct {
	Want   string // the name that the user gave; "" means the only interface that is up
	List   []iface.Interface
	Chosen iface.Interface // valid if Err is nil; zero if the driver needs none
	Why    string          // reason for the choice
	Err    error           // why none was chosen
	Driver Driver          // of the chosen interface
}

// Driver contains what the network card's driver reports.
type Driver struct {
	Name           string
	Err            error // why the driver could not be queried; the other fields are then zero
	GRO            bool  // generic receive offload
	UDPSegments    bool  // the card segments datagrams
	Cuts           Cut   // of long frames, by the interface or by one below it
	Coalesces      bool  // the card can delay receive interrupts
	CoalesceMicros int   // maximum delay of an interrupt in microseconds
	AdaptiveRx     bool  // the card adapts the delay
	RxRing         int   // size of the card's receive queue in frames; 0: unknown
	RxRingMax      int   // maximum size
}

// Cut describes which interface of a host cuts the long frames that leave.
type Cut struct {
	By   string // the interface; "" if none does
	Card bool   // it is a card; otherwise the kernel cuts them, because segmentation offload is off there
}

// Host is the machine as this process sees it.
type Host struct {
	CPUs       int     // of the machine
	Affinity   int     // number of processors that this process may use
	Quota      float64 // processor time that the control group grants, in processors; 0: no limit
	GOMAXPROCS int
	Load       float64 // runnable threads, averaged over a minute
	Memlock    uint64  // bytes; Unlimited: no limit
	RmemMax    int     // net.core.rmem_max in bytes; 0: unknown
	WmemMax    int     // net.core.wmem_max in bytes; 0: unknown
	Share      error   // why this process cannot create shared memory
}

// Unlimited is the value of Host.Memlock without a limit.
const Unlimited = ^uint64(0)

// NIC is the result of opening a NIC. Without an interface none is opened.
type NIC struct {
	Tried  bool
	Err    error
	Addr   ethertype.Addr
	Driver string
	MTU    int
	Slots  int // size of the receive queue in frames; 0: unknown
}

// Filter contains the nftables rules that drop Bobnet's frames on the chosen interface.
type Filter struct {
	Drops []Drop
	Err   error // why the rules could not be read
}

// Traffic contains the counters of the time in which the segment was examined. It is zero without
// counters.
type Traffic struct {
	Sent                 uint64 // frames that the NIC has sent or tried to send
	Left, Came           uint64 // frames that the interface has counted as sent and received
	TxDropped, RxDropped uint64 // frames that the interface has dropped
	RxCut                uint64 `json:",omitempty"` // segments of long frames that the NIC received
}

// Segment lists the other stations of the segment.
type Segment struct {
	Err   error // why no station could be asked
	Peers []Peer
	Local int // NICs that other programs have on the same interface
}

// Peer is another station's NIC that answered a broadcast.
type Peer struct {
	Addr      ethertype.Addr
	Host      string
	MTU       int
	Small     time.Duration // best round-trip time of a few short frames
	SmallErr  error
	Full      time.Duration // the same for frames as long as both MTUs allow
	FullErr   error
	FullBytes int  // payload of such a frame in bytes
	Carries   int  // the largest MTU whose frames came back, if full frames did not; 0: not measured
	Gone      bool // it stopped answering altogether
}

// askDriver queries the driver of an interface for what `ethtool -i`, -k, -c and -g show. Unknown
// values are zero.
func askDriver(name string) (d Driver) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return Driver{Err: err}
	}
	defer tool.Close()
	if d.Name, d.Err = tool.DriverName(name); d.Err != nil {
		return d
	}
	features, err := tool.Features(name)
	if err != nil {
		return Driver{Name: d.Name, Err: err}
	}
	d.GRO, d.UDPSegments = features["rx-gro"], features["tx-udp-segmentation"]
	d.Cuts = findCut(tool, name)
	if c, err := tool.GetCoalesce(name); err == nil {
		d.Coalesces, d.CoalesceMicros = true, int(max(c.RxCoalesceUsecs, c.RxCoalesceUsecsHigh))
		d.AdaptiveRx = c.UseAdaptiveRxCoalesce != 0
	}
	if r, err := tool.GetRing(name); err == nil {
		d.RxRing, d.RxRingMax = int(r.RxPending), int(r.RxMaxPending)
	}
	return d
}

// maxStack is the number of interfaces on top of each other that findCut examines.
const maxStack = 8

// findCut returns which interface cuts the long frames that leave through an interface. A VLAN or a macvlan
// passes frames to the interface below it.
func findCut(tool *ethtool.Ethtool, name string) Cut {
	for range maxStack {
		driver, _ := tool.DriverName(name)
		features, err := tool.Features(name)
		switch {
		case err != nil:
			return Cut{}
		case !iface.Virtual(driver):
			return Cut{name, true}
		case !features["tx-tcp6-segmentation"]:
			return Cut{name, false}
		}
		link, err := netlink.LinkByName(name)
		if err != nil || link.Type() != "macvlan" && link.Type() != "vlan" || link.Attrs().NetNsID >= 0 { // then the one below is in another namespace
			return Cut{}
		}
		below, err := netlink.LinkByIndex(link.Attrs().ParentIndex)
		if err != nil {
			return Cut{}
		}
		name = below.Attrs().Name
	}
	return Cut{}
}

// countTraffic returns the counters of a NIC and its interface. Without an interface, or without
// counters, it returns zero.
func countTraffic(nic *vipl.NIC) Traffic {
	link := seam.Link(nic)
	at, err := netlink.LinkByName(link.Info().Interface)
	if err != nil || at.Attrs().Statistics == nil {
		return Traffic{}
	}
	s := at.Attrs().Statistics
	sent := link.Stats() // a drop on egress can be an error of the send call; the frame then does not count as sent
	return Traffic{Sent: max(sent.TxFrames, sent.TxCalls), Left: s.TxPackets, Came: s.RxPackets, TxDropped: s.TxDropped, RxDropped: s.RxDropped, RxCut: sent.RxCut}
}

// since returns the increase of the counters since before.
func (t Traffic) since(before Traffic) Traffic {
	return Traffic{Sent: t.Sent - before.Sent, Left: t.Left - before.Left, Came: t.Came - before.Came,
		TxDropped: t.TxDropped - before.TxDropped, RxDropped: t.RxDropped - before.RxDropped, RxCut: t.RxCut - before.RxCut}
}

// End is a NIC that takes part in a test of the paths between hosts. It answers the others until
// Close.
type End struct {
	EndFacts
	nic    *vipl.NIC
	host   *stream.Host // nil where no long frames could pass
	before Traffic
}

// EndFacts describe an End to the others, and to the judge.
type EndFacts struct {
	Addr      ethertype.Addr
	Interface string
	MTU       int
	Stream    string `json:",omitempty"` // where a stream echoes what is written, to try long frames; "" where none could pass
	Err       string `json:",omitempty"` // why no NIC was opened
	Drops     []Drop `json:",omitempty"` // rules of the host that drop frames, as far as they can be read
}

// Reach is the result of sending frames to another End and back.
type Reach struct {
	Small, Full time.Duration // round trips of short frames, and of frames as long as both MTUs allow; 0: none came back
	MTU         int           // of those
	Carries     int           `json:",omitempty"` // the largest MTU whose frames came back, if full ones did not; 0: not measured
	Long        bool          `json:",omitempty"` // long frames pass to the other end,
	Cut         bool          `json:",omitempty"` // in segments
}

// OpenEnd opens a NIC with cfg. EndFacts contains the error if that fails.
func OpenEnd(ctx context.Context, cfg *vipl.Config) *End {
	e := &End{}
	nic, err := vipl.Open(ctx, cfg)
	if err != nil {
		e.Err = err.Error()
		return e
	}
	info := seam.Link(nic).Info()
	e.nic, e.Addr, e.Interface, e.MTU = nic, nic.Addr(), info.Interface, nic.Query().NativeMTU
	if raw(cfg.Driver) {
		e.Drops, _ = Drops(info.Interface, cmp.Or(cfg.EtherType, ethertype.Default)) // without permission to read the rules, the traffic counters show that no frame leaves
		e.before = countTraffic(nic)
	}
	if iface.CarriesLong(info.Interface) && info.MTU < framing.LongMTU {
		e.serve()
	}
	return e
}

// Reach sends frames to all other ends concurrently. It returns the results in the order of others,
// and the traffic since OpenEnd. It skips ends without a NIC.
func (e *End) Reach(ctx context.Context, others []EndFacts) ([]Reach, Traffic) {
	all := make([]Reach, len(others))
	if e.nic == nil {
		return all, Traffic{}
	}
	var wait sync.WaitGroup
	for i, o := range others {
		if o.Err != "" || o.Addr == e.Addr {
			continue
		}
		wait.Go(func() {
			p := Peer{Addr: o.Addr, MTU: o.MTU}
			p.measure(ctx, e.nic)
			all[i] = Reach{Small: p.Small, Full: p.Full, MTU: p.FullBytes + ethertype.BaseSize, Carries: p.Carries}
			if p.Full > 0 {
				all[i].Long, all[i].Cut = e.long(ctx, &o)
			}
		})
	}
	wait.Wait()
	if e.before == (Traffic{}) {
		return all, Traffic{}
	}
	return all, countTraffic(e.nic).since(e.before)
}

// serve echoes what others write to streams.
func (e *End) serve() {
	host, err := stream.Open(context.Background(), &stream.Config{NIC: e.nic})
	if err != nil {
		return
	}
	l, err := (&stream.ListenConfig{Host: host}).Listen(context.Background(), "")
	if err != nil {
		host.Close()
		return
	}
	e.host, e.Stream = host, l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
}

// longTime is how long a connection may take to find out whether long frames pass.
const longTime = 500 * time.Millisecond

// long reports whether long frames pass to another end, and whether they arrive in segments: a connection to it finds that
// out.
func (e *End) long(ctx context.Context, to *EndFacts) (passes, cut bool) {
	if e.host == nil || to.Stream == "" {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, longTime)
	defer cancel()
	c, err := (&stream.Dialer{Host: e.host}).Dial(ctx, to.Stream)
	if err != nil {
		return false, false
	}
	defer c.Close()
	end, _ := ctx.Deadline()
	c.SetDeadline(end)
	for out, in := make([]byte, 2*framing.LongMTU), make([]byte, 2*framing.LongMTU); ; { // several long frames
		s := e.nic.Snapshot()
		if i := slices.IndexFunc(s.VIs, func(v vipl.VISnapshot) bool {
			return v.Remote.MAC == to.Addr.MAC && v.FrameData > s.Attributes.NativeMTU
		}); i >= 0 {
			return true, s.VIs[i].LongCut > 0
		}
		echoed := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(c, in)
			echoed <- err
		}()
		if _, err := c.Write(out); err != nil {
			return false, false
		}
		if <-echoed != nil {
			return false, false
		}
	}
}

// Close closes the NIC.
func (e *End) Close() {
	if e.host != nil {
		e.host.Close()
	}
	if e.nic != nil {
		e.nic.Close()
	}
}
