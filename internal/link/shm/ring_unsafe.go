package shm

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
)

// A ring carries records in one direction, from one writer to one reader. A record starts at a
// multiple of 64 bytes and is a frame preceded by two bytes of length:
//
//	 0  length of the frame less shortest-1, never 0, in the host's byte order
//	 2  the frame: its Ethernet and Bobnet headers
//	64  payload
//
// The writer stores the first eight bytes last, in one atomic store, and the reader polls only
// them. Both sides touch no common index, so a small frame moves only the cache lines that it
// fills. Before that store, the writer clears the start of the next record. For short records it
// did so after the previous one, so it already owns the cache lines. The reader stores its progress
// in the control from time to time, and the writer reads it only when it seems to have no room.
const (
	line       = 64
	lengthSize = 2
	wordSize   = 8
	shortest   = ethertype.HeaderSize
	// The reader reports the free space after each freeEvery-th part of the ring.
	freeEvery = 16
	// The writer clears that many lines ahead.
	clearAhead = 8
)

// record returns the size of the record of a frame of n bytes.
func record(n int) uint64 { return uint64(lengthSize+n+line-1) &^ (line - 1) }

// packWord returns a record's first eight bytes.
func packWord(n int, head []byte) uint64 {
	var b [wordSize]byte
	binary.NativeEndian.PutUint16(b[:], uint16(n-shortest+1))
	copy(b[lengthSize:], head[:wordSize-lengthSize])
	return binary.NativeEndian.Uint64(b[:])
}

// unpackWord returns the length of the frame whose record starts with word, or 0 if there is none.
func unpackWord(word uint64) int {
	var b [wordSize]byte
	binary.NativeEndian.PutUint64(b[:], word)
	if n := int(binary.NativeEndian.Uint16(b[:])); n > 0 {
		return n + shortest - 1
	}
	return 0
}

// result is the result of a ring operation.
type result uint8

const (
	done   result = iota
	none          // the ring is empty or full
	broken        // the ring holds an impossible value
)

// writer is the sending end of a ring.
type writer struct {
	mem     *memory
	base    unsafe.Pointer
	freed   *atomic.Uint64
	size    uint64
	next    uint64 // start of the next record; never wraps
	known   uint64 // freed when it was last read
	clear   uint64 // from next up to here, the first word of each line is 0
	taken   *atomic.Uint64
	written *atomic.Uint64
}

func newWriter(m *memory, i int) writer {
	return writer{mem: m, base: m.ring(i), size: uint64(m.size),
		freed: m.word(i, offFreed), taken: m.word(i, offTaken), written: m.word(i, offWritten)}
}

// put writes f, of n bytes, into the ring. f.Head must hold at least the headers.
func (w *writer) put(f *transport.Frame, n int) result {
	size := record(n)
	if w.next+size+line-w.known > w.size {
		if r := w.look(size); r != done {
			return r
		}
	}
	dst := w.room(n)
	k := shortest + copy(dst[shortest:], f.Head[shortest:])
	for _, part := range f.Body {
		k += copy(dst[k:], part)
	}
	w.commit(dst, size, n, f.Head)
	return done
}

// room returns the next record without its length, n bytes.
func (w *writer) room(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(w.base, w.next&(w.size-1)+lengthSize)), n)
}

// commit ends the next record, of size bytes: dst holds it except for the first shortest bytes of the
// frame, which head has. n is the length to be stored.
//
// The reader polls the first line and thereby takes it from this CPU's cache each time. So the
// first line is written last, at once.
func (w *writer) commit(dst []byte, size uint64, n int, head []byte) {
	start := w.next & (w.size - 1)
	w.next += size
	if w.clear <= w.next {
		w.clear = w.next
		w.clearLine()
	}
	copy(dst[wordSize-lengthSize:shortest], head[wordSize-lengthSize:])
	atomic.StoreUint64((*uint64)(unsafe.Add(w.base, start)), packWord(n, head))
	for end := min(w.next+clearAhead*line, w.known+w.size); w.clear < end; {
		w.clearLine()
	}
}

// addressOf returns the address of v in this process.
func addressOf[T any](v *T) uint64 { return uint64(uintptr(unsafe.Pointer(v))) }

// clearLine clears the next line.
func (w *writer) clearLine() {
	*(*uint64)(unsafe.Add(w.base, w.clear&(w.size-1))) = 0
	w.clear += line
}

// look reads the reader's progress, and checks whether there is room for size bytes.
func (w *writer) look(size uint64) result {
	if w.refresh() == broken {
		return broken
	}
	if w.next+size+line-w.known > w.size {
		return none
	}
	return done
}

// refresh reads the reader's progress. It must lie between its previous value and what has been
// written.
func (w *writer) refresh() result {
	freed := w.freed.Load()
	if freed < w.known || freed > w.next || freed%line != 0 {
		return broken
	}
	w.known = freed
	return done
}

// reader is the receiving end of a ring.
type reader struct {
	mem   *memory
	base  unsafe.Pointer
	freed *atomic.Uint64
	size  uint64
	next  atomic.Uint64 // start of the next record; Ready reads it at any time
	told  uint64        // the value of freed

	taken   *atomic.Uint64
	written *atomic.Uint64
}

func (r *reader) init(m *memory, i int) {
	r.mem, r.base, r.size = m, m.ring(i), uint64(m.size)
	r.freed, r.taken, r.written = m.word(i, offFreed), m.word(i, offTaken), m.word(i, offWritten)
}

// ready reports whether there is a record.
func (r *reader) ready() bool {
	at := unsafe.Add(r.base, r.next.Load()&(r.size-1))
	if atomic.LoadUint64((*uint64)(at)) == 0 {
		return false
	}
	driver.Prefetch(unsafe.Add(at, line)) // the payload
	return true
}

// nextFrame returns the next frame, or the beginning of a lent frame and true. It reads the record's
// word only once; whatever that contains, the view lies within the mapping.
func (r *reader) nextFrame() (view []byte, lent bool, _ result) {
	next := r.next.Load()
	start := next & (r.size - 1)
	word := atomic.LoadUint64((*uint64)(unsafe.Add(r.base, start)))
	if word == 0 {
		return nil, false, none
	}
	n := unpackWord(word)
	if lent = n == lentLength; lent {
		n = lentSize - lengthSize
	}
	if n == 0 || n > ethertype.MaxFrame {
		return nil, false, broken
	}
	latch.Release(&r.next, next+record(n))
	return unsafe.Slice((*byte)(unsafe.Add(r.base, start+lengthSize)), n), lent, done
}

// free returns the space of all taken frames to the writer. Their views must no longer be in use.
func (r *reader) free() {
	if next := r.next.Load(); next-r.told >= r.size/freeEvery {
		r.told = next
		r.freed.Store(next)
	}
}
