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

// Grant is what the agent gives to a program, or what a program shows it again. It is the
// agent's until Close.
type Grant struct {
	Interface iface.Interface
	EtherType ethernet.EtherType
	Ports     transport.PortRange
	Long      bool
	Guard     Guard
	sockets   []int // packet sockets; the first is the one that sends
	claim     *afpacket.Claim
	near      []int // sockets by which the program is found within the host
	shown     bool  // the program has passed the sockets: package passfd closes them
}

// Guard describes the sockets of a grant whose sends the kernel judges. The zero Guard is that of
// a grant whose sends it does not judge.
//
// The kernel must send what it has judged. On a socket of type SOCK_RAW a program can make it
// write a checksum anywhere in the frame afterwards (PACKET_VNET_HDR), or change the frame itself
// (PACKET_TX_RING). A socket of type SOCK_PACKET has no option of packet(7) at all: the kernel
// copies the frame, and hands the copy on as it is. So this is what the program gets to send by.
// It receives by a socket of type SOCK_RAW, which has another mark: the kernel drops all
// that this one sends.
type Guard struct {
	Device        string // the name by which the sending socket addresses the interface: at most MaxDevice bytes
	Send, Receive uint32 // marks of the sockets
}

// MaxDevice is how many bytes of a name the address of a SOCK_PACKET socket has room for, in
// front of a NUL. Names of interfaces may have 15.
const MaxDevice = afpacket.MaxDevice

// Find returns the agent's view of the interface of a request. It fails with
// transport.ErrInterface if it is not the program's.
func Find(r *Request) (iface.Interface, error) {
	ifi, err := iface.Find(r.Interface)
	if err != nil {
		return ifi, err
	}
	if ifi.Index != r.Index || ifi.MAC != r.mac() {
		return ifi, fmt.Errorf("%w: the agent's %s has index %d and MAC %v, the program's %d and %s: they are not of one network namespace; start an agent in the program's",
			transport.ErrInterface, r.Interface, ifi.Index, ifi.MAC, r.Index, r.MAC)
	}
	return ifi, nil
}

// Make claims the ports of a request and opens sockets, whose filter is locked to these. If the
// kernel judges what they send, they carry no long frames: those need PACKET_VNET_HDR, by which a
// program can have the kernel write a checksum over what has been judged.
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

// MakeNear makes the sockets by which a program of user uid is found within the host: the program could not
// if another user had taken their names. Without them it tries itself.
func (g *Grant) MakeNear(uid uint32) error {
	cfg := shm.Config{Address: g.Interface.MAC, Segment: strconv.Itoa(g.Interface.Index), EtherType: g.EtherType, Ports: g.Ports}
	near, err := shm.Bind(&cfg, uid)
	g.near = near
	return err
}

// Near returns how many sockets MakeNear has made.
func (g *Grant) Near() int { return len(g.near) }

// filter returns what the sockets receive.
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

// socket is a packet socket that is to be opened; the zero socket is of type SOCK_RAW, without a
// mark.
type socket struct {
	typ  int
	mark uint32
}

// open returns a packet socket that is bound to nothing. The one that sends has the filter, too,
// because the program that gets it may bind it.
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

// Take checks what a program shows that says it holds ports: the first of fds is the packet
// socket that it sends by, the others hold the claim, all in the network namespace of the
// calling thread. Guard.Send of the result is the socket's mark; 0 if the socket is of a type on
// which the kernel may send something else than it has judged. The grant has fds then; on an
// error they are still the caller's.
func Take(r *Request, ifi iface.Interface, fds []int) (*Grant, error) {
	if len(fds) < 2 || r.Ports.Lo == 0 {
		return nil, fmt.Errorf("transport: no sockets came with ports %d..%d: %w", r.Ports.Lo, r.Ports.Hi, unix.EINVAL)
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
		return nil, fmt.Errorf("transport: what came with ports %d..%d is no packet socket: %w", r.Ports.Lo, r.Ports.Hi, unix.EINVAL)
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

// Descriptors returns all sockets, as a Reply has them.
func (g *Grant) Descriptors() []int {
	return slices.Concat(g.sockets, g.claim.Sockets(), g.near)
}

// MAC returns the address that the program's frames have.
func (g *Grant) MAC() ethertype.MAC { return g.Interface.MAC }

// Blocks returns the first and the last block of ports that the grant claims.
func (g *Grant) Blocks() (first, last int) { return driver.Block(g.Ports.Lo), driver.Block(g.Ports.Hi) }

// Close closes the agent's own descriptors, and not those that a program of user uid has shown:
// passfd does that later. What the program has is not touched.
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

// BlockSize is how many ports a block has. They are claimed by blocks.
const BlockSize = driver.BlockSize

// BlocksOf returns how many blocks ports touch; 1 for zero.
func BlocksOf(ports transport.PortRange) int {
	return driver.Block(ports.Hi) - driver.Block(ports.Lo) + 1
}

// Claimed reports whether a process holds a block of ports on an interface.
func Claimed(index int, typ ethernet.EtherType, block int) bool {
	return afpacket.Claimed(index, typ, block)
}
