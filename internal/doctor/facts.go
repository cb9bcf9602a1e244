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

// askDriver asks the driver of an interface what `ethtool -i`, -k, -c and -g
// show. What it does not know is left at zero.
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
	if c, err := tool.GetCoalesce(name); err == nil {
		d.Coalesces, d.CoalesceMicros = true, int(max(c.RxCoalesceUsecs, c.RxCoalesceUsecsHigh))
		d.AdaptiveRx = c.UseAdaptiveRxCoalesce != 0
	}
	if r, err := tool.GetRing(name); err == nil {
		d.RxRing, d.RxRingMax = int(r.RxPending), int(r.RxMaxPending)
	}
	return d
}

// countTraffic returns what a NIC and its interface have counted so far. Without an interface, or
// its counters, it returns zero.
func countTraffic(nic *vipl.NIC) Traffic {
	link := seam.Link(nic)
	at, err := netlink.LinkByName(link.Info().Interface)
	if err != nil || at.Attrs().Statistics == nil {
		return Traffic{}
	}
	s := at.Attrs().Statistics
	sent := link.Stats() // a frame that is dropped as it leaves may be an error of the call, and is not counted as sent then
	return Traffic{Sent: max(sent.TxFrames, sent.TxCalls), Left: s.TxPackets, Came: s.RxPackets, TxDropped: s.TxDropped, RxDropped: s.RxDropped}
}

// since returns what was counted after before.
func (t Traffic) since(before Traffic) Traffic {
	return Traffic{Sent: t.Sent - before.Sent, Left: t.Left - before.Left, Came: t.Came - before.Came,
		TxDropped: t.TxDropped - before.TxDropped, RxDropped: t.RxDropped - before.RxDropped}
}

// End is a NIC that takes part in a test of the paths between hosts. It answers the others until
// Close.
type End struct {
	EndFacts
	nic    *vipl.NIC
	host   *stream.Host // nil where no long frames could pass
	before Traffic
}

// EndFacts are what an End tells the others, and the judge.
type EndFacts struct {
	Addr      ethertype.Addr
	Interface string
	MTU       int
	Stream    string `json:",omitempty"` // where a stream echoes what is written, to try long frames; "" where none could pass
	Err       string `json:",omitempty"` // why there is no NIC
	Drops     []Drop `json:",omitempty"` // rules of the host that drop frames, as far as they can be read
}

// Reach is what came of sending frames to another End and back.
type Reach struct {
	Small, Full time.Duration // round trips of short frames, and of frames as long as both MTUs allow; 0: none came back
	MTU         int           // of those
	Carries     int           `json:",omitempty"` // the largest MTU whose frames came back, if full ones did not; 0: not measured
	Long        bool          `json:",omitempty"` // long frames pass to the other end
}

// OpenEnd opens a NIC with cfg. Where it cannot, EndFacts says why.
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
		e.Drops, _ = Drops(info.Interface, cmp.Or(cfg.EtherType, ethertype.Default)) // who may not read them sees by the traffic that nothing leaves
		e.before = countTraffic(nic)
	}
	if driver, _ := iface.Driver(info.Interface); driver == "veth" && info.MTU < framing.LongMTU {
		e.serve()
	}
	return e
}

// Reach sends frames to the other ends, to all at once, and returns what came of each, in their order,
// and the traffic since OpenEnd. An end without a NIC is not tried.
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
			all[i].Long = p.Full > 0 && e.long(ctx, &o)
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

// long reports whether long frames pass to another end: a connection to it finds that out.
func (e *End) long(ctx context.Context, to *EndFacts) bool {
	if e.host == nil || to.Stream == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longTime)
	defer cancel()
	c, err := (&stream.Dialer{Host: e.host}).Dial(ctx, to.Stream)
	if err != nil {
		return false
	}
	defer c.Close()
	end, _ := ctx.Deadline()
	c.SetDeadline(end)
	for one := []byte{1}; ; {
		s := e.nic.Snapshot()
		if slices.ContainsFunc(s.VIs, func(v vipl.VISnapshot) bool {
			return v.Remote.MAC == to.Addr.MAC && v.FrameData > s.Attributes.NativeMTU
		}) {
			return true
		}
		if _, err := c.Write(one); err != nil {
			return false
		}
		if _, err := c.Read(one); err != nil {
			return false
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
