package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Long frames (defined by package framing) use two sockets of their own.
//
// On the sending socket, each frame is preceded by a header that tells the kernel to treat the frame as TCP data to be
// segmented (PACKET_VNET_HDR). If no device on the path can segment the frame, the kernel segments it before the
// interface. PACKET_QDISC_BYPASS would skip that step, so it is not set.
//
// The receiving socket has a small ring of its own. A slot holds only the beginning of a frame. The kernel also keeps
// the whole frame (PACKET_COPY_THRESH), and the link copies it from there, once, to its destination. Recv returns the
// frames of both rings in the order of arrival.
//
// If the path has segmented a long frame, the link joins the segments (framing.Joiner) and passes on the frame as if it
// had arrived whole. A slot holds a whole segment, unless the MTU is large: then it holds only the beginning of the
// segment.
//
// While the receiving socket is bound, the kernel passes each IPv6 packet of the interface to the socket's filter. So
// ReceiveLong binds the socket to IPv6 when a connection needs long frames. When no connection needs them any more, it
// binds the socket to an EtherType that no station uses. Open creates the socket, because the process may have given up
// its privileges by the time it is needed.
type long struct {
	fd    int      // sends; -1: no long frames
	rx    receiver // fd -1: none
	on    bool     // the user sends long frames
	many  bool     // the last call has sent manyLong frames
	bound          // rx
	heads [transport.MaxBatch]longHead
	msgs  [transport.MaxBatch]unix.Mmsghdr

	keeps   bool   // the kernel also keeps plain frames that are longer than a slot: see shrink
	failed  error  // of shrink: the link has no ring
	from    int    // the socket that keeps a frame that was not fetched; -1: none
	before  int    // bytes that this socket has of the frame before the view: the headers of a long frame
	rest    int    // bytes of the frame that the view lacks
	view    []byte // the caller's view of the frame
	skipped []byte // room for the bytes before the requested part of a frame
	joiner  framing.Joiner
	joined  []byte    // the frame that begins with view, if it was joined from segments
	cut     bool      // the last long frame arrived in segments
	part    [1][]byte // for fetch
	vecs    [1 + maxFetch]unix.Iovec
}

// longHead holds the headers before the Bobnet header of a long frame.
type longHead [longHeadSize]byte

const (
	vnetSize     = 10 // struct virtio_net_hdr
	longHeadSize = vnetSize + ethertype.EthernetSize + framing.LongHeader
	maxFetch     = 2 + transport.MaxBody
	// longBegin is the capacity of a slot of the ring for long frames: the headers, and the bytes that
	// transport.LongBegin and the first part of a sealed frame need.
	longBegin = framing.LongHeader + 192
	longSlots = 256
	// segmentMTU is the largest MTU for which a slot holds a whole segment. segmentSlots is the number of slots in this
	// case: enough for the segments of some frames of 64 KiB.
	segmentMTU   = 2048
	segmentSlots = 768
)

// errNoLong is wrapped by the errors of Open that explain why Config.Long cannot be On.
var errNoLong = errors.New("transport: no long frames")

var _ transport.LongLink = (*Link)(nil)

// openLong creates the sockets if the interface carries long frames. No long frame arrives before ReceiveLong. A frame
// of the link's MTU is longer than a slot for long frames.
func (l *Link) openLong(cfg *Config) (err error) {
	t, s := &l.long, l.station
	if cfg.Long == Off {
		return nil
	}
	if err := l.longError(cfg.Long == On); err != nil {
		if cfg.Long == On {
			return err
		}
		return nil //nolint:nilerr // Config.Long does not require them
	}
	if t.fd, err = sendingSocket(s, false); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return s.OpenError("PACKET_VNET_HDR", err)
	}
	geo := layout(longBegin, longSlots)
	if s.MTU <= segmentMTU {
		geo = layout(s.MTU, segmentSlots)
	}
	if err := t.rx.openSocket(s, geo, afpacket.WithLong); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(t.rx.fd, unix.SOL_PACKET, unix.PACKET_COPY_THRESH, 1); err != nil {
		return s.OpenError("PACKET_COPY_THRESH", err)
	}
	if err := growBuffer(t.rx.fd); err != nil {
		t.close()
		if cfg.Long == On {
			return err
		}
		return nil //nolint:nilerr // Config.Long does not require them
	}
	t.init(s)
	t.skipped = make([]byte, geo.capacity())
	return nil
}

// close closes the sockets.
func (t *long) close() {
	for _, fd := range []*int{&t.fd, &t.rx.fd} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
	t.rx.mapped.retire()
}

// longError returns why long frames are not available. asked is true if Config.Long is On, which permits any interface.
func (l *Link) longError(asked bool) error {
	if err := longPossible(l.station.Interface, asked); err != nil {
		return err
	}
	if l.lease != nil && !l.lease.Long {
		return fmt.Errorf("%w: the kernel judges what the agent's sockets send, and cannot judge long frames; choose Long auto, or start the agent with --unguarded", errNoLong)
	}
	return nil
}

// longPossible returns why an interface cannot carry long frames, or nil.
func longPossible(s iface.Interface, asked bool) error {
	switch {
	case s.MTU >= framing.LongMTU:
		return fmt.Errorf("%w: the MTU of %s is %d, and no frame is longer than %d; choose Long auto", errNoLong, s.Name, s.MTU, framing.LongMTU)
	case s.MTU < longLeast:
		return fmt.Errorf("%w: the MTU of %s is %d; choose Long auto, or: ip link set dev %s mtu 1500", errNoLong, s.Name, s.MTU, s.Name)
	case !asked && !iface.CarriesLong(s.Name):
		return fmt.Errorf("%w: %s is not a virtual interface; choose Long on", errNoLong, s.Name)
	}
	return nil
}

// longLeast is the minimum MTU of an interface with long frames: the minimum MTU of IPv6 (RFC 8200, section 5).
const longLeast = 1280

// init sets the fields that are the same in all frames.
func (t *long) init(s *afpacket.Station) {
	const (
		needsChecksum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
		gsoTCP6       = 4 // VIRTIO_NET_HDR_GSO_TCPV6
		ipSize        = 40
		checksumAt    = 16 // in a TCP header
	)
	to := &unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Ifindex: int32(s.Index),
		// In network order.
		Protocol: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_IPV6))}
	for i := range t.heads {
		h, native := &t.heads[i], binary.NativeEndian
		h[0], h[1] = needsChecksum, gsoTCP6
		native.PutUint16(h[4:], uint16(s.MTU-framing.LongHeader)) // the length of a segment, for the device that segments the frame
		native.PutUint16(h[6:], ethertype.EthernetSize+ipSize)    // where the checksum begins
		native.PutUint16(h[8:], checksumAt)
		t.address(i, to)
	}
}

// fillHead sets the beginning of message i, whose frame is f. The value that it gives the kernel for the size of the
// headers determines which part of the frame the kernel keeps contiguous; see pages.
func (t *long) fillHead(i int, f *transport.Frame, whole bool) {
	h := &t.heads[i]
	headers := ethertype.EthernetSize + framing.LongHeader
	if whole {
		headers = f.Len() + framing.LongHeader
	}
	binary.NativeEndian.PutUint16(h[2:], uint16(headers))
	framing.PutLong(h[vnetSize:], f.Head, f.Len())
}

// manyLong is the number of long frames in one system call from which the kernel keeps them in pages.
const manyLong = 4

// pages decides whether the kernel keeps the next n frames, which go in one system call, in pages instead of one
// contiguous buffer each. Few frames take less time in contiguous buffers: there is only one buffer to allocate and to
// copy to. Many frames take less time in pages if the receiver spins on another processor: messages of 512 KiB and 1 MiB
// take 0.3 to 0.7 times as long. To a blocked receiver they take as long as in contiguous buffers. What follows a burst
// is usually the end of its message.
func (t *long) pages(n int) bool {
	paged := n >= manyLong || n > 1 && t.many
	t.many = n >= manyLong
	return paged
}

// StartLong implements transport.LongLink.
func (l *Link) StartLong() bool {
	l.long.on = l.long.fd >= 0
	l.shrink()
	return l.long.on
}

// bound records whether a socket is bound to IPv6, and whether it should be.
type bound struct {
	ever     atomic.Bool // the socket has been bound: frames may be in its ring
	mu       sync.Mutex  // guards the rest; not held during a system call that waits
	want     bool        // the user wants the socket to be bound
	now      bool        // the socket is bound; during a change: it was bound before
	changing bool        // a goroutine is binding the socket
}

// typeNobody is the EtherType to which a socket is bound that must receive nothing more. It is reserved (RFC 1701), so
// no station sends it. Protocol 0 would not work: when a bound socket is bound again, the kernel interprets 0 as the
// current protocol.
const typeNobody = 0xFFFF

// ReceiveLong implements transport.LongLink. Binding the socket for the first time is quick. Before the kernel binds it
// to another EtherType, it waits until no processor has a packet for the socket, which takes up to some 100 ms. No
// caller waits for that. Until it is done, the link receives no long frames.
func (l *Link) ReceiveLong(on bool) bool {
	t := &l.long
	if !t.on || !l.gate.Enter() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.want = on
	switch {
	case t.changing || t.now == on:
		l.gate.Leave()
	case !t.ever.Load():
		t.now = bind(t.rx.fd, l.station.Index, unix.ETH_P_IPV6) == nil
		t.ever.Store(t.now)
		l.gate.Leave()
	default:
		t.changing = true
		go l.rebind()
	}
	return t.want && t.now && !t.changing
}

// rebind binds the socket for long frames as the user has last requested. If the kernel refuses, the next ReceiveLong
// tries again.
func (l *Link) rebind() {
	defer l.gate.Leave()
	t := &l.long
	t.mu.Lock()
	defer t.mu.Unlock()
	for err := error(nil); err == nil && t.now != t.want; {
		on, typ := t.want, uint16(typeNobody)
		if on {
			typ = unix.ETH_P_IPV6
		}
		t.mu.Unlock()
		err = bind(t.rx.fd, l.station.Index, typ)
		t.mu.Lock()
		if err == nil {
			t.now = on
		}
	}
	t.changing = false
}

// sendLong makes one system call for the long frames at the beginning of frames, as many as there are. The first frame
// is longer than limit.
func (l *Link) sendLong(frames []transport.Frame, limit int) (took int, more bool, err error) {
	const longest = framing.LongMTU + ethertype.EthernetSize
	n := 0
	for n < len(frames) && frames[n].Len() > limit && frames[n].Len() <= longest && len(frames[n].Body) <= transport.MaxBody {
		n++
	}
	if n == 0 {
		return 0, false, transport.ErrFrameSize
	}
	paged := l.long.pages(n)
	took, nbytes, errno := l.long.send(frames[:n], !paged, l.tx.vecs[:])
	if errno == unix.ENOBUFS && !paged { // the kernel's memory is fragmented
		took, nbytes, errno = l.long.send(frames[:n], false, l.tx.vecs[:])
	}
	if errno == unix.ENOMEM { // also if the interface no longer carries long frames: then there will never be room
		errno = unix.EINVAL
	}
	return l.sent(took, nbytes, errno)
}

// next returns the header of the oldest frame that was not taken yet, or nil.
func (r *receiver) next() *unix.Tpacket2Hdr {
	off := int(r.offsets[r.at.Load()])
	if r.mapped.status(off)&unix.TP_STATUS_USER == 0 {
		return nil
	}
	return r.mapped.header(off)
}

// before reports whether frame a has arrived before b.
func before(a, b *unix.Tpacket2Hdr) bool {
	return a.Sec < b.Sec || a.Sec == b.Sec && a.Nsec < b.Nsec
}

// precedes reports whether the next frame of the ring for long frames arrived before the frame whose header is hdr. The
// caller must have seen hdr first.
func (t *long) precedes(hdr *unix.Tpacket2Hdr) bool {
	first := t.rx.next()
	return first != nil && before(first, hdr)
}

// nextView returns the view of the oldest long frame that arrived before the next frame of main, or nil if there is
// none. It joins segments, and counts and drops frames that are not long frames.
func (t *long) nextView(main *receiver, s *afpacket.Station) (view []byte) {
	r := &t.rx
	for r.lent < len(r.offsets) {
		hdr := r.next()
		if hdr == nil {
			return nil
		}
		if other := main.next(); other != nil && !before(hdr, other) {
			return nil
		}
		off := r.step()
		slot := r.mapped.bytes(off+int(hdr.Mac), int(hdr.Snaplen))
		kept := hdr.Status&unix.TP_STATUS_COPY != 0
		kind := framing.JudgeLong(slot, int(hdr.Len), s.EtherType)
		switch {
		case kind == framing.LongCut:
			r.cut++
			if frame := t.join(slot, int(hdr.Len), kept); frame != nil {
				t.joined, t.cut = frame, true
				view := frame[:min(len(frame), longBegin-framing.LongHeader)] // a forged frame may be short
				t.keep(-1, 0, len(frame)-len(view), view)
				r.frames++
				r.bytes += len(frame)
				return t.view
			}
			continue
		case kind == framing.LongForged:
			r.forged++
		case !kept && hdr.Snaplen < hdr.Len:
			r.overrun++
		default:
			t.cut = false
			t.keep(-1, 0, 0, framing.ShortenLong(slot, s.EtherType))
			if kept {
				t.keep(r.fd, framing.LongHeader, int(hdr.Len)-len(slot), t.view)
			}
			r.frames++
			r.bytes += int(hdr.Len) - framing.LongHeader
			return t.view
		}
		if kept {
			t.keep(r.fd, 0, 0, nil)
			t.drop()
		}
	}
	return nil
}

// join copies a segment of size bytes, which begins in slot, to its place in its frame. It returns the frame if that is
// now complete.
func (t *long) join(slot []byte, size int, kept bool) (frame []byte) {
	const header = ethertype.EthernetSize + framing.LongHeader
	dst := t.joiner.Place(slot, size)
	switch {
	case kept:
		t.keep(t.rx.fd, 0, size-len(slot), slot[:header])
		if dst == nil {
			t.drop()
			return nil
		}
		t.part[0] = dst
		if !t.fetchSame(header, t.part[:]) {
			t.rx.overrun++
			return nil
		}
	case dst == nil:
		return nil
	case copy(dst, slot[header:]) < len(dst):
		t.rx.overrun++
		return nil
	}
	return t.joiner.Placed()
}

// giveBack returns all slots to the kernel, and counts their frames.
func (t *long) giveBack(count *driver.Counters) {
	r := &t.rx
	r.stale, r.lent = r.lent, 0
	r.returnStale()
	if r.frames > 0 {
		count.RxCalls.Add(1)
		count.RxFrames.Add(uint64(r.frames))
		count.RxBytes.Add(uint64(r.bytes))
	}
	driver.Add(&count.RxDrops, r.overrun)
	driver.Add(&count.RxCut, r.cut)
	driver.Add(&count.RxTorn, t.joiner.Torn)
	driver.Add(&count.RxFiltered, r.forged)
	r.frames, r.bytes, r.overrun, r.cut, r.forged, t.joiner.Torn = 0, 0, 0, 0, 0, 0
}

// keep records that a socket keeps a frame of which the caller gets a view.
func (t *long) keep(fd, before, rest int, view []byte) {
	t.from, t.before, t.rest, t.view = fd, before, rest, view
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int { return l.long.rest }

// Cut implements transport.LongLink.
func (l *Link) Cut() bool { return l.long.cut }

// Fetch implements transport.LongLink. It usually makes one system call, and none if the frame was joined from
// segments.
func (l *Link) Fetch(from int, parts [][]byte) bool {
	t := &l.long
	if t.rest == 0 || from < ethertype.HeaderSize || from > len(t.view) || len(parts) > maxFetch || !l.gate.Enter() {
		return false
	}
	defer l.gate.Leave()
	if t.joined == nil {
		return t.fetchSame(from, parts)
	}
	left := t.joined[from:]
	t.joined = nil
	t.keep(-1, 0, 0, nil)
	for _, part := range parts {
		n := copy(part, left)
		if left = left[n:]; n < len(part) {
			return false
		}
	}
	return true
}

// fetchSame copies the frame that the kernel keeps to parts, starting at offset from of its view. It reports whether it
// has filled the parts.
func (t *long) fetchSame(from int, parts [][]byte) bool {
	skipped := t.skipped[:t.before+from]
	want := len(skipped)
	for _, part := range parts {
		want += len(part)
	}
	view, fd := t.view, t.from
	t.keep(-1, 0, 0, nil)
	for {
		got := t.fetch(fd, skipped, parts)
		if got == 0 {
			return false
		}
		if got >= len(skipped) && sameFrame(skipped, view[:from]) {
			return got == want
		}
	}
}

// sameFrame reports whether the beginning of a frame that the kernel has kept, with its headers,
// matches view. The kernel keeps frames in the order of the slots. The comparison ensures that only
// the frame whose header was checked is copied to its destination, and that a frame that was left
// by mistake does not block later frames.
func sameFrame(kept, view []byte) bool {
	const macs = 2 * 6
	return bytes.Equal(kept[:macs], view[:macs]) &&
		bytes.Equal(kept[len(kept)-len(view)+ethertype.EthernetSize:], view[ethertype.EthernetSize:])
}

// drop drops the frame that was not fetched.
func (t *long) drop() {
	t.fetch(t.from, t.skipped[:1], nil)
	t.keep(-1, 0, 0, nil)
}
