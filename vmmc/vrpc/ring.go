package vrpc

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vmmc"
)

// What one side exports to the other: control words, and a ring that the other side fills
// with records from its end to its beginning. So the last word of the next record lies at a
// place that the reader knows, and VMMC has the last word of a message visible last: when it
// is there, the record is. A record that does not fit below the one before it begins at the
// end again; the reader looks at both places.
//
//	bytes       what
//	any number   a message, or a piece of one, filled up to 8
//	8            the ring's key
//	4            how much its writer has freed of the other ring
//	4            nothing
//	4            number
//	4            length, highest bit: the last piece
//
// The key is drawn for each ring and told to its writer only. What messages contain, and
// leave behind in the memory, is taken for a record by nobody, because it is not in it.
const (
	ringControl = 64 // the first word is how much the other side has freed
	trailerSize = 24
	keySize     = 8

	minRing = 4 << 10
	maxRing = 1 << 28
)

// DefaultRing is how many bytes a ring has where the configuration does not say.
const DefaultRing = 256 << 10

// ringSize returns how large a ring is for an option that may be 0.
func ringSize(option int) int {
	if option == 0 {
		option = DefaultRing
	}
	return min(max(option, minRing), maxRing) &^ 7
}

// pieceMax returns the longest piece of a message in a ring. With it a writer always comes
// to have room: what it leaves free at the beginning is shorter than the record, and its
// reader keeps less than ackShare to itself.
func pieceMax(size int) int { return size*3/8&^7 - trailerSize }

// ackShare is how much of its ring a reader frees without telling the writer, unless it has
// something else to say.
func ackShare(size int) int { return size / 8 }

func fill8(n int) int { return (n + 7) &^ 7 }

type ringKey [keySize]byte

func newRingKey() (k ringKey) {
	rand.Read(k[:])
	return k
}

// be returns what a word of memory holds that has n in network order.
func be(n uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return binary.NativeEndian.Uint32(b[:])
}

// ringReader takes records from a ring. Whatever its writer does, what it takes lies in
// the ring. Its methods are called by one goroutine at a time.
type ringReader struct {
	data  []byte
	key   ringKey
	place atomic.Uint64 // where the next record ends, and its number
	count uint32        // octets taken, modulo 2^32
}

// ringRecord is a record that lies in the ring.
type ringRecord struct {
	payload []byte
	last    bool
	freed   uint32 // by the other side, of what was sent to it
	count   uint32 // what the reader has taken with it
}

func newRingReader(mem []byte, key ringKey) *ringReader {
	r := &ringReader{data: mem[ringControl:], key: key}
	r.place.Store(uint64(len(r.data))<<32 | 1)
	return r
}

// find returns where the next record ends, 0 if it has not come.
func (r *ringReader) find() (end int, number uint32) {
	place := r.place.Load()
	end, number = int(place>>32), uint32(place)
	if r.ends(end, number) {
		return end, number
	}
	if end < len(r.data) && r.ends(len(r.data), number) {
		return len(r.data), number
	}
	return 0, number
}

// ends reports whether a record of a number ends at end.
func (r *ringReader) ends(end int, number uint32) bool {
	return end >= trailerSize && atomic.LoadUint32(vmmc.Word(r.data, end-8)) == be(number) &&
		ringKey(r.data[end-trailerSize:]) == r.key
}

// ready reports whether there is a record.
func (r *ringReader) ready() bool {
	end, _ := r.find()
	return end > 0
}

// next takes the next record, if there is one. It is an error if that is none that a writer
// of this package makes.
func (r *ringReader) next() (rec ringRecord, ok bool, err error) {
	end, number := r.find()
	if end == 0 {
		return rec, false, nil
	}
	trailer := r.data[end-trailerSize : end]
	length := binary.BigEndian.Uint32(trailer[20:])
	n := int(length &^ lastFragment)
	if n > end-trailerSize || n > pieceMax(len(r.data)) {
		return rec, false, fmt.Errorf("vrpc: a record of %d octets at %d of a ring of %d", n, end, len(r.data))
	}
	size := fill8(n) + trailerSize
	if before := int(r.place.Load() >> 32); before != end {
		r.count += uint32(before) // the beginning, where it did not fit
	}
	r.count += uint32(size)
	start := end - size
	r.place.Store(uint64(start)<<32 | uint64(number+1))
	rec = ringRecord{payload: r.data[start : start+n : start+n], last: length&lastFragment != 0, freed: binary.BigEndian.Uint32(trailer[8:]), count: r.count}
	return rec, true, nil
}

// ringWriter says where records go in the other side's ring.
type ringWriter struct {
	size   int
	key    ringKey
	end    int // of the next record
	number uint32
	sent   uint32    // octets, modulo 2^32
	freed  uint32    // of them by the reader
	said   [2]uint32 // what credit was told last
}

func newRingWriter(size int, key ringKey) ringWriter {
	return ringWriter{size: size, key: key, end: size, number: 1}
}

// room reports whether a record with a piece of n bytes, at most pieceMax, has room.
func (w *ringWriter) room(n int) bool {
	need := fill8(n) + trailerSize
	if need > w.end {
		need += w.end
	}
	return int(w.sent-w.freed)+need <= w.size
}

// put takes the room for a record, which is there. It returns the record's place, and
// appends to buf what follows the piece of n bytes: the reader is told of freed.
func (w *ringWriter) put(buf []byte, n int, last bool, freed uint32) (offset int, record []byte) {
	size := fill8(n) + trailerSize
	if size > w.end {
		w.sent += uint32(w.end)
		w.end = w.size
	}
	w.end -= size
	w.sent += uint32(size)
	length := uint32(n)
	if last {
		length |= lastFragment
	}
	buf = append(buf, make([]byte, fill8(n)-n)...)
	buf = append(buf, w.key[:]...)
	buf = binary.BigEndian.AppendUint32(buf, freed)
	buf = append(buf, 0, 0, 0, 0)
	buf = binary.BigEndian.AppendUint32(buf, w.number)
	buf = binary.BigEndian.AppendUint32(buf, length)
	w.number++
	return ringControl + w.end, buf
}

// credit takes what the reader says that it has freed, in two places, each of which lasts
// until it says something else there. What is behind what it has said in the other place
// changes nothing; more than was sent is an error.
func (w *ringWriter) credit(said [2]uint32) error {
	for i, freed := range said {
		switch {
		case freed == w.said[i]:
		case freed-w.freed <= w.sent-w.freed:
			w.freed = freed
		case int32(freed-w.freed) > 0:
			return fmt.Errorf("vrpc: the other side has freed %d octets more than were sent to it", freed-w.sent)
		}
	}
	w.said = said
	return nil
}
