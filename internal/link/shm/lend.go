package shm

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Lent frames. A long frame crosses a ring in two copies. If its sender keeps the data in place until the
// frame is acknowledged (transport.Frame.Mark), and the kernel lets the receiver read the sender's memory, a
// record can name the data instead of holding them. The receiver then copies them once, when its user fetches
// them (transport.LongLink).
//
// The record of a lent frame has a length that no frame has, and a fixed size:
//
//	  0  lentLength
//	  2  the first lentBegin bytes of the frame
//	136  in 8 bytes each: the length of the frame, the length of its head, address and value of the mark, and
//	     for each of lentParts parts of the body its address and its length
//
// The receiver copies the data and after that the mark, in one system call. If the mark has kept its value, the
// sender was still lending the data when they were copied. Otherwise the frame is lost, like a frame that
// finds the ring full. The sender names only its own memory, and the receiver writes only to its user's.
//
// One copy is not always faster than two. If the two processors share a cache, the ring is faster, because
// both sides copy at the same time. If they do not, the cache lines of the ring move from one to the other.
// So both sides measure their copies, and the sender chooses the faster way.
const (
	lentLength = 0xffff + shortest - 1
	lentBegin  = transport.LongBegin
	lentParts  = 4
	lentFields = 136
	lentSize   = 256 // of the record
)

// lentLeast is the size of the shortest frame that is lent. The system call and the search for the pages take as
// long as a copy of some KiB.
const lentLeast = 8 << 10

// Values of the word by which a receiver permits lent frames.
const (
	readsMemory = 1
	readsAlways = 2 // the sender is not to choose
)

// mayLend reports whether a frame of size bytes can be lent to p.
func (p *peer) mayLend(f *transport.Frame, size int) bool {
	return size >= lentLeast && f.Mark != nil && p.outReads.Load() != 0 && len(f.Head) <= lentBegin && len(f.Body) <= lentParts
}

// putLong is put for a frame that can be lent.
func (p *peer) putLong(f *transport.Frame, size int) result {
	class := classOf(size)
	c := &p.at.pace[class]
	if p.outReads.Load() == readsAlways {
		return p.out.lend(f, size)
	}
	if c.way == byLoan {
		r := p.out.lend(f, size)
		c.sent(p.outPace(class))
		return r
	}
	begin := driver.Now()
	r := p.out.put(f, size)
	if r == done && p.out.next > p.out.size+uint64(size) { // the pages of the ring's first round are new
		c.own = min(c.own, speed(size, driver.Now()-begin))
		c.sent(p.outPace(class))
	}
	return r
}

// Frames that can be lent are in classes by their size, because each copy has fixed costs.
const classes = 3

// classOf returns the class of a frame of size bytes.
func classOf(size int) int {
	return max(0, min(bits.Len(uint(size))-bits.Len(lentLeast), classes-1))
}

// The ways of a frame.
const (
	byRing = iota
	byLoan
	ways
)

// speed returns the picoseconds per byte of a copy of n bytes in ns nanoseconds.
func speed(n int, ns int64) uint64 { return uint64(max(1, 1000*ns/int64(n))) }

// pace chooses the way of the frames of one class to one station. The frames take the ways in turns: many frames the
// faster one, and then a few the other one, which is measured again. Speeds are in picoseconds per byte.
type pace struct {
	way  int
	left int    // frames of this turn
	own  uint64 // speed of the fastest copy into the ring in the last turn by the ring; others may have been interrupted
}

const (
	turnFaster = 512 // frames
	turnSlower = 4
	unmeasured = math.MaxUint64
)

func (c *pace) init() { *c = pace{way: byRing, left: turnSlower, own: unmeasured} }

// sent records that a frame was sent. theirs are the speeds of the receiver's copies by each way. Through the ring, both
// sides copy at the same time, and the slower one counts.
func (c *pace) sent(theirs [ways]uint64) {
	if c.left--; c.left > 0 {
		return
	}
	cost := [ways]uint64{byRing: max(c.own, theirs[byRing]), byLoan: theirs[byLoan]}
	other := 1 - c.way
	if c.left = turnSlower; cost[other] < cost[c.way] && cost[c.way] != unmeasured {
		c.left = turnFaster
	}
	if c.way = other; other == byRing {
		c.own = unmeasured
	}
}

// outPace returns what p has measured of one class of frames. It may write anything there.
func (p *peer) outPace(class int) (theirs [ways]uint64) {
	for way := range theirs {
		if theirs[way] = p.outSpeeds[class][way].Load(); theirs[way] == 0 {
			theirs[way] = unmeasured
		}
	}
	return theirs
}

// copies are the latest copies of one class of frames from one station, by one way.
type copies struct {
	recent [4]uint64
	n      int
}

// measured records a copy of n bytes from p's station in ns nanoseconds, and shows the station the fastest one
// of the latest.
func (l *Link) measured(p *peer, way, n int, ns int64) {
	class := classOf(n)
	c := &p.at.copies[class][way]
	c.recent[c.n%len(c.recent)] = speed(n, ns)
	if c.n++; c.n%len(c.recent) != 0 {
		return
	}
	for _, q := range *l.peers.Load() {
		if q.at == p.at && q.inReads.Load() != 0 {
			q.inSpeeds[class][way].Store(slices.Min(c.recent[:]))
		}
	}
}

// Copied implements optional.Lender.
func (l *Link) Copied(from, to uint16, n int, ns int64) {
	places := l.places[driver.Block(to)]
	if n < lentLeast || places == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := places[driver.Block(from)].latest; p != nil && p.in.next.Load() > p.in.size { // the pages of the ring's first round are new
		l.measured(p, byRing, n, ns)
	}
}

// lend writes a record that names the data of f, of n bytes.
func (w *writer) lend(f *transport.Frame, n int) result {
	value := f.Mark.Load()
	if value == 0 { // the connection has ended
		return w.put(f, n)
	}
	if w.next+lentSize+line-w.known > w.size {
		if r := w.look(lentSize); r != done {
			return r
		}
	}
	dst := w.room(lentSize - lengthSize)
	k := shortest + copy(dst[shortest:lentBegin], f.Head[shortest:])
	for _, part := range f.Body {
		k += copy(dst[k:lentBegin], part)
	}
	fields := [4 + 2*lentParts]uint64{uint64(n), uint64(len(f.Head)), addressOf(f.Mark), value}
	for i, part := range f.Body {
		if len(part) > 0 {
			fields[4+2*i], fields[5+2*i] = addressOf(&part[0]), uint64(len(part))
		}
	}
	for i, v := range fields {
		binary.NativeEndian.PutUint64(dst[lentFields-lengthSize+8*i:], v)
	}
	w.commit(dst, lentSize, lentLength, f.Head)
	return done
}

// loan is the lent frame whose beginning is the last view of the last Recv.
type loan struct {
	from  *peer // nil: there is none
	begin []byte
	size  int // of the frame
	head  int
	parts [lentParts]struct{ at, size uint64 }
	mark  struct{ at, value uint64 }

	local  []unix.Iovec // scratch of fetch
	remote [lentParts + 1]unix.RemoteIovec
	word   [8]byte
}

// parse reads a record, without its length, once. It reports false if no Link has written it.
func (o *loan) parse(record []byte) bool {
	if len(record) != lentSize-lengthSize {
		return false
	}
	var fields [4 + 2*lentParts]uint64
	for i := range fields {
		fields[i] = binary.NativeEndian.Uint64(record[lentFields-lengthSize+8*i:])
	}
	size, head := fields[0], fields[1]
	if size < lentLeast || size > ethertype.MaxFrame || head < ethertype.HeaderSize || head > lentBegin {
		return false
	}
	o.size, o.head, o.mark.at, o.mark.value = int(size), int(head), fields[2], fields[3]
	rest := size - head
	for i := range o.parts {
		part := &o.parts[i]
		part.at, part.size = fields[4+2*i], fields[5+2*i]
		if part.size > rest || part.at > math.MaxInt {
			return false
		}
		rest -= part.size
	}
	o.begin = record[:lentBegin]
	return rest == 0 && o.mark.value != 0 && o.mark.at <= math.MaxInt
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int {
	if l.loan.from == nil {
		return 0
	}
	return l.loan.size - lentBegin
}

// Fetch implements transport.LongLink.
func (l *Link) Fetch(from int, parts [][]byte) bool {
	o := &l.loan
	p := o.from
	if o.from = nil; p == nil || from < ethertype.HeaderSize || from > lentBegin {
		return false
	}
	begin := driver.Now()
	whole, err := o.fetch(p.pid, from, parts)
	took := driver.Now() - begin
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil { // it was possible when the two met
		p.inReads.Store(0)
	} else if whole {
		l.measured(p, byLoan, o.size-from, took)
	}
	return whole
}

// fetch copies the frame from offset from on to parts. It reports whether that has filled them, and the error of
// the system call.
func (o *loan) fetch(pid, from int, parts [][]byte) (bool, error) {
	want := 0
	o.local = o.local[:0]
	for _, part := range parts {
		if from < o.head { // the end of the head is in the record
			n := copy(part, o.begin[from:o.head])
			part, from = part[n:], from+n
		}
		if len(part) > 0 {
			v := unix.Iovec{Base: &part[0]}
			v.SetLen(len(part))
			o.local = append(o.local, v)
			want += len(part)
		}
	}
	mark := unix.Iovec{Base: &o.word[0]}
	mark.SetLen(len(o.word))
	o.local = append(o.local, mark)
	ok := o.locate(uint64(from-o.head), uint64(want))
	var n int
	var err error
	if ok {
		n, err = unix.ProcessVMReadv(pid, o.local, o.remote[:], 0)
	}
	clear(o.local) // keep none of the caller's memory alive
	return ok && err == nil && n == want+len(o.word) && binary.NativeEndian.Uint64(o.word[:]) == o.mark.value, err
}

// locate sets remote to want bytes of the body behind the first skip bytes, and to the mark. It reports false if the
// body has not as many.
func (o *loan) locate(skip, want uint64) bool {
	for i, part := range o.parts {
		k := min(skip, part.size)
		skip -= k
		n := min(part.size-k, want)
		want -= n
		o.remote[i] = unix.RemoteIovec{Base: uintptr(part.at + k), Len: int(n)}
	}
	o.remote[lentParts] = unix.RemoteIovec{Base: uintptr(o.mark.at), Len: len(o.word)}
	return want == 0
}

// StartLong implements transport.LongLink. Frames are not longer than the MTU, but those of other processes may be
// lent from now on.
func (l *Link) StartLong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetches = true
	return false
}

// ReceiveLong implements transport.LongLink: no frame is longer than the MTU.
func (l *Link) ReceiveLong(bool) bool { return false }

// Cut implements transport.LongLink.
func (l *Link) Cut() bool { return false }

// permit lets p lend frames if this link's user fetches them and the kernel permits it: the process that the kernel
// has named must have the instance at the address that its hello has named. The caller must hold mu.
func (l *Link) permit(p *peer) {
	for class := range p.at.pace {
		p.at.pace[class].init()
	}
	var word [8]byte
	if !l.fetches || p.pid == 0 || p.instanceAt == 0 || readMemory(p.pid, word[:], p.instanceAt, nil, 0) != nil ||
		binary.NativeEndian.Uint64(word[:]) != p.instance {
		return
	}
	if l.lend {
		p.inReads.Store(readsAlways)
		return
	}
	p.inReads.Store(readsMemory)
}
