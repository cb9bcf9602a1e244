package sim

import (
	"bytes"
	"math/bits"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// frame is the bytes of a frame, shared by its copies.
type frame struct {
	data   []byte
	refs   int
	joined bool // it has arrived in segments
}

// poison fills a released frame, so that a late reader of a view finds a frame that no parser
// accepts.
const poison = 0xdb

var poisoned = bytes.Repeat([]byte{poison}, ethertype.MaxFrame)

// pool keeps frames for reuse, by the binary logarithm of their capacity, so that a running world
// does not allocate.
type pool [18][]*frame

// leastClass is the binary logarithm of the smallest capacity.
const leastClass = 7

func class(n int) int { return max(leastClass, bits.Len(uint(n-1))) }

// newFrame returns a frame of n bytes with one reference and arbitrary contents.
func (p *pool) newFrame(n int) *frame {
	c := class(n)
	if kept := p[c]; len(kept) > 0 {
		f := kept[len(kept)-1]
		p[c] = kept[:len(kept)-1]
		f.data, f.refs, f.joined = f.data[:n], 1, false
		return f
	}
	return &frame{data: make([]byte, n, 1<<c), refs: 1}
}

// gather copies the parts of a frame that a caller of Send passed.
func (p *pool) gather(src *transport.Frame) *frame {
	f := p.newFrame(src.Len())
	src.AppendTo(f.data[:0])
	return f
}

// release drops one reference, and keeps the frame for reuse if it was the last.
func (p *pool) release(f *frame) {
	if f.refs--; f.refs > 0 {
		return
	}
	copy(f.data, poisoned)
	c := class(cap(f.data))
	p[c] = append(p[c], f)
}

// own returns an unshared frame with f's bytes, in exchange for one reference to f.
func (p *pool) own(f *frame) *frame {
	if f.refs == 1 {
		return f
	}
	g := p.newFrame(len(f.data))
	copy(g.data, f.data)
	p.release(f)
	return g
}
