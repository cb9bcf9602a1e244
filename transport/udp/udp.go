package udp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/sleep"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// DefaultBasePort is the default of Config.BasePort. It is above the ports that Linux assigns to
// clients (net.ipv4.ip_local_port_range), and low enough for all blocks.
const DefaultBasePort = 61952

// groupPort is the group's UDP port, relative to BasePort: it follows those of the port blocks.
const groupPort = driver.Blocks

// Config configures the link. Nil and zero fields mean the defaults.
type Config struct {
	// Interface is the name of the network interface, its MAC address, or one of its IP addresses.
	// Empty means the only one that is up and has an address, except the loopback interface.
	Interface string
	// Network is "udp4", "udp6" or empty. Empty means IPv4 if the interface has an IPv4 address.
	Network string
	// EtherType of the frames; 0 means ethertype.Default.
	EtherType ethernet.EtherType
	// Ports are the ports whose frames the link receives. No other link at this IP address may have
	// ports in the same blocks of 1024. Zero means the first free block from 1024.
	Ports transport.PortRange
	// BasePort is the first of 65 consecutive UDP ports, the same at all stations; 0 means
	// DefaultBasePort.
	BasePort uint16
	// Peers are stations that multicast does not reach, behind a router or in a cloud. Broadcasts
	// are sent to each of them. A peer that multicast does reach receives broadcasts twice.
	Peers []netip.Addr
	// MTU makes Info.MTU smaller than the interface allows, for paths with a smaller MTU; 0 means
	// the interface's.
	MTU int
	// NoSegments disables UDP_SEGMENT and UDP_GRO: each frame is one message to and from the
	// kernel.
	NoSegments bool
	// Logger receives conditions that reduce performance, with the remedy: a receive buffer that is
	// too small at level Warn, others at level Debug. Nil means slog.Default().
	Logger *slog.Logger
}

type base = driver.Base

// Link is a transport.Link on UDP sockets. Goroutines may share it as documented at transport.Link.
type Link struct {
	base
	gate  *driver.Gate // of base
	count *driver.Counters
	rx    receiver
	tx    sender
	wait  sleep.Waiter
	info  transport.Info

	station  *station
	hardware atomic.Pointer[ethertype.MAC] // see Info
	where    *stations
	first    int   // UDP port of block 0
	lo       int   // our first block
	socks    []int // one for each of our blocks, from lo on
	group    int   // receives broadcasts; -1 if the interface has no multicast
	probe    int   // see checkAddress
	have     int   // size of each receive buffer as the kernel counts it

	lost []uint32 // drops of each socket when last read
}

var _ optional.Watcher = (*Link)(nil)

// Open opens a link in the network namespace of the calling thread. A nil cfg means the defaults.
// The error wraps transport.ErrInterface, transport.ErrLinkDown, or EADDRINUSE if the ports are
// taken. ctx bounds the call alone, not the link: if it has ended, Open opens nothing and the error
// wraps the context's error.
func Open(ctx context.Context, cfg *Config) (*Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("transport: open link: %w", err)
	}
	if cfg == nil {
		cfg = new(Config)
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := find(&c)
	if err != nil {
		return nil, err
	}
	for _, peer := range c.Peers {
		if peer.Unmap().Is6() != s.ip.Is6() {
			return nil, fmt.Errorf("transport: peer %v: %w: the link is at %v, and a link is IPv4 or IPv6 (choose with Network)", peer, unix.EINVAL, s.ip)
		}
	}
	l := &Link{
		station: s, first: int(c.BasePort), where: newStations(s.ip, c.Peers), group: -1, probe: -1,
	}
	l.gate, l.count = driver.Init(&l.base, driver.Hooks{Evict: l.wait.Sleeper.Wake, Dropped: l.dropped, Check: l.check, Release: l.release})
	if err := l.open(&c); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// withDefaults returns c with defaults in place of zero fields, or an error if c is invalid.
func (c Config) withDefaults() (Config, error) {
	if c.EtherType == 0 {
		c.EtherType = ethertype.Default
	}
	if c.BasePort == 0 {
		c.BasePort = DefaultBasePort
	}
	c.Logger = logqueue.New(c.Logger).Logger()
	switch {
	case c.Network != "" && c.Network != "udp4" && c.Network != "udp6":
		return c, fmt.Errorf("transport: network %q: %w: want udp4, udp6, or nothing for either", c.Network, unix.EINVAL)
	case int(c.BasePort)+groupPort > 65535:
		return c, fmt.Errorf("transport: base port %d: %w: %d UDP ports from there on do not fit below 65536; take %d",
			c.BasePort, unix.EINVAL, groupPort+1, DefaultBasePort)
	case c.MTU != 0 && c.MTU < ethertype.MinMTU:
		return c, fmt.Errorf("transport: MTU %d: %w: want at least %d, or 0 for what the interface allows", c.MTU, unix.EINVAL, ethertype.MinMTU)
	}
	return c, driver.CheckPorts(c.Ports)
}

// open acquires the resources that release frees.
func (l *Link) open(c *Config) error {
	l.info = transport.Info{
		Driver: "udp", Interface: l.station.name, MAC: l.station.mac, EtherType: c.EtherType, BasePort: c.BasePort,
		MTU: l.station.frameMTU(l.station.ip),
	}
	if c.MTU > 0 {
		l.info.MTU = min(l.info.MTU, c.MTU)
	}
	var mac ethertype.MAC
	copy(mac[:], l.station.candidate.mac) // an interface that is not Ethernet has no address or a longer one
	l.hardware.Store(&mac)
	if err := l.claim(c.Ports); err != nil {
		return err
	}
	var err error
	if l.probe, err = l.datagrams(); err != nil {
		return l.openError("open socket", err)
	}
	if err := l.joinGroup(c.EtherType); err != nil {
		c.Logger.Debug("no multicast on this interface; broadcasts reach the configured peers only",
			"interface", l.station.name, "err", err, "peers", len(l.where.peers))
	}
	if err := l.Shortage(); err != nil {
		c.Logger.Warn(err.Error())
	}
	l.info.Slots = l.have / kernelSize(l.info.MTU)
	l.tx.init(l, !c.NoSegments)
	l.rx.init(l, !c.NoSegments)
	l.lost = make([]uint32, len(l.rx.fds))
	return l.openError("eventfd", l.wait.Open(l.gate, l.count, l.rx.fds...))
}

// kernelSize estimates how much of a receive buffer a datagram with a full frame takes. The kernel
// rounds its pages up and adds a header.
func kernelSize(mtu int) int { return mtu*5/4 + 1024 }

// release closes the sockets, which are no longer in use.
func (l *Link) release() error {
	for _, fd := range append(l.socks, l.group, l.probe) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	l.wait.Close()
	return nil
}

// Info implements transport.Link. Slots is an estimate for full frames, because the queue counts
// bytes.
func (l *Link) Info() transport.Info {
	info := l.info
	info.Hardware = *l.hardware.Load()
	return info
}

// Addr returns the station's IP address.
func (l *Link) Addr() netip.Addr { return l.station.ip }

// dropped returns how many datagrams the kernel has dropped since the previous call, because the
// buffer was full or the UDP checksum was wrong. A message of several datagrams counts once.
func (l *Link) dropped() (n uint64) {
	for i, fd := range l.rx.fds {
		if now, err := drops(fd); err == nil {
			n += uint64(now - l.lost[i])
			l.lost[i] = now
		}
	}
	return n
}
