package lanai

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// The send queue of a process is its doorbell page: slots, which the process writes round-robin by
// programmed I/O. Words are little-endian, as on the processors of the paper's hosts.
//
//	offset  size  field
//	     0     4  number of the request, from 1 on; written last
//	     4     4  bytes to send, and flags in the highest bits
//	     8     4  proxy address: page and offset
//	    12   128  of a short request: the data
//	    12     8  of a long one: the virtual address of the data
const (
	// slots is the number of requests in a send queue.
	slots = 29
	// shortData is the maximum length of a short request in bytes.
	shortData = 128
	// longData is the maximum length of a long request in bytes.
	longData = 8 << 20

	slotSize   = 12 + shortData
	slotData   = 12
	slotFlags  = 0xC0000000
	slotShort  = 0x80000000
	slotNotify = 0x40000000
)

// request is a request in a slot.
type request struct {
	number uint32
	short  bool
	notify bool
	size   int
	proxy  uint32
	at     uint64 // virtual address of a long request's data
	data   []byte // data of a short request
}

// head encodes the part of a slot before a short request's data, and returns its length.
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

// write writes a request into its slot, and rings. The process calls it. It does not allocate.
func (r *request) write(page *hardware.Page) {
	var b [20]byte
	at, n := slotOf(r.number), r.head(&b)
	if r.short {
		_ = page.Write(at+slotData, r.data) // within the page, so it cannot fail
	}
	_ = page.Write(at, b[:n])
	page.Ring()
}

// share writes a request into its slot in memory shared with the card's process, its number last.
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

// lastNumber is the last request number before the numbers restart: it fits a status word, and ends
// a round of the slots.
const lastNumber = 1 << 28 / slots * slots

// after returns the number of the next request.
func after(number uint32) uint32 { return number%lastNumber + 1 }

// holds reports whether a page holds the request with a number.
func holds(page []byte, number uint32) bool { return shared.Load(page, slotOf(number)) == number }

// parse decodes the request with a number. b is a copy of its slot, which the process can no longer
// write.
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

// Results of a request.
type ending uint32

const (
	endDone    ending = 1 + iota
	endProxy          // it names a page that the process has not imported
	endAddress        // it names memory that does not belong to the process
	endSize           // it is too long
	endRefused        // the exporter has revoked the page
	endLost           // the node does not answer, or has restarted
)

// status encodes the result of a request in one word: its number and its ending.
func status(number uint32, how ending) uint32 { return number<<3 | uint32(how) }
