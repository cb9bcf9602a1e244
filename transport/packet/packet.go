// Package packet is the plain link: an AF_PACKET socket through github.com/mdlayher/packet. It
// makes one system call per frame and waits in Go's netpoller. It shares no data path with package
// ring, so tests compare the two. It also works if the kernel has no memory for a ring.
//
// The package needs CAP_NET_RAW. The shortest wait is a millisecond, because the netpoller counts
// in milliseconds.
package packet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// buffer is the requested size of the socket buffer in each direction, in the kernel's accounting.
// Without CAP_NET_ADMIN the kernel limits it to net.core.rmem_max and wmem_max.
const buffer = 8 << 20

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
}

type base = driver.Base

// socket is a link on a packet socket.
type socket struct {
	base
	gate    *driver.Gate // of base
	count   *driver.Counters
	conn    *packet.Conn
	raw     syscall.RawConn
	station *afpacket.Station

	send sending
	recv receiving
	wait waiting

	readyMu sync.Mutex
	ready   poll
}

var _ transport.Checker = (*socket)(nil)

// Open opens a link on a packet socket in the network namespace of the calling thread. A nil cfg
// means the defaults. The error wraps transport.ErrInterface, transport.ErrPermission,
// transport.ErrLinkDown, or EADDRINUSE if the ports are taken. ctx bounds the call alone, not the
// link: if it has ended, Open opens nothing and the error wraps the context's error. Goroutines may
// share the link as documented at transport.Link.
func Open(ctx context.Context, cfg *Config) (transport.Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("transport: open link: %w", err)
	}
	if cfg == nil {
		cfg = new(Config)
	}
	station, err := afpacket.NewStation(cfg.Interface, cfg.EtherType, cfg.Ports)
	if err != nil {
		return nil, err
	}
	l := &socket{station: station}
	l.gate, l.count = driver.Init(&l.base, driver.Hooks{Evict: l.wake, Dropped: l.dropped, Check: l.check, Release: l.release})
	if err := l.open(); err != nil {
		if l.conn != nil {
			l.conn.Close()
		}
		station.Release()
		return nil, err
	}
	return l, nil
}

func (l *socket) open() (err error) {
	s := l.station
	ifi := &net.Interface{Index: s.Index, Name: s.Name, MTU: s.MTU, HardwareAddr: s.MAC.HardwareAddr()}
	filter, err := s.Filter(afpacket.AllFrames)
	if err != nil {
		return s.OpenError("filter", err)
	}
	l.conn, err = packet.Listen(ifi, packet.Raw, int(s.EtherType), &packet.Config{Filter: filter})
	if err != nil {
		return s.OpenError("open packet socket", err)
	}
	if l.raw, err = l.conn.SyscallConn(); err != nil {
		return s.OpenError("open packet socket", err)
	}
	var typeErr error
	err = l.raw.Control(func(fd uintptr) { typeErr = l.prepare(int(fd)) })
	if err != nil {
		return s.OpenError("open packet socket", err)
	}
	l.send.init(s.MTU, l.sendAll)
	l.recv.init(s.MTU, l.recvAll)
	l.ready.call = l.ready.look
	if typeErr != nil {
		return typeErr
	}
	return s.Confirm()
}

// prepare sets the options that the library does not set, and checks those that it does not check.
func (l *socket) prepare(fd int) error {
	for _, opt := range [][2]int{{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}, {unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt[0], buffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt[1], buffer)
		}
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return l.station.OpenError("getsockname", err)
	}
	return l.station.CheckType(sa.(*unix.SockaddrLinklayer).Hatype)
}

// Info implements transport.Link. Slots is 0: the queue counts bytes, not
// frames.
func (l *socket) Info() transport.Info { return l.station.Info("packet") }

// dropped returns the kernel's count of drops since it was last read.
func (l *socket) dropped() uint64 {
	st, err := l.conn.Stats()
	if err != nil {
		return 0
	}
	return uint64(st.Drops)
}

func (l *socket) check() (found error) {
	if err := l.raw.Control(func(fd uintptr) { found = l.station.Check(int(fd)) }); err != nil {
		return transport.ErrClosed
	}
	return found
}

func (l *socket) release() error {
	err := l.conn.Close()
	l.station.Release()
	return err
}
