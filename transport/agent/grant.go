package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/iface"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
	"github.com/bobnet-go/bobnet/transport/internal/driver"
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
	Mark      uint32 // of the sockets
	sockets   []int  // packet sockets
	claim     *afpacket.Claim
	shown     bool // the program has passed the sockets: package passfd closes them
}

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

// Make claims the ports of a request and opens sockets with a mark, to which their filter
// is locked. Long says whether they may carry long frames.
func Make(r *Request, ifi iface.Interface, mark uint32) (g *Grant, err error) {
	g = &Grant{Interface: ifi, Mark: mark}
	if g.EtherType, err = afpacket.CheckEtherType(r.EtherType); err != nil {
		return nil, err
	}
	kernel, _ := iface.Driver(ifi.Name)
	g.Long = r.Long && kernel == "veth"
	if g.claim, err = afpacket.ClaimPorts(ifi.Index, ifi.Name, g.EtherType, r.Ports); err != nil {
		return nil, err
	}
	g.Ports = g.claim.Ports
	filter, err := g.filter()
	for i := 0; i < Sockets && err == nil; i++ {
		var fd int
		if fd, err = open(filter, mark); err == nil {
			g.sockets = append(g.sockets, fd)
		}
	}
	if err != nil {
		g.Close(0)
		return nil, fmt.Errorf("transport: socket for another program: %w", err)
	}
	return g, nil
}

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

// open returns a packet socket that is bound to nothing. Each has the filter, that to send,
// too: nothing keeps who has it from binding it.
func open(filter []bpf.RawInstruction, mark uint32) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	_, send := afpacket.GrowBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, afpacket.SendBuffer)
	_, receive := afpacket.GrowBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, afpacket.KeepBuffer)
	err = errors.Join(send, receive, afpacket.Attach(fd, filter),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1),
		os.NewSyscallError("set SO_MARK", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark))))
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Take checks what a program shows that says it holds ports: the first of fds is a packet
// socket with an agent's mark, the others hold the claim, all in the network namespace of the
// calling thread. The grant has fds then; on an error they are still the caller's.
func Take(r *Request, ifi iface.Interface, fds []int) (*Grant, error) {
	if len(fds) < 2 || r.Ports.Lo == 0 {
		return nil, fmt.Errorf("transport: no sockets came with ports %d..%d: %w", r.Ports.Lo, r.Ports.Hi, unix.EINVAL)
	}
	typ, err := afpacket.CheckEtherType(r.EtherType)
	if err != nil {
		return nil, err
	}
	if err := afpacket.CheckClaim(ifi.Index, typ, r.Ports, fds[1:]); err != nil {
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
	mark, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_MARK)
	if err != nil {
		return nil, err
	}
	kernel, _ := iface.Driver(ifi.Name)
	return &Grant{Interface: ifi, EtherType: typ, Ports: r.Ports, Long: r.Long && kernel == "veth", Mark: uint32(mark),
		sockets: fds[:1], claim: afpacket.Shown(r.Ports, fds[1:]), shown: true}, nil
}

// Descriptors returns all sockets, as a Reply has them.
func (g *Grant) Descriptors() []int {
	return append(append([]int(nil), g.sockets...), g.claim.Sockets()...)
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
	g.sockets = nil
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
