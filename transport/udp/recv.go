package udp

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

const (
	slotsMax = 16 // messages in one system call
	slotSize = 1 << 16
	// Successive slots start at different places of the cache, so that short datagrams do not
	// compete for the same cache lines. They also start two bytes off, so that the payload after
	// the header is aligned.
	slotStride = slotSize + 24*64
	slotShift  = 2
	groupMax   = 4 // messages read from the group in one call
)

// slot is one message as the kernel delivers it: a datagram, or several of one size that arrived
// together. The last of them may be shorter.
type slot struct {
	data  []byte
	size  int // of each datagram
	group bool
	cut   bool // it was longer than the slot
}

// Values of receiver.group, from the last poll of all sockets.
const (
	groupUnknown = iota
	groupQuiet   // nothing to read
)

// receiver is the receiving half of a Link.
type receiver struct {
	fds  []int // sockets to read: those of our ports, and the group last
	ours int   // how many of fds are for our ports
	turn int   // which of these to read first

	area   []byte
	slots  [slotsMax]slot
	filled int         // slots that hold messages
	at     int         // the first slot with unread frames
	off    int         // the offset of the next frame in it
	left   atomic.Bool // there are unread frames
	group  atomic.Int32
	each   int // datagrams in the last message

	src    source // of the slot at
	frames int    // received, not yet counted; also the next fields
	bytes  int
	strays int

	args recvArgs
}

// source is the sender of a message.
type source struct {
	ip   netip.Addr // without zone
	mac  ethertype.MAC
	port int
}

func (r *receiver) init(l *Link, segments bool) {
	r.fds = append(r.fds, l.socks...)
	r.ours = len(r.fds)
	if l.group >= 0 {
		r.fds = append(r.fds, l.group)
	}
	if segments {
		for _, fd := range r.fds {
			// Without UDP_GRO (Linux before 5.0) datagrams arrive one by one.
			_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
		}
	}
	r.area = make([]byte, slotsMax*slotStride+slotShift)
	r.each = 1
	r.args.init(r.area)
}

// Recv implements transport.Link. It makes two system calls, or one if Ready or Wait has found only
// one of the sockets readable. It makes none while frames of the last message are left.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	if !l.gate.Enter() {
		return 0, transport.ErrClosed
	}
	if views = views[:min(len(views), transport.MaxBatch)]; len(views) > 0 {
		r := &l.rx
		if r.at == r.filled {
			l.fill(len(views))
		}
		if r.filled > 0 {
			n = l.fillViews(views)
			l.publish()
		}
	}
	l.gate.Leave()
	return n, nil
}

// fill reads messages with about want frames. It reads the group first: a sender that sends a
// broadcast and then a unicast frame expects that order.
func (l *Link) fill(want int) {
	r := &l.rx
	r.filled, r.at, r.off = 0, 0, 0
	if hint := r.group.Swap(groupUnknown); hint == groupUnknown && r.ours < len(r.fds) {
		l.read(r.fds[r.ours], groupMax, true)
	}
	limit := max(want/r.each, 1)
	for i := range r.ours {
		if room := slotsMax - r.filled; room > 0 {
			l.read(r.fds[(r.turn+i)%r.ours], min(limit, room), false)
		}
	}
	r.turn++
}

// read fills up to limit slots from a socket.
func (l *Link) read(fd, limit int, group bool) {
	r := &l.rx
	n := r.args.recvmmsg(fd, r.filled, limit)
	if n <= 0 {
		return // nothing to read; Send reports network errors
	}
	l.count.RxCalls.Add(1)
	for i := r.filled; i < r.filled+n; i++ {
		s := &r.slots[i]
		s.data, s.size, s.cut = r.args.message(r.area, i)
		s.group = group
	}
	r.filled += n
}

// fillViews fills views with frames from the slots.
func (l *Link) fillViews(views [][]byte) (n int) {
	r := &l.rx
	for n < len(views) && r.at < r.filled {
		s := &r.slots[r.at]
		if r.off == 0 && !l.startMessage(s) {
			r.at++
			continue
		}
		end := min(r.off+s.size, len(s.data))
		frame := s.data[r.off:end:end]
		if l.accepts(frame) {
			views[n] = frame
			n++
			r.bytes += len(frame)
		} else {
			r.strays++
		}
		if r.off = end; end == len(s.data) {
			r.each = (end + s.size - 1) / s.size
			r.at, r.off = r.at+1, 0
		}
	}
	r.frames += n
	if more := r.at < r.filled; more != r.left.Load() {
		r.left.Store(more)
	}
	return n
}

// startMessage determines the source of the message in s, and reports whether it may contain frames
// for this link.
func (l *Link) startMessage(s *slot) bool {
	r := &l.rx
	switch {
	case s.cut:
		l.count.RxTruncated.Add(1)
		return false
	case len(s.data) == 0:
		r.strays++
		return false
	}
	r.args.source(r.at, &r.src)
	self := r.src.ip == l.station.ip
	if b := r.src.port - l.first; s.group && self && l.ourBlock(b) {
		return false // our own broadcast; the other links receive it too
	}
	return true
}

func (l *Link) ourBlock(b int) bool { return b >= l.lo && b < l.lo+len(l.socks) }

// accepts reports whether frame is for this link, and its source address matches its sender.
func (l *Link) accepts(frame []byte) bool {
	if len(frame) < ethertype.HeaderSize {
		return false
	}
	be := binary.BigEndian
	src := &l.rx.src
	port, ok := framing.Concerns(frame, l.info.EtherType, l.info.MAC)
	switch {
	case !ok:
		return false
	case port != ethertype.PortAll && !l.info.Ports.Contains(port):
		return false
	case ethertype.MAC(frame[framing.OffsetSrc:]) != src.mac:
		return false
	case driver.Block(be.Uint16(frame[framing.OffsetSrcPort:])) != src.port-l.first:
		return false
	}
	return l.where.learn(src.mac, src.ip)
}

// publish adds take's counts to the counters.
func (l *Link) publish() {
	r := &l.rx
	driver.Add(&l.count.RxFrames, r.frames)
	driver.Add(&l.count.RxBytes, r.bytes)
	driver.Add(&l.count.RxFiltered, r.strays)
	r.frames, r.bytes, r.strays = 0, 0, 0
}

// Ready implements transport.Link. It makes one system call, or none while frames of the last
// message are left.
func (l *Link) Ready() bool {
	if l.rx.left.Load() {
		return true
	}
	if !l.gate.Enter() {
		return false
	}
	r := &l.rx
	found, group := pollNow(r.fds)
	if r.ours < len(r.fds) && !group && r.group.Load() != groupQuiet {
		r.group.Store(groupQuiet)
	}
	l.gate.Leave()
	return found
}
