package ring

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// receiver is the receiving half of a Link.
type receiver struct {
	fd      int
	mapped  *mapping
	offsets []uint32 // where each slot starts

	// next is the slot that the kernel fills next, as far as we know. Recv
	// moves it; Ready, which may run at the same time, reads it.
	next atomic.Uint32
	// lent counts the slots before next whose views the caller has, and those
	// of frames that were dropped between them.
	lent int
}

// open makes the receiving socket. The order matters: the ring and the filter
// are in place before bind, with which frames begin to arrive.
func (r *receiver) open(s *afpacket.Station, geo geometry) (err error) {
	r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		r.fd = -1
		return s.OpenError("open packet socket", err)
	}
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return s.OpenError("PACKET_VERSION", err)
	}
	if err := attach(r.fd, s.Filter); err != nil {
		return s.OpenError("attach filter", err)
	}
	if err := unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, geo.request()); err != nil {
		return s.OpenError("PACKET_RX_RING", err)
	}
	if r.mapped, err = newMapping(r.fd, geo.size()); err != nil {
		return s.OpenError("map receive ring", err)
	}
	r.offsets = make([]uint32, geo.slots())
	for i := range r.offsets {
		r.offsets[i] = uint32(geo.offset(i))
	}
	if err := bind(r.fd, s.Index, uint16(s.EtherType)); err != nil {
		return s.OpenError("bind", err)
	}
	return checkType(r.fd, s)
}

// attach sets the socket's classic BPF filter.
func attach(fd int, filter []bpf.RawInstruction) error {
	prog := make([]unix.SockFilter, len(filter))
	for i, ins := range filter {
		prog[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
}

// bind binds fd to an interface and an EtherType; 0 receives nothing.
func bind(fd, index int, typ uint16) error {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], typ)
	return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(b[:]), Ifindex: index})
}

func checkType(fd int, s *afpacket.Station) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return s.OpenError("getsockname", err)
	}
	return s.CheckType(sa.(*unix.SockaddrLinklayer).Hatype)
}

// Ready implements transport.Link: one atomic load from the ring.
func (l *Link) Ready() bool {
	r := &l.rx
	return r.mapped.status(int(r.offsets[r.next.Load()]))&unix.TP_STATUS_USER != 0
}

// Recv implements transport.Link. It makes no system call. It first hands the
// slots of the previous call back to the kernel, so a caller that waits before
// it has seen an empty Recv keeps slots from being filled, and Wait returns at
// once.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	if !l.gate.Enter() {
		return 0, transport.ErrClosed
	}
	r := &l.rx
	r.handBack()
	views = views[:min(len(views), transport.MaxBatch)]
	next, octets, truncated := r.next.Load(), 0, 0
	for n < len(views) {
		off := int(r.offsets[next])
		if r.mapped.status(off)&unix.TP_STATUS_USER == 0 {
			break
		}
		// A frame longer than its slot comes cut: the peer's MTU is larger.
		if hdr := r.mapped.header(off); hdr.Snaplen < hdr.Len {
			truncated++
		} else {
			views[n] = r.mapped.bytes(off+int(hdr.Mac), int(hdr.Snaplen))
			octets += int(hdr.Snaplen)
			n++
		}
		r.lent++
		if next++; int(next) == len(r.offsets) {
			next = 0
		}
		if r.lent == len(r.offsets) {
			break // round the ring once: what follows is lent
		}
	}
	if r.lent > 0 {
		r.next.Store(next)
		l.countRecv(n, octets, truncated)
	}
	l.gate.Leave()
	return n, nil
}

// handBack gives the lent slots to the kernel, oldest first, as it fills them.
func (r *receiver) handBack() {
	if r.lent == 0 {
		return
	}
	slot := int(r.next.Load()) - r.lent
	if slot < 0 {
		slot += len(r.offsets)
	}
	for ; r.lent > 0; r.lent-- {
		r.mapped.handBack(int(r.offsets[slot]))
		if slot++; slot == len(r.offsets) {
			slot = 0
		}
	}
}

func (l *Link) countRecv(n, octets, truncated int) {
	l.cnt.RxCalls.Add(1)
	l.cnt.RxFrames.Add(uint64(n))
	l.cnt.RxBytes.Add(uint64(octets))
	add(&l.cnt.RxTruncated, truncated)
}
