package vrpc

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vmmc"
)

// The memory that one side exports to the other: control words, and a ring that the other side
// fills with records from its end to its beginning. So the last word of the next record is at a
// position that the reader knows. VMMC makes the last word of a message visible last: when the
// reader sees it, the record is complete. A record that does not fit below the previous one begins
// at the end again; the reader checks both positions.
//
//	bytes       what
//	any number   a message, or a piece of one, filled up to 8
//	8            the ring's key
//	4            how much its writer has freed of the other ring
//	4            nothing
//	4            number
//	4            length, highest bit: the last piece
//
// The key is random for each ring, and only the ring's writer knows it. So no contents of messages,
// including old ones in the memory, can be mistaken for a record.
const (
	ringControl = 64 // the first word is the number of bytes that the other side has freed
	trailerSize = 24
	keySize     = 8

	minRing = 4 << 10
	maxRing = 1 << 28
)

// defaultRing is the default size of a ring in bytes.
const defaultRing = 256 << 10

// ringSize returns the size of a ring for an option that may be 0.
func ringSize(option int) int {
	if option == 0 {
		option = defaultRing
	}
	return min(max(option, minRing), maxRing) &^ 7
}

// pieceMax returns the longest piece of a message in a ring. A writer of pieces up to this length
// always gets room eventually: the space that it skips at the beginning is shorter than the record,
// and its reader withholds less than ackShare.
func pieceMax(size int) int { return size*3/8&^7 - trailerSize }

// ackShare is how many bytes of its ring a reader frees before it notifies the writer in a separate
// record.
func ackShare(size int) int { return size / 8 }

func fill8(n int) int { return (n + 7) &^ 7 }

type ringKey [keySize]byte

func newRingKey() (k ringKey) {
	rand.Read(k[:])
	return k
}

// be returns the value of a word in memory that holds n in network order.
func be(n uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return binary.NativeEndian.Uint32(b[:])
}

// ringReader takes records from a ring. Whatever the ring's writer does, the records lie in the
// ring. One goroutine at a time may call its methods.
type ringReader struct {
	data  []byte
	key   ringKey
	place atomic.Uint64 // end of the next record, and its number
	count uint32        // bytes taken, modulo 2^32
}

// ringRecord is a record in the ring.
type ringRecord struct {
	payload []byte
	last    bool
	freed   uint32 // bytes that the other side has freed of its own ring
	count   uint32 // bytes taken up to and including this record
}

func newRingReader(mem []byte, key ringKey) *ringReader {
	r := &ringReader{data: mem[ringControl:], key: key}
	r.place.Store(uint64(len(r.data))<<32 | 1)
	return r
}

// find returns the end of the next record, or 0 if it has not arrived.
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

// ends reports whether a record with the given number ends at end.
func (r *ringReader) ends(end int, number uint32) bool {
	return end >= trailerSize && atomic.LoadUint32(vmmc.Word(r.data, end-8)) == be(number) &&
		ringKey(r.data[end-trailerSize:]) == r.key
}

// ready reports whether there is a record.
func (r *ringReader) ready() bool {
	end, _ := r.find()
	return end > 0
}

// next takes the next record if there is one. It returns an error for a record that no writer of
// this package would make.
func (r *ringReader) next() (rec ringRecord, ok bool, err error) {
	end, number := r.find()
	if end == 0 {
		return rec, false, nil
	}
	trailer := r.data[end-trailerSize : end]
	length := binary.BigEndian.Uint32(trailer[20:])
	n := int(length &^ lastFragment)
	if n > end-trailerSize || n > pieceMax(len(r.data)) {
		return rec, false, fmt.Errorf("vrpc: invalid record of %d bytes at %d of a ring of %d", n, end, len(r.data))
	}
	size := fill8(n) + trailerSize
	if before := int(r.place.Load() >> 32); before != end {
		r.count += uint32(before) // skipped space at the beginning
	}
	r.count += uint32(size)
	start := end - size
	r.place.Store(uint64(start)<<32 | uint64(number+1))
	rec = ringRecord{payload: r.data[start : start+n : start+n], last: length&lastFragment != 0, freed: binary.BigEndian.Uint32(trailer[8:]), count: r.count}
	return rec, true, nil
}

// ringWriter tracks the position of records in the other side's ring.
type ringWriter struct {
	size   int
	key    ringKey
	end    int // of the next record
	number uint32
	sent   uint32    // bytes, modulo 2^32
	freed  uint32    // bytes that the reader has freed
	said   [2]uint32 // arguments of the last call of credit
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

// put allocates the room for a record; room must have returned true. It returns the record's
// offset, and appends the record's trailer to buf, after the piece of n bytes. The trailer reports
// freed to the reader.
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

// credit processes the reader's two reports of freed bytes. The more advanced of them counts. A
// report of more bytes than were sent is an error.
func (w *ringWriter) credit(said [2]uint32) error {
	for i, freed := range said {
		switch {
		case freed == w.said[i]:
		case freed-w.freed <= w.sent-w.freed:
			w.freed = freed
		case int32(freed-w.freed) > 0:
			return fmt.Errorf("vrpc: the other side freed %d bytes more than were sent to it", freed-w.sent)
		}
	}
	w.said = said
	return nil
}
