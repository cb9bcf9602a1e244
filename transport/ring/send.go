package ring

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// sender is the sending half of a Link: a socket, and preallocated arguments for its system calls.
type sender struct {
	fd   int
	to   *sockaddrPkt        // destination of frames; nil if the socket is bound to it
	vecs [maxVecs]unix.Iovec // parts of frames, in order
	msgs [transport.MaxBatch]unix.Mmsghdr
	express
}

// maxVecs is the maximum number of parts in one system call. The parts of one frame always fit.
const maxVecs = 4 * (1 + transport.MaxBody)

// openSocket opens the sending socket.
func (t *sender) openSocket(s *afpacket.Station, bypass bool) (err error) {
	if t.fd, err = sendingSocket(s, bypass); err == nil && s.Device != "" {
		t.address(s.Device, uint16(s.EtherType))
	}
	return err
}

// sendingSocket returns a socket that is bound to the interface, so that sends need no address, and
// to protocol 0, so that it receives nothing. A socket for Station.Device needs the address, and
// cannot bypass the queueing discipline.
func sendingSocket(s *afpacket.Station, bypass bool) (fd int, err error) {
	if fd, err = s.Socket(); err != nil {
		return -1, s.OpenError("open packet socket", err)
	}
	// A smaller buffer is also usable: it fills sooner, and Send reports that.
	_, _ = afpacket.GrowBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, afpacket.SendBuffer)
	if bypass && s.Device != "" {
		unix.Close(fd)
		return -1, fmt.Errorf("%w: QdiscBypass on %s: frames would bypass the agent's filter, so the agent gives sockets without PACKET_QDISC_BYPASS; leave out QdiscBypass, or run with CAP_NET_RAW and %s= (empty), or start the agent with --unguarded",
			transport.ErrPermission, s.Name, agent.EnvPath)
	}
	if bypass {
		err = s.OpenError("PACKET_QDISC_BYPASS", unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))
	}
	if err == nil && s.Device == "" {
		err = s.OpenError("bind", bind(fd, s.Index, 0))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Send implements transport.Link. It makes one system call for a batch of at most maxVecs parts, or
// for at most xsk.Budget frames with AF_XDP.
func (l *Link) Send(frames []transport.Frame) (n int, err error) {
	if !l.gate.Enter() {
		return 0, transport.ErrClosed
	}
	frames = frames[:min(len(frames), transport.MaxBatch)]
	for more := true; more && n < len(frames); {
		var took int
		took, more, err = l.sendSome(frames[n:])
		n += took
	}
	if l.rx.stale > 0 {
		l.returnSlots()
	}
	l.gate.Leave()
	return n, err
}

// sendSome sends as many of the frames as it can with one system call, or with a second one if
// AF_XDP takes none. more reports whether to continue with the rest.
func (l *Link) sendSome(frames []transport.Frame) (took int, more bool, err error) {
	limit := l.info.MTU + ethertype.EthernetSize
	if err := driver.CheckFrame(&frames[0], limit); err != nil {
		if l.long.on {
			return l.sendLong(frames, limit)
		}
		return 0, false, err
	}
	if took := l.sendXDP(frames, limit); took > 0 {
		return took, true, nil
	}
	var nbytes int
	var errno unix.Errno
	switch f := &frames[0]; {
	case len(frames) == 1 && len(f.Body) == 0:
		took, nbytes, errno = l.tx.one(f.Head)
	default:
		took, nbytes, errno = l.tx.gather(frames, limit)
	}
	return l.sent(took, nbytes, errno)
}

// sent counts the frames that a system call has sent, and decides what its error means.
func (l *Link) sent(took, nbytes int, errno unix.Errno) (n int, more bool, err error) {
	driver.Add(&l.count.TxCalls, 1)
	driver.Add(&l.count.TxFrames, took)
	driver.Add(&l.count.TxBytes, nbytes)
	switch verdict, err := driver.SendVerdict(errno); verdict {
	case driver.Full:
		l.count.TxFull.Add(1)
		return took, false, nil
	case driver.Refuse: // the first one: the kernel reports an error only then
		l.count.TxDrops.Add(1)
		return 1, true, nil
	case driver.Stop:
		return took, errno == unix.ENODEV && l.renamed(), err
	}
	return took, true, nil
}

// renamed reports whether a send has failed because the interface was renamed. In that case it puts
// the new name into the destination address.
func (l *Link) renamed() bool {
	if l.tx.to == nil {
		return false
	}
	now, err := driver.Look(l.rx.fd, l.station.Index, l.station.Name)
	if err != nil || len(now.Name) > afpacket.MaxDevice || now.Name == l.tx.to.name() {
		return false
	}
	l.tx.address(now.Name, uint16(l.station.EtherType))
	return true
}
