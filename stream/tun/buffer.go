package tun

import (
	"encoding/binary"
	"sync"
)

// A record on a stream is the length of the rest in four bytes, the kernel's header, and the
// packet.
const (
	recordHead = 4
	// maxRecord is the largest valid length: the longest packet that the kernel passes in one
	// piece, and its header.
	maxRecord = vnetSize + 65_535 + header6
)

// buffer holds a record.
type buffer struct {
	mem  []byte
	n    int // bytes after the length
	pool *sync.Pool
}

// sizes are the sizes of the buffers to which a packet is moved before it waits: the smallest that
// fits. Most packets are short, and many may wait. Longer packets stay in the large buffer that
// they were read into.
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

// newBuffer returns a buffer with room for any record.
func newBuffer() *buffer { return long.Get().(*buffer) }

// room returns the memory for a header and its packet.
func (b *buffer) room() []byte { return b.mem[recordHead:] }

// fill sets the number of bytes of room that are in use.
func (b *buffer) fill(n int) *buffer {
	b.n = n
	binary.LittleEndian.PutUint32(b.mem, uint32(n))
	return b
}

func (b *buffer) record() []byte   { return b.mem[:recordHead+b.n] }
func (b *buffer) content() content { return content(b.record()[recordHead:]) }
func (b *buffer) packet() []byte   { return b.content().packet() }

// content is a record without its length: the kernel's header, and the packet.
type content []byte

func (c content) offload() []byte { return c[:vnetSize] }

// packet returns the packet, or nil if the content is shorter than a header.
func (c content) packet() []byte {
	if len(c) < vnetSize {
		return nil
	}
	return c[vnetSize:]
}

// keep returns b, or a smaller buffer with a copy of the record if it fits one.
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

// cost returns the memory that a waiting buffer occupies, in bytes, however short its packet is.
func (b *buffer) cost() int64 { return int64(len(b.mem)) }

// free returns the record buffer to its pool.
func (b *buffer) free() { b.pool.Put(b) }
