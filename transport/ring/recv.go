package ring

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// receiver is the receiving half of a Link.
type receiver struct {
	fd      int
	mapped  *mapping
	former  *mapping // the ring before replace: the caller may still have views of it, which read as zeros
	offsets []uint32 // where each slot starts

	// at is the index of the next slot to read. Recv advances it. Ready, which can run
	// concurrently, reads it.
	at atomic.Uint32
	// lent counts the slots before at that the caller has views of, including slots between them
	// whose frames were dropped. stale counts the slots before those: their frames are not counted
	// yet, and the slots are not yet returned to the kernel.
	lent, stale int

	frames, bytes, truncated, overrun, cut, forged int // received, not yet counted
}

// staleMax is the maximum number of slots that wait to be returned to the kernel. Returning a slot
// moves its cache line from the sender's processor, which costs a tenth of the time per frame. The
// link therefore returns slots when no frame has to wait for it: after a send, when the ring is
// empty, or when staleMax slots wait.
const staleMax = 32

// openSocket creates a receiving socket. The ring and the filter must be in place before bind, because
// frames arrive from then on.
func (r *receiver) openSocket(s *afpacket.Station, geo geometry, which afpacket.Which) (err error) {
	if r.fd, err = s.Socket(); err != nil {
		r.fd = -1
		return s.OpenError("open packet socket", err)
	}
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return s.OpenError("PACKET_VERSION", err)
	}
	if err := s.Attach(r.fd, which); err != nil {
		return err
	}
	return s.OpenError("receive ring", r.mapRing(geo))
}

// bindMain binds the socket to the station's EtherType. Frames arrive from then on.
func (r *receiver) bindMain(s *afpacket.Station) error {
	if err := bind(r.fd, s.Index, uint16(s.EtherType)); err != nil {
		return s.OpenError("bind", err)
	}
	return checkType(r.fd, s)
}

// bind binds fd to an interface and an EtherType. With EtherType 0 a socket that has not been bound
// receives nothing, and one that has been keeps its EtherType.
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

// Ready implements transport.Link: one atomic load from each ring.
func (l *Link) Ready() bool {
	r := &l.rx
	off := int(r.offsets[r.at.Load()])
	if r.mapped.status(off)&unix.TP_STATUS_USER == 0 {
		return l.long.ever.Load() && l.long.rx.next() != nil
	}
	r.mapped.prefetch(off)
	return true
}

// Recv implements transport.Link. It makes no system call. It returns the slots of earlier calls to
// the kernel, at the latest when it finds no frame. If the caller waits before a Recv has returned
// no frame, the wait may therefore end at once.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	if !l.gate.Enter() {
		return 0, transport.ErrClosed
	}
	t, r := &l.long, &l.rx
	if t.failed != nil {
		l.gate.Leave()
		return 0, t.failed
	}
	r.stale += r.lent
	r.lent = 0
	if t.from >= 0 {
		t.drop()
	}
	if t.joined != nil {
		t.joined = nil
		t.keep(-1, 0, 0, nil)
	}
	if t.rx.lent > 0 {
		t.giveBack(l.count)
	}
	views = views[:min(len(views), transport.MaxBatch)]
	n = r.fillViews(views, t)
	if t.ever.Load() && t.from < 0 && n < len(views) {
		if view := t.nextView(r, l.station); view != nil {
			views[n] = view
			n++
		} else if n == 0 && t.rx.lent > 0 {
			n = r.fillViews(views, t) // what arrived after segments
		}
	}
	if n == 0 && t.rx.lent > 0 { // segments of frames that are not whole; a wait would end at once
		t.giveBack(l.count)
	}
	if r.lent == 0 || r.stale >= staleMax {
		l.returnSlots()
	}
	l.gate.Leave()
	return n, nil
}

// fillViews fills views from the slots that the kernel has filled. It stops before a frame that arrived
// after the next long frame, and at a frame whose end is still in the socket's queue.
func (r *receiver) fillViews(views [][]byte, long *long) (n int) {
	next := r.at.Load()
	for n < len(views) && r.lent+r.stale < len(r.offsets) { // at most one round of the ring: the slots beyond are lent
		off := int(r.offsets[next])
		if r.mapped.status(off)&unix.TP_STATUS_USER == 0 {
			break
		}
		hdr := r.mapped.header(off)
		if long.ever.Load() && long.precedes(hdr) {
			break
		}
		slot := r.mapped.bytes(off+int(hdr.Mac), int(hdr.Snaplen))
		// A frame that is longer than its slot is truncated. Slots are shorter after shrink, or the
		// peer has a larger MTU.
		kept := hdr.Status&unix.TP_STATUS_COPY != 0
		switch whole := hdr.Snaplen >= hdr.Len; {
		case whole, kept && slot[framing.OffsetVersion] == ethertype.Version:
			views[n] = slot
			r.bytes += int(hdr.Len)
			n++
		case long.keeps && !kept:
			r.overrun++
		default:
			r.truncated++
		}
		if kept {
			long.keep(r.fd, 0, int(hdr.Len-hdr.Snaplen), slot)
		}
		r.lent++
		if next++; int(next) == len(r.offsets) {
			next = 0
		}
		if kept {
			break
		}
	}
	if r.lent > 0 {
		r.frames += n
		r.at.Store(next)
	}
	return n
}

// step takes the next slot, and returns its offset.
func (r *receiver) step() (off int) {
	at := r.at.Load()
	off = int(r.offsets[at])
	if at++; int(at) == len(r.offsets) {
		at = 0
	}
	r.at.Store(at)
	r.lent++
	return off
}

// returnSlots returns the stale slots to the kernel, oldest first because the kernel fills them in
// this order, and counts the received frames.
func (l *Link) returnSlots() {
	r := &l.rx
	r.returnStale()
	r.prefetchStatus()
	if r.frames+r.truncated+r.overrun > 0 {
		l.count.RxCalls.Add(1)
		l.count.RxFrames.Add(uint64(r.frames))
		l.count.RxBytes.Add(uint64(r.bytes))
		driver.Add(&l.count.RxTruncated, r.truncated)
		driver.Add(&l.count.RxDrops, r.overrun)
		r.frames, r.bytes, r.truncated, r.overrun = 0, 0, 0, 0
	}
}

// returnStale returns the stale slots to the kernel.
func (r *receiver) returnStale() {
	slot := int(r.at.Load()) - r.lent - r.stale
	if slot < 0 {
		slot += len(r.offsets)
	}
	for ; r.stale > 0; r.stale-- {
		r.mapped.handBack(int(r.offsets[slot]))
		if slot++; slot == len(r.offsets) {
			slot = 0
		}
	}
}

// prefetchStatus loads the status word of the slot after the next one into the cache. take reads it
// after the next frame to find out whether another frame follows. It was last used a whole round of
// the ring ago.
func (r *receiver) prefetchStatus() {
	after := int(r.at.Load()) + 1
	if after == len(r.offsets) {
		after = 0
	}
	_ = r.mapped.status(int(r.offsets[after]))
}
