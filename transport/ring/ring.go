// Package ring is the fast link: an AF_PACKET socket whose receive queue is
// mapped into memory (TPACKET_V2), and batched sends.
//
// To receive, the link looks at a status word in the mapped ring, without a system call,
// and the caller reads frames where the kernel put them. The ring is of version 2 and not
// 3, because version 3 passes on blocks of frames when a timer expires. Sending is one
// system call for a batch, which gathers each frame from where its parts lie.
//
// There are two sockets. The one that sends is bound to protocol 0 and
// receives nothing: so the completion of a send, which the kernel signals to
// whoever waits on its socket, cannot disturb the one goroutine that waits for
// frames, and a socket error of one direction is not reported to the other.
//
// Batches of frames of up to 4096 bytes may be sent through an AF_XDP socket
// besides, at less cost (see Config.XDP).
//
// The package needs CAP_NET_RAW, or an agent (see Config.Agent). Sockets belong to the
// network namespace of the thread that calls Open.
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

// Config says what to open. The zero Config, or a nil one, means defaults.
type Config struct {
	// Interface is the name or the MAC of the network interface. Empty: the
	// only one that is up (see package iface).
	Interface string
	// EtherType of the frames. 0: ethertype.Default.
	EtherType ethernet.EtherType
	// Ports whose frames to receive. No other link of the host may claim
	// ports in the same blocks of 1024. Zero: the first free block from 1024.
	Ports transport.PortRange
	// QdiscBypass hands frames to the driver past the traffic control layer:
	// less time per frame on some NICs, but more loss under load, no netem,
	// and what is sent is invisible to tcpdump.
	QdiscBypass bool
	// Slots is the least number of frames that the receive queue is to hold;
	// it is rounded up to whole blocks, raised to 64 and cut to 64 MiB of
	// memory. 0: as many as 2 MiB hold, at least 64. Frames whose rest is fetched
	// (transport.LongLink) take of the socket's buffer, too, which holds some hundred of 64 KiB.
	Slots int
	// XDP says whether frames of up to 4096 bytes are sent through an AF_XDP
	// socket instead of a packet socket.
	//
	// In batches that costs the sender a sixth (full frames at MTU 1500) to a
	// quarter (small ones) less, because what else happens to a frame on its
	// way is left out: such frames pass by the traffic control layer, and
	// tcpdump does not see them where they are sent. A frame alone and in one
	// piece gains nothing. The socket needs 128 or 256 KiB of locked memory and
	// one of the interface's queues, which only one can have: one link on most
	// virtual interfaces. Which way a link sends is in its Info().Driver
	// ("ring" or "ring+xdp") and in its Stats().TxXDP.
	//
	// Auto uses AF_XDP for those frames for which Open measures it to be
	// faster, if a queue is free and the interface has no queueing discipline
	// at the time, or QdiscBypass is set. (One that is added later, such as
	// netem, is passed by: choose Off before.) Measuring takes about a
	// millisecond, more on a busy machine, and sends up to 800 frames addressed
	// to the interface's own MAC. The station, bridge or switch at the other
	// end drops them; its counters of the interface show them.
	//
	// On uses AF_XDP for every frame that fits, and implies QdiscBypass for the
	// others, so that none waits in a queue while later ones pass by.
	XDP Choice
	// Long says whether the link also carries frames longer than its MTU
	// (transport.LongLink), to stations that it reaches through virtual interfaces
	// alone. Both links must. Such a frame costs hardly more than one of the
	// interface's MTU, and the receiver copies it once; with small MTUs that is a
	// multiple of the bandwidth, as TCP has it there by the same offload (TSO).
	//
	// The ends of a veth pair carry long frames, a bridge between such pairs does
	// not. Auto has them on a veth interface, where the buffer can be had
	// (net.core.rmem_max, or CAP_NET_ADMIN), unless the MTU makes them useless, or the
	// kernel judges what the Agent's sockets send; Open fails with On where Auto does without.
	Long Choice
	// Agent is the path of the socket of the node's agent (package agent), which opens the
	// sockets and claims the ports in place of this process. Such a link needs no right, and
	// does not use AF_XDP: with XDP On, Open fails. If the kernel judges what the sockets send, Open
	// fails with QdiscBypass, too. Empty: the process opens them itself.
	Agent string
	// AgentNear asks the agent also for the sockets by which the ports are found within the host. The
	// caller gets them by Lease.TakeNear, and joins the link to shared memory with them.
	AgentNear bool
}

type base = driver.Base

// Link is a transport.Link on a mapped receive ring. Goroutines may share it
// as transport.Link says.
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

// Open opens a link. A nil cfg means defaults. The errors wrap
// transport.ErrInterface, transport.ErrPermission, transport.ErrLinkDown, or
// EADDRINUSE when the ports are taken. ctx bounds the call alone, not the link:
// when it ends before the agent has answered, the error wraps the context's.
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
	l.rx.fd, l.tx.fd, l.long.fd = -1, -1, -1
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
	long := func(i iface.Interface) bool {
		return cfg.Long != Off && longPossible(i, layout(i.MTU, cfg.Slots).capacity()) == nil
	}
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

// open acquires what release gives back.
func (l *Link) open(cfg *Config) error {
	if err := l.tx.open(l.station, cfg.QdiscBypass || cfg.XDP == On && cfg.Agent == ""); err != nil {
		return err
	}
	if err := l.openXDP(cfg); err != nil {
		return err
	}
	geo := layout(l.info.MTU, cfg.Slots)
	l.info.Slots = geo.slots()
	if err := l.rx.open(l.station, geo); err != nil {
		return err
	}
	if err := l.openLong(cfg, geo.capacity()); err != nil {
		return err
	}
	l.closeGiven()
	if err := l.station.Confirm(); err != nil {
		return err
	}
	return l.station.OpenError("eventfd", l.wait.Open(l.gate, l.count, l.rx.fd))
}

// closeGiven closes the sockets that an agent has given and nobody has taken.
func (l *Link) closeGiven() {
	agent.CloseAll(l.station.Given)
	l.station.Given = l.station.Given[:0]
}

// release closes the sockets and unmaps the ring. Views that are read afterwards show zeros; they do
// not fault.
func (l *Link) release() error {
	l.tx.express.close() // before the others: the kernel takes longest to free its queue
	for _, fd := range []int{l.rx.fd, l.tx.fd, l.long.fd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
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

// dropped returns the kernel's count of drops since it was last read. The
// kernel also marks frames that follow a drop (TP_STATUS_LOSING); that says no
// more than the count does.
func (l *Link) dropped() uint64 {
	st, err := unix.GetsockoptTpacketStats(l.rx.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return uint64(st.Drops)
}
