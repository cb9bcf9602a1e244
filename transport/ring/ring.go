// Package ring is the fast link: an AF_PACKET socket whose receive queue is mapped into memory
// (TPACKET_V2), and batched sends.
//
// To receive, the link checks a status word in the mapped ring, without a system call, and the
// caller reads frames in place. The ring uses version 2, because version 3 delivers blocks of
// frames when a timer expires. Sending is one system call for a batch, which gathers the parts of
// each frame from the caller's memory.
//
// There are two sockets. The sending socket is bound to protocol 0 and receives nothing. The kernel
// signals the completion of a send to goroutines that wait on the same socket; with two sockets it
// cannot disturb the goroutine that waits for frames. Also, a socket error of one direction is not
// reported to the other.
//
// Batches of frames of up to 4096 bytes may be sent through an additional AF_XDP socket, at less
// cost (see Config.XDP).
//
// The package needs CAP_NET_RAW, or an agent (see Config.Agent). Sockets belong to the network
// namespace of the thread that calls Open.
package ring

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/sleep"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Config configures the link. Nil and zero fields mean the defaults.
type Config struct {
	// Interface is the name or MAC address of the network interface. Empty means the only one that
	// is up (see package iface).
	Interface string
	// EtherType of the frames; 0 means ethertype.Default.
	EtherType ethernet.EtherType
	// Ports are the ports whose frames the link receives. No other link of the host may claim ports
	// in the same blocks of 1024. Zero means the first free block from 1024.
	Ports transport.PortRange
	// QdiscBypass makes frames bypass the traffic control layer. This saves time per frame on some
	// NICs, but increases loss under load, disables netem, and hides sent frames from tcpdump.
	QdiscBypass bool
	// Slots is the minimum capacity of the receive queue in frames. It is rounded up to whole
	// blocks, raised to 64 and limited to 64 MiB of memory. 0 means 2 MiB of slots, but at least
	// 64. Frames whose rest is fetched (transport.LongLink) also use the socket's buffer, which
	// holds some hundred frames of 64 KiB.
	Slots int
	// XDP selects whether frames of up to 4096 bytes are sent through an AF_XDP socket instead of a
	// packet socket.
	//
	// For batches this saves the sender between a sixth (full frames at MTU 1500) and a quarter
	// (small frames) of the cost, because the frames skip parts of the kernel. They bypass the
	// traffic control layer, and tcpdump on the sending host does not see them. A single frame in
	// one piece gains nothing. The socket needs 128 or 256 KiB of locked memory. It also needs one
	// of the interface's queues, which only one socket can use: most virtual interfaces have one. A
	// link reports its method in Info().Driver ("ring" or "ring+xdp") and in Stats().TxXDP.
	//
	// Auto uses AF_XDP for the kinds of frames for which Open measures it to be faster. This
	// requires that a queue is free, and that the interface has no queueing discipline at the time,
	// or QdiscBypass is set. (Frames bypass a discipline that is added later, such as netem: select
	// Off in advance.) The measurement takes about a millisecond, more on a busy machine, and sends
	// up to 800 frames addressed to the interface's own MAC. The station, bridge or switch at the
	// other end drops them; its counters of the interface include them.
	//
	// On uses AF_XDP for every frame that fits. It implies QdiscBypass for the others, so that no
	// frame waits in a queue while later ones overtake it.
	XDP Choice
	// Long selects whether the link also carries frames longer than its MTU (transport.LongLink). This works with
	// stations that the link reaches only through virtual interfaces and bridges, if both links enable it. A long frame
	// costs little more than a frame of the interface's MTU, and the receiver copies it once. With a small MTU this
	// multiplies the bandwidth, as the same offload (TSO) does for TCP. Long frames never bypass the queueing
	// discipline, whatever QdiscBypass and XDP are. If a kernel or card on the way cuts them, the receiving link joins
	// the segments. While the link receives long frames, the kernel passes each IPv6 packet of the interface to the
	// link's filter. The link receives long frames only while connections use them.
	//
	// Auto enables long frames on veth, bridge, macvlan and VLAN interfaces if the buffer is
	// available (net.core.rmem_max, or CAP_NET_ADMIN). It does not if the MTU makes them useless, or
	// if the kernel filters what the Agent's sockets send. On enables them on any interface with an
	// MTU from 1280 to 65,460, and Open fails if they are not possible.
	Long Choice
	// Agent is the path of the socket of the node's agent (package agent), which opens the sockets
	// and claims the ports for this process. Such a link needs no privilege and does not use AF_XDP:
	// with XDP On, Open fails. If the kernel filters what the sockets send, Open fails with
	// QdiscBypass, too. Empty means that the process opens its sockets itself.
	Agent string
	// AgentNear also requests the sockets that make the ports known within the host. The caller gets
	// them from Lease.TakeNear, and joins the link to shared memory with them.
	AgentNear bool
}

type base = driver.Base

// Link is a transport.Link on a mapped receive ring. Goroutines may share it as documented at
// transport.Link.
type Link struct {
	base
	gate  *driver.Gate // of base
	count *driver.Counters
	rx    receiver
	tx    sender
	long  long
	wait  sleep.Waiter
	info  transport.Info

	station *afpacket.Station
	lease   *agent.Lease // nil without an agent
	slots   int          // Config.Slots
}

// Open opens a link. A nil cfg means the defaults. The error wraps transport.ErrInterface,
// transport.ErrPermission, transport.ErrLinkDown, or EADDRINUSE if the ports are taken. ctx bounds
// the call alone, not the link: if it ends before the agent has answered, the error wraps the
// context's error.
func Open(ctx context.Context, cfg *Config) (*Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("transport: open link: %w", err)
	}
	if cfg == nil {
		cfg = new(Config)
	}
	l := &Link{slots: cfg.Slots}
	l.gate, l.count = driver.Init(&l.base, driver.Hooks{Evict: l.wait.Sleeper.Wake, Dropped: l.dropped, Release: l.release,
		Check: func() error { return l.station.Check(l.rx.fd) }})
	if err := l.place(ctx, cfg); err != nil {
		return nil, err
	}
	l.info = l.station.Info("ring")
	if l.lease != nil {
		l.info.Driver += "+agent"
	}
	l.rx.fd, l.tx.fd, l.long.fd, l.long.rx.fd, l.long.from = -1, -1, -1, -1, -1
	if err := l.open(cfg); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// place gets the station: the interface, the ports, and from an agent the sockets.
func (l *Link) place(ctx context.Context, cfg *Config) (err error) {
	if cfg.Agent == "" {
		l.station, err = afpacket.NewStation(cfg.Interface, cfg.EtherType, cfg.Ports)
		return err
	}
	long := func(i iface.Interface) bool { return cfg.Long != Off && longPossible(i, false) == nil }
	l.lease, err = agent.Open(ctx, cfg.Agent, agent.Wish{Interface: cfg.Interface, EtherType: cfg.EtherType, Ports: cfg.Ports, Long: long, Near: cfg.AgentNear})
	if err != nil {
		return err
	}
	l.station = l.lease.Station
	return nil
}

func init() {
	agent.LeaseOf = func(link transport.Link) *agent.Lease {
		if l, ok := transport.As[*Link](link); ok {
			return l.lease
		}
		return nil
	}
}

// open acquires the resources that release frees.
func (l *Link) open(cfg *Config) error {
	if err := l.tx.openSocket(l.station, cfg.QdiscBypass || cfg.XDP == On && cfg.Agent == ""); err != nil {
		return err
	}
	if err := l.openXDP(cfg); err != nil {
		return err
	}
	geo := layout(l.info.MTU, cfg.Slots)
	l.info.Slots = geo.slots()
	if err := l.rx.openSocket(l.station, geo, afpacket.AllFrames); err != nil {
		return err
	}
	if err := l.rx.bindMain(l.station); err != nil {
		return err
	}
	if err := l.openLong(cfg); err != nil {
		return err
	}
	l.closeGiven()
	if err := l.station.Confirm(); err != nil {
		return err
	}
	return l.station.OpenError("eventfd", l.wait.Open(l.gate, l.count, l.rx.fd, l.long.rx.fd))
}

// closeGiven closes the sockets from an agent that the link does not use.
func (l *Link) closeGiven() {
	agent.CloseAll(l.station.Given)
	l.station.Given = l.station.Given[:0]
}

// release closes the sockets and unmaps the ring. Views that are read afterwards show zeros; they do
// not fault.
func (l *Link) release() error {
	l.tx.express.close() // first, because the kernel takes longest to free its queue
	for _, fd := range []int{l.rx.fd, l.tx.fd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	l.long.close()
	l.wait.Close()
	l.rx.mapped.retire()
	if l.lease != nil {
		l.lease.Close()
		l.closeGiven()
	}
	l.station.Release()
	return nil
}

// Info implements transport.Link.
func (l *Link) Info() transport.Info { return l.info }

// dropped returns how many frames the kernel has dropped since the previous call. The kernel also
// marks frames that follow a drop (TP_STATUS_LOSING), which adds no information to the count.
func (l *Link) dropped() (n uint64) {
	for _, fd := range []int{l.rx.fd, l.long.rx.fd} {
		if fd < 0 {
			continue
		}
		if st, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n += uint64(st.Drops)
		}
	}
	return n
}
