package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Grant holds the sockets that the agent gives to a program, or that a program shows to it. The
// agent owns it until Close.
type Grant struct {
	Interface iface.Interface
	EtherType ethernet.EtherType
	Ports     transport.PortRange
	Long      bool
	Guard     Guard
	sockets   []int // packet sockets; the first one sends
	claim     *afpacket.Claim
	near      []int // sockets by which programs of the host find this one
	shown     bool  // the program passed the sockets: package passfd closes them
}

// Guard describes sockets whose sends the kernel checks. The zero Guard means that it does not
// check them.
//
// The kernel must send exactly the frame that it has checked. On a socket of type SOCK_RAW a
// program can make the kernel write a checksum anywhere in the frame afterwards (PACKET_VNET_HDR),
// or can change the frame itself (PACKET_TX_RING). A socket of type SOCK_PACKET has none of the
// options of packet(7): the kernel copies the frame, and passes the copy on unchanged. Programs
// therefore get a SOCK_PACKET socket to send. They receive by a SOCK_RAW socket with another mark,
// for which the kernel drops all sends.
type Guard struct {
	Device        string // the interface name in the destination address of sends: at most MaxDevice bytes
	Send, Receive uint32 // marks of the sockets
}

// MaxDevice is the maximum length of an interface name in the address of a SOCK_PACKET socket,
// without the NUL. Interfaces may have names of 15 bytes.
const MaxDevice = afpacket.MaxDevice

// Find returns the interface of a request as the agent sees it. It returns transport.ErrInterface
// if it differs from the program's.
func Find(r *Request) (iface.Interface, error) {
	ifi, err := iface.Find(r.Interface)
	if err != nil {
		return ifi, err
	}
	if ifi.Index != r.Index || ifi.MAC != r.mac() {
		return ifi, fmt.Errorf("%w: the agent's %s has index %d and MAC %v, the program's %d and %s: they are in different network namespaces (start an agent in the program's)",
			transport.ErrInterface, r.Interface, ifi.Index, ifi.MAC, r.Index, r.MAC)
	}
	return ifi, nil
}

// Make claims the ports of a request and opens sockets whose filter is locked to these ports. If
// the kernel checks what they send, they carry no long frames: those need PACKET_VNET_HDR, which
// would let a program change a checked frame.
func Make(r *Request, ifi iface.Interface, guard Guard) (g *Grant, err error) {
	g = &Grant{Interface: ifi, Guard: guard}
	if g.EtherType, err = afpacket.CheckEtherType(r.EtherType); err != nil {
		return nil, err
	}
	guarded := guard != Guard{}
	g.Long = r.Long && iface.CarriesLong(ifi.Name) && !guarded
	if g.claim, err = afpacket.ClaimPorts(ifi.Index, ifi.Name, g.EtherType, r.Ports); err != nil {
		return nil, err
	}
	g.Ports = g.claim.Ports
	filter, err := g.filter()
	wanted := make([]socket, linkSockets)
	if guarded {
		wanted = []socket{{unix.SOCK_PACKET, guard.Send}, {unix.SOCK_RAW, guard.Receive}}
	}
	for i := 0; i < len(wanted) && err == nil; i++ {
		var fd int
		if fd, err = wanted[i].open(filter); err == nil {
			g.sockets = append(g.sockets, fd)
		}
	}
	if err != nil {
		g.Close(0)
		return nil, fmt.Errorf("transport: socket for another program: %w", err)
	}
	return g, nil
}

// MakeNear creates the sockets by which programs of the host find a program of user uid, even if
// another user holds their names. If it fails, the program tries itself.
func (g *Grant) MakeNear(uid uint32) error {
	cfg := shm.Config{Address: g.Interface.MAC, Segment: strconv.Itoa(g.Interface.Index), EtherType: g.EtherType, Ports: g.Ports}
	near, err := shm.Bind(&cfg, uid)
	g.near = near
	return err
}

// Near returns the number of sockets that MakeNear has created.
func (g *Grant) Near() int { return len(g.near) }

// filter returns the filter of the sockets.
func (g *Grant) filter() ([]bpf.RawInstruction, error) {
	which := afpacket.AllFrames
	if g.Long {
		which = afpacket.WithLong
	}
	filter, err := afpacket.Filter(g.EtherType, g.Ports, which)
	if err != nil {
		return nil, err
	}
	return afpacket.OnInterface(g.Interface.Index, filter)
}

// socket describes a packet socket to open. The zero socket has type SOCK_RAW and no mark.
type socket struct {
	typ  int
	mark uint32
}

// open returns an unbound packet socket. The sending socket also gets the filter, because the
// program may bind it.
func (s socket) open(filter []bpf.RawInstruction) (fd int, err error) {
	typ := s.typ
	if typ == 0 {
		typ = unix.SOCK_RAW
	}
	fd, err = unix.Socket(unix.AF_PACKET, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	_, send := afpacket.GrowBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, afpacket.SendBuffer)
	_, receive := afpacket.GrowBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, afpacket.KeepBuffer)
	err = errors.Join(send, receive, afpacket.Attach(fd, filter),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1),
		os.NewSyscallError("set SO_MARK", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(s.mark))))
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Take checks the sockets of a program that claims to hold ports: the first of fds is the packet
// socket that sends, the others hold the claim, all in the network namespace of the calling thread.
// Guard.Send of the result is the mark of that socket, or 0 if the type of the socket lets the
// kernel send something else than it has checked. The grant owns fds; after an error they remain
// the caller's.
func Take(r *Request, ifi iface.Interface, fds []int) (*Grant, error) {
	if len(fds) < 2 || r.Ports.Lo == 0 {
		return nil, fmt.Errorf("transport: the agent sent no sockets with ports %d..%d: %w", r.Ports.Lo, r.Ports.Hi, unix.EINVAL)
	}
	ether, err := afpacket.CheckEtherType(r.EtherType)
	if err != nil {
		return nil, err
	}
	if err := afpacket.CheckClaim(ifi.Index, ether, r.Ports, fds[1:]); err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if err := afpacket.OwnNamespace(fd); err != nil {
			return nil, err
		}
	}
	domain, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_PACKET {
		return nil, fmt.Errorf("transport: the agent sent a file for ports %d..%d that is not a packet socket: %w", r.Ports.Lo, r.Ports.Hi, unix.EINVAL)
	}
	typ, failed := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_TYPE)
	mark, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_MARK)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	var guard Guard
	if typ == unix.SOCK_PACKET {
		guard.Send = uint32(mark)
	}
	return &Grant{Interface: ifi, EtherType: ether, Ports: r.Ports, Long: r.Long && iface.CarriesLong(ifi.Name) && guard == Guard{}, Guard: guard,
		sockets: fds[:1], claim: afpacket.Shown(r.Ports, fds[1:]), shown: true}, nil
}

// Descriptors returns all sockets, in the order of a Reply.
func (g *Grant) Descriptors() []int {
	return slices.Concat(g.sockets, g.claim.Sockets(), g.near)
}

// MAC returns the source address of the program's frames.
func (g *Grant) MAC() ethertype.MAC { return g.Interface.MAC }

// Blocks returns the first and the last block of ports that the grant claims.
func (g *Grant) Blocks() (first, last int) { return driver.Block(g.Ports.Lo), driver.Block(g.Ports.Hi) }

// Close closes the agent's own descriptors. passfd later closes those that a program of user uid
// has shown. The program's own descriptors stay open.
func (g *Grant) Close(uid uint32) {
	if g.shown {
		passfd.Close(uid, g.Descriptors()...)
		return
	}
	CloseAll(g.sockets)
	passfd.Promptly(func() { CloseAll(g.near) })
	g.sockets, g.near = nil, nil
	g.claim.Release()
}

// BlockSize is the number of ports in a block, the unit of claims.
const BlockSize = driver.BlockSize

// BlocksOf returns the number of blocks that ports touches; 1 for zero.
func BlocksOf(ports transport.PortRange) int {
	return driver.Block(ports.Hi) - driver.Block(ports.Lo) + 1
}

// Claimed reports whether a process holds a block of ports on an interface.
func Claimed(index int, typ ethernet.EtherType, block int) bool {
	return afpacket.Claimed(index, typ, block)
}
