package tun

import (
	"encoding/binary"
	"sync"
)

// A record on a stream is the length of what follows, in four octets, the kernel's header,
// and the packet.
const (
	recordHead = 4
	// maxRecord is the most that the length may say: of the longest packet that the kernel
	// hands over in one piece, and its header.
	maxRecord = vnetSize + 65_535 + header6
)

// buffer holds a record.
type buffer struct {
	mem  []byte
	n    int // octets behind the length
	pool *sync.Pool
}

// sizes are those of the buffers that a packet is moved to, the first that it fits in: most
// packets are short, and many may wait. Others stay in the long one that they were read to.
var sizes = [...]int{2 << 10, 10 << 10, 32 << 10}

var (
	long  sync.Pool
	pools [len(sizes)]sync.Pool
)

func init() {
	long.New = func() any { return &buffer{mem: make([]byte, recordHead+maxRecord), pool: &long} }
	for i := range pools {
		pools[i].New = func() any { return &buffer{mem: make([]byte, sizes[i]), pool: &pools[i]} }
	}
}

// newBuffer returns one that has room for any record.
func newBuffer() *buffer { return long.Get().(*buffer) }

// room returns where a header and its packet go.
func (b *buffer) room() []byte { return b.mem[recordHead:] }

// fill says how many octets of room are in use.
func (b *buffer) fill(n int) *buffer {
	b.n = n
	binary.LittleEndian.PutUint32(b.mem, uint32(n))
	return b
}

func (b *buffer) record() []byte   { return b.mem[:recordHead+b.n] }
func (b *buffer) content() content { return content(b.record()[recordHead:]) }
func (b *buffer) packet() []byte   { return b.content().packet() }

// content is what a record has behind its length: the kernel's header, and the packet.
type content []byte

func (c content) offload() []byte { return c[:vnetSize] }

// packet returns nil if there is not even a header.
func (c content) packet() []byte {
	if len(c) < vnetSize {
		return nil
	}
	return c[vnetSize:]
}

// keep returns b, or a shorter buffer with the same record if it fits into one.
func (b *buffer) keep() *buffer {
	for i, size := range sizes {
		if recordHead+b.n <= size {
			s := pools[i].Get().(*buffer)
			copy(s.mem, b.record())
			s.n = b.n
			return s
		}
	}
	return b
}

// cost is the memory that a buffer takes while it waits, in bytes, however short its packet.
func (b *buffer) cost() int64 { return int64(len(b.mem)) }

func (b *buffer) free() { b.pool.Put(b) }
