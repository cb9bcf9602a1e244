package udp

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

const (
	maxVecs     = 4 * (1 + transport.MaxBody) // parts in one system call; the parts of one frame always fit
	messageVecs = 1024                        // parts in one message: UIO_MAXIOV
	messageMax  = 65000                       // bytes in one message; leaves room for all IP headers
	segmentsMax = 64                          // frames in one message: UDP_MAX_SEGMENTS
)

// sender is the sending half of a Link: preallocated arguments of its system calls. A message is
// one frame, or several of the same size to the same destination. The last of them may be shorter.
type sender struct {
	sendArgs
	segments bool // the kernel splits messages into frames

	socks []int
	last  way // of the last frame; most frames have the same

	count  int                     // number of messages
	vecs   int                     // number of parts
	frames [transport.MaxBatch]int // in each message

	// Of the message under construction:
	first, size, total int  // its first part; bytes of each frame; bytes in all
	full               bool // nothing more fits
}

func (t *sender) init(l *Link, segments bool) {
	t.socks, t.segments = l.socks, segments
	t.last.key[0] = 1 // the key of no frame
}

// wayKey determines a frame's way: the destination MAC, the port blocks, and whether the
// destination port is PortAll.
type wayKey [10]byte

// way is the destination of frames.
type way struct {
	key  wayKey
	sock int        // index of the sending socket
	ip   netip.Addr // destination address
	port int        // and UDP port
	kind wayKind
}

type wayKind uint8

const (
	nowhere wayKind = iota // no station can have the address
	toOne
	toPorts // all UDP ports of one station
	toAll   // all stations
)

// wayOf returns the way of f. It is valid until the next call.
func (l *Link) wayOf(f *transport.Frame) *way {
	t := &l.tx
	h := f.Head
	be := binary.BigEndian
	dstPort := be.Uint16(h[framing.OffsetDstPort:])
	key := wayKey{h[0], h[1], h[2], h[3], h[4], h[5], byte(driver.Block(dstPort)), byte(driver.Block(be.Uint16(h[framing.OffsetSrcPort:]))), 1}
	if dstPort == ethertype.PortAll {
		key[9] = 1
	}
	if key == t.last.key && (t.last.kind != toAll || !l.where.six) {
		return &t.last
	}
	w := &t.last
	*w = way{key: key, port: l.first + int(key[6])}
	if b := int(key[7]); l.ourBlock(b) {
		w.sock = b - l.lo
	}
	dst := ethertype.MAC(h)
	var known bool
	switch w.ip, known = l.where.find(dst); {
	case dst.IsGroup(), !known && l.where.six: // as a switch does with an address that it has not learned
		w.kind = toAll
	case !known:
		w.kind = nowhere
	case dstPort == ethertype.PortAll:
		w.kind = toPorts
	default:
		w.kind = toOne
	}
	return w
}

// Send implements transport.Link. It makes one system call for a batch of at most maxVecs parts
// from one UDP port.
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
	l.gate.Leave()
	return n, err
}

// sendSome sends as many of the frames as it can with one system call. more reports whether to
// continue with the rest.
func (l *Link) sendSome(frames []transport.Frame) (took int, more bool, err error) {
	t := &l.tx
	if err := l.valid(&frames[0]); err != nil {
		return 0, false, err
	}
	var nbytes int
	var errno unix.Errno
	switch w := l.wayOf(&frames[0]); w.kind {
	case nowhere:
		l.count.TxDrops.Add(1)
		return 1, true, nil
	case toOne:
		sock := w.sock
		l.gather(frames)
		took, nbytes, errno = t.send(t.socks[sock])
		l.count.TxCalls.Add(1)
	default:
		took, nbytes, errno = l.spread(&frames[0])
		if took == 0 && errno == 0 { // there is neither multicast nor a peer
			l.count.TxDrops.Add(1)
			return 1, true, nil
		}
	}
	tried := t.frames[0]
	t.reset()
	driver.Add(&l.count.TxFrames, took)
	driver.Add(&l.count.TxBytes, nbytes)
	if errno == 0 {
		return took, true, nil
	}
	return l.failed(errno, tried)
}

// valid returns ErrFrameSize if the frame's length is not allowed.
func (l *Link) valid(f *transport.Frame) error {
	if len(f.Head) < ethertype.HeaderSize {
		return transport.ErrFrameSize
	}
	return driver.CheckFrame(f, l.info.MTU+ethertype.EthernetSize)
}

// failed decides how to continue after the kernel has rejected a message of tried frames.
func (l *Link) failed(errno unix.Errno, tried int) (took int, more bool, err error) {
	verdict, err := driver.SendVerdict(errno)
	switch {
	case verdict == driver.Again:
		return 0, true, nil
	case verdict == driver.Full:
		l.count.TxFull.Add(1)
		return 0, false, nil
	case verdict == driver.Stop:
		return 0, false, err
	}
	switch down := l.check(); { // without interface or address there is no route
	case errors.Is(down, transport.ErrGone):
		return 0, false, transport.ErrGone
	case errors.Is(down, transport.ErrLinkDown):
		return 0, false, transport.ErrLinkDown
	case tried > 1 && (errno == unix.EIO || errno == unix.EINVAL):
		l.tx.segments = false // the interface cannot compute checksums, or the kernel is older than 4.18
		return 0, true, nil
	}
	l.count.TxDrops.Add(uint64(tried))
	return tried, true, nil
}

// gather builds messages from frames. It stops at the first frame that is invalid, that does not
// fit, that goes to several destinations, or that another socket sends. The caller has checked the
// first frame.
func (l *Link) gather(frames []transport.Frame) {
	t := &l.tx
	sock, key := t.last.sock, t.last.key
	for i := range frames {
		f := &frames[i]
		if i > 0 && l.valid(f) != nil || t.vecs+1+len(f.Body) > maxVecs {
			return
		}
		w := l.wayOf(f)
		if w.kind != toOne || w.sock != sock {
			return
		}
		n := f.Len()
		if i == 0 || w.key != key || !t.joins(f, n) {
			l.startMsghdr(w, n)
			key = w.key
		}
		t.put(f, n)
	}
}

// joins reports whether f, of n bytes and with the same way, can be added to the message under
// construction.
func (t *sender) joins(f *transport.Frame, n int) bool {
	return t.segments && !t.full && n <= t.size && t.total+n <= messageMax &&
		t.frames[t.count-1] < segmentsMax && t.vecs-t.first+1+len(f.Body) <= messageVecs
}

// startMsghdr starts a msghdr with way w. Its first frame has n bytes.
func (l *Link) startMsghdr(w *way, n int) {
	t := &l.tx
	t.name(t.count, w.ip, w.port, l.zone())
	t.frames[t.count] = 0
	t.first, t.size, t.total, t.full = t.vecs, n, 0, false
	t.count++
}

// put adds a frame of n bytes to the message under construction.
func (t *sender) put(f *transport.Frame, n int) {
	m := t.count - 1
	t.vec(t.vecs, f.Head)
	t.vecs++
	for _, part := range f.Body {
		if len(part) > 0 {
			t.vec(t.vecs, part)
			t.vecs++
		}
	}
	t.frames[m]++
	t.total += n
	t.full = n < t.size
	t.message(m, t.first, t.vecs-t.first, t.frames[m], t.size)
}

// send sends the messages from one socket, and returns how many frames were sent. An error means
// that none was: if a later message fails, the kernel returns the number of those before it.
func (t *sender) send(fd int) (took, nbytes int, errno unix.Errno) {
	sent, nbytes, errno := driver.SendMessages(fd, t.msgs[:t.count], t.bytes)
	for _, n := range t.frames[:sent] {
		took += n
	}
	return took, nbytes, errno
}

// reset clears the messages, so that they do not keep the caller's memory alive.
func (t *sender) reset() {
	t.clear(t.vecs)
	t.count, t.vecs = 0, 0
}

// spread sends f to all destinations of the last way. f counts as sent if one datagram was sent.
func (l *Link) spread(f *transport.Frame) (took, nbytes int, errno unix.Errno) {
	w := l.tx.last
	if w.kind == toPorts {
		took, errno = l.sendPorts(f, &w)
	} else {
		took, errno = l.sendAll(f, &w)
	}
	if took > 0 {
		return 1, f.Len(), 0
	}
	return 0, 0, errno
}

// sendAll sends f to the group and to the peers. took is the number of datagrams sent, errno the
// last error.
func (l *Link) sendAll(f *transport.Frame, w *way) (took int, errno unix.Errno) {
	if l.group >= 0 {
		group := groupAddr(l.where.six, l.info.EtherType)
		w.ip, w.port = netip.AddrFrom16(group), l.first+groupPort
		if !l.where.six {
			w.ip = netip.AddrFrom4([4]byte(group[:4]))
		}
		took, errno = l.sendOne(f, w)
	}
	for _, w.ip = range l.where.peers {
		var n int
		var err unix.Errno
		if w.port = l.first + int(w.key[6]); w.key[9] == 1 {
			n, err = l.sendPorts(f, w)
		} else {
			n, err = l.sendOne(f, w)
		}
		if took += n; err != 0 {
			errno = err
		}
	}
	return took, errno
}

// sendPorts sends f to every UDP port of w's station except our own: a sender does not receive its
// own broadcasts.
func (l *Link) sendPorts(f *transport.Frame, w *way) (took int, errno unix.Errno) {
	for b := range driver.Blocks {
		if w.ip == l.station.ip && l.ourBlock(b) {
			continue
		}
		w.port = l.first + b
		n, err := l.sendOne(f, w)
		if took += n; err != 0 {
			errno = err
		}
	}
	return took, errno
}

// sendOne sends f as a separate message.
func (l *Link) sendOne(f *transport.Frame, w *way) (took int, errno unix.Errno) {
	t := &l.tx
	t.reset()
	l.startMsghdr(w, f.Len())
	t.put(f, f.Len())
	took, _, errno = t.send(t.socks[w.sock])
	l.count.TxCalls.Add(1)
	return took, errno
}
