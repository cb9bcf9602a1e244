package lanai

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// The send queue of a process is its doorbell page: slots, which the process writes in
// turn by programmed I/O. Words are little endian, as the processors of the paper's hosts
// have them.
//
//	offset  size  field
//	     0     4  number of the request, from 1 on; written last
//	     4     4  bytes to send, and flags in the highest bits
//	     8     4  proxy address: page and offset
//	    12   128  of a short request: the data
//	    12     8  of a long one: the virtual address of the data
const (
	// slots is how many requests a send queue holds.
	slots = 29
	// shortData is the most bytes of a short request.
	shortData = 128
	// longData is the most bytes of a long one.
	longData = 8 << 20

	slotSize   = 12 + shortData
	slotData   = 12
	slotFlags  = 0xC0000000
	slotShort  = 0x80000000
	slotNotify = 0x40000000
)

// request is one of them.
type request struct {
	number uint32
	short  bool
	notify bool
	size   int
	proxy  uint32
	at     uint64 // virtual address, of a long one
	data   []byte // of a short one
}

// head writes what lies in a slot before the data of a short request, and returns how much that is.
func (r *request) head(b *[20]byte) (n int) {
	le := binary.LittleEndian
	word := uint32(r.size)
	if r.notify {
		word |= slotNotify
	}
	n = slotData
	if r.short {
		word |= slotShort
	} else {
		le.PutUint64(b[slotData:], r.at)
		n += 8
	}
	le.PutUint32(b[0:], r.number)
	le.PutUint32(b[4:], word)
	le.PutUint32(b[8:], r.proxy)
	return n
}

// write puts a request into its slot, and rings. It is the process's, and allocates
// nothing.
func (r *request) write(page *hardware.Page) {
	var b [20]byte
	at, n := slotOf(r.number), r.head(&b)
	if r.short {
		_ = page.Write(at+slotData, r.data) // it lies in the page, as all that follows
	}
	_ = page.Write(at, b[:n])
	page.Ring()
}

// share puts a request into its slot of memory that the card's process shares: its number last.
func (r *request) share(mem []byte) {
	var b [20]byte
	at, n := slotOf(r.number), r.head(&b)
	if r.short {
		copy(mem[at+slotData:], r.data)
	}
	copy(mem[at+4:], b[4:n])
	shared.Store(mem, at, r.number)
}

func slotOf(number uint32) int { return int((number-1)%slots) * slotSize }

// lastNumber is that of the last request before the numbers begin anew: it fits into a
// status, and ends a turn of the slots.
const lastNumber = 1 << 28 / slots * slots

// after returns the number of the next request.
func after(number uint32) uint32 { return number%lastNumber + 1 }

// holds reports whether a page holds the request of a number.
func holds(page []byte, number uint32) bool { return shared.Load(page, slotOf(number)) == number }

// parse takes the request of a number apart. b is its slot, which the process cannot write to any more.
func (r *request) parse(b []byte, number uint32) {
	le := binary.LittleEndian
	word := le.Uint32(b[4:])
	*r = request{number: number, short: word&slotShort != 0, notify: word&slotNotify != 0, size: int(word &^ slotFlags), proxy: le.Uint32(b[8:])}
	if r.short {
		r.data = b[slotData:][:min(r.size, shortData)]
	} else {
		r.at = le.Uint64(b[slotData:])
	}
}

// Codes that a request ends with.
type ending uint32

const (
	endDone    ending = 1 + iota
	endProxy          // it names a page that the process has not imported
	endAddress        // it names memory that is not the process's
	endSize           // it is longer than a request can be
	endRefused        // its exporter has taken the page back
	endLost           // the node does not answer, or was started again
)

// status is what the card tells of a request, in one word of the process's memory: its
// number and how it has ended.
func status(number uint32, how ending) uint32 { return number<<3 | uint32(how) }
