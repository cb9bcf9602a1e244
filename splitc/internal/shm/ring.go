package shm

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// An inbox is a page whose first word is set while its rank sleeps, and a lane for each rank that
// may write to it:
//
//	0            number of bytes that the writer has stored into the heap
//	ringsAt      the ring of requests
//	+ ringSize   the ring of results
//
// A ring has one producer and one consumer:
//
//	0            number of entries put in, maintained by the producer
//	64           number of entries taken out, maintained by the consumer
//	128          the entries
//
// Each side relies on its own count, which is in its own memory. It uses the other side's count
// only within the ring's length, and copies an entry before it examines it.
const (
	slots     = 8
	entryHead = 16 // kind, length, procedure, call
	entrySize = entryHead + layer.MaxControl
	ringAt    = 128
	ringSize  = (ringAt + slots*entrySize + 63) / 64 * 64
	ringsAt   = 64
	laneSize  = (ringsAt + 2*ringSize + 4095) / 4096 * 4096
	lanesAt   = 4096
)

// inboxSize returns the length of an inbox in bytes.
func inboxSize(procs int) int { return lanesAt + procs*laneSize }

// lane returns the part of an inbox that a rank writes to.
func lane(inbox []byte, rank int) []byte { return inbox[lanesAt+rank*laneSize:][:laneSize] }

// kinds of entries.
const (
	kindCall = 1 + iota
	kindControl
	kindResult
)

// errGarbled is the failure of a rank that has written invalid data.
var errGarbled = errors.New("it has overwritten the memory that ranks of this host use to communicate: its program stores outside of the heap")

// ring is one side's view of a ring.
type ring struct {
	mine, other *atomic.Uint64
	at          uint64 // this side's count
	entries     []byte
}

// producer and consumer return the two sides of ring i of a lane.
func producer(lane []byte, i int) ring {
	b := lane[ringsAt+i*ringSize:][:ringSize]
	return ring{mine: word(b, 0), other: word(b, 64), entries: b[ringAt:]}
}

func consumer(lane []byte, i int) ring {
	b := lane[ringsAt+i*ringSize:][:ringSize]
	return ring{mine: word(b, 64), other: word(b, 0), entries: b[ringAt:]}
}

// entry is an entry of a ring.
type entry struct {
	kind uint8
	fn   uint32 // of a call
	op   uint32 // the caller's number for it
	n    int
	data [layer.MaxControl]byte
}

func (r *ring) slot() []byte { return r.entries[int(r.at%slots)*entrySize:][:entrySize] }

// room reports whether an entry can be put in.
func (r *ring) room() (bool, error) {
	used := r.at - r.other.Load()
	if used > slots {
		return false, errGarbled
	}
	return used < slots, nil
}

// put adds an entry. There must be room.
func (r *ring) put(kind uint8, fn, op uint32, data []byte) {
	b := r.slot()
	b[0] = kind
	binary.LittleEndian.PutUint32(b[4:], uint32(len(data)))
	binary.LittleEndian.PutUint32(b[8:], fn)
	binary.LittleEndian.PutUint32(b[12:], op)
	copy(b[entryHead:], data)
	r.at++
	r.mine.Store(r.at)
}

// some reports whether there is an entry.
func (r *ring) some() bool { return r.other.Load() != r.at }

// dequeue removes an entry if there is one.
func (r *ring) dequeue(e *entry) (bool, error) {
	have := r.other.Load() - r.at
	if have == 0 {
		return false, nil
	}
	b := r.slot()
	n := binary.LittleEndian.Uint32(b[4:])
	if have > slots || n > layer.MaxControl {
		return false, errGarbled
	}
	e.kind, e.fn, e.op = b[0], binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	e.n = copy(e.data[:n], b[entryHead:])
	r.at++
	r.mine.Store(r.at)
	return true, nil
}
