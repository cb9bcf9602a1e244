package mplite

import (
	"context"
	"encoding/binary"
)

// Vector is a selection of equally spaced parts of a slice (MPI_Type_vector), for example a column
// of a matrix. A message of a Vector has the elements of the parts in order. It may be received
// like any other elements, by a Vector of another shape or a plain slice. Its methods copy the
// elements to or from a staging buffer, and otherwise behave like the methods of the same name on
// a slice. As with the slice itself, any goroutine may use a Vector, any number of times. The zero
// Vector has no elements.
type Vector[T any] struct {
	buf                  []T
	count, block, stride int
}

// NewVector selects count parts of buf, each of block elements. The parts begin stride
// elements apart, the first at the start of buf. It returns ErrArgument if parts overlap or
// buf is too short, and ErrType if T cannot be an element.
func NewVector[T any](buf []T, count, block, stride int) (Vector[T], error) {
	if err := elementOf[T]().err; err != nil {
		return Vector[T]{}, err
	}
	if count < 0 || block < 0 {
		return Vector[T]{}, opError("make vector", ErrArgument, "%d parts of %d elements", count, block)
	}
	if count == 0 || block == 0 {
		return Vector[T]{}, nil
	}
	if stride < block && count > 1 {
		return Vector[T]{}, opError("make vector", ErrArgument, "parts of %d elements overlap when they begin %d apart", block, stride)
	}
	if block > len(buf) || count > 1 && (len(buf)-block)/stride < count-1 {
		return Vector[T]{}, opError("make vector", ErrArgument, "%d parts of %d elements that begin %d apart do not fit a slice of %d",
			count, block, stride, len(buf))
	}
	return Vector[T]{buf: buf, count: count, block: block, stride: stride}, nil
}

// Len returns the number of elements.
func (v Vector[T]) Len() int { return v.count * v.block }

// Pack copies the elements to dst, which must have room for Len elements (MPI_Pack).
func (v Vector[T]) Pack(dst []T) {
	s := v.strided()
	s.gather(asBytes(dst[:v.Len()]))
}

// Unpack copies elements of src to the elements of v, in order, until one of them ends
// (MPI_Unpack).
func (v Vector[T]) Unpack(src []T) {
	s := v.strided()
	s.scatter(asBytes(src[:min(len(src), v.Len())]))
}

func (v Vector[T]) strided() strided {
	n := sizeOf[T]()
	return strided{mem: asBytes(v.buf), count: v.count, block: v.block * n, stride: v.stride * n}
}

// Send is Comm.Send.
func (v Vector[T]) Send(ctx context.Context, c *Comm, dst, tag int) error {
	return c.sendStrided(ctx, v.strided(), dst, tag, c.user(elementOf[T]()))
}

// Ssend is Comm.Ssend.
func (v Vector[T]) Ssend(ctx context.Context, c *Comm, dst, tag int) error {
	return c.sendStrided(ctx, v.strided(), dst, tag, c.user(elementOf[T]()).sync())
}

// Recv is Comm.Recv. A shorter message changes only the first elements of v.
func (v Vector[T]) Recv(ctx context.Context, c *Comm, src, tag int) (Status, error) {
	return c.recvStrided(ctx, v.strided(), src, tag, c.user(elementOf[T]()))
}

// Sendrecv is Comm.Sendrecv: it sends v and receives into recv, which must not share elements with
// v.
func (v Vector[T]) Sendrecv(ctx context.Context, c *Comm, dst, sendtag int, recv Vector[T], src, recvtag int) (Status, error) {
	out, in := v.strided(), recv.strided()
	w := c.w
	from, to := w.lend(out.size()), w.lend(in.size())
	out.gather(from)
	st, err := c.exchange(ctx, from, dst, sendtag, to, src, recvtag, c.user(elementOf[T]()))
	in.take(to, st, err)
	w.giveBack(from)
	w.giveBack(to)
	return st, err
}

// Isend is Comm.Isend. The elements are copied at once.
func (v Vector[T]) Isend(c *Comm, dst, tag int) (Request, error) {
	return c.startStrided(plan{shape: v.strided(), peer: dst, tag: tag, spec: c.user(elementOf[T]())})
}

// Issend is Comm.Issend. The elements are copied at once.
func (v Vector[T]) Issend(c *Comm, dst, tag int) (Request, error) {
	return c.startStrided(plan{shape: v.strided(), peer: dst, tag: tag, spec: c.user(elementOf[T]()).sync()})
}

// Irecv is Comm.Irecv.
func (v Vector[T]) Irecv(c *Comm, src, tag int) (Request, error) {
	return c.startStrided(plan{recv: true, shape: v.strided(), peer: src, tag: tag, spec: c.user(elementOf[T]())})
}

// SendInit is Comm.SendInit.
func (v Vector[T]) SendInit(c *Comm, dst, tag int) (Request, error) {
	return c.persistent(plan{shape: v.strided(), peer: dst, tag: tag, spec: c.user(elementOf[T]())})
}

// SsendInit is Comm.SsendInit.
func (v Vector[T]) SsendInit(c *Comm, dst, tag int) (Request, error) {
	return c.persistent(plan{shape: v.strided(), peer: dst, tag: tag, spec: c.user(elementOf[T]()).sync()})
}

// RecvInit is Comm.RecvInit.
func (v Vector[T]) RecvInit(c *Comm, src, tag int) (Request, error) {
	return c.persistent(plan{recv: true, shape: v.strided(), peer: src, tag: tag, spec: c.user(elementOf[T]())})
}

// strided is memory in separate parts; all fields are in bytes. Contiguous memory has no stride.
type strided struct {
	mem                  []byte
	count, block, stride int
}

func (s *strided) size() int { return s.count * s.block }

// gather copies the parts to dst, which must have their total length.
func (s *strided) gather(dst []byte) {
	ne := binary.NativeEndian
	src := s.mem
	switch s.block {
	case 8:
		for i := range s.count {
			ne.PutUint64(dst[8*i:], ne.Uint64(src[i*s.stride:]))
		}
	case 4:
		for i := range s.count {
			ne.PutUint32(dst[4*i:], ne.Uint32(src[i*s.stride:]))
		}
	default:
		for i := range s.count {
			copy(dst[i*s.block:], src[i*s.stride:][:s.block])
		}
	}
}

// scatter copies src to the parts, until src ends.
func (s *strided) scatter(src []byte) {
	ne := binary.NativeEndian
	whole := len(src) / max(s.block, 1)
	switch s.block {
	case 8:
		for i := range whole {
			ne.PutUint64(s.mem[i*s.stride:], ne.Uint64(src[8*i:]))
		}
	case 4:
		for i := range whole {
			ne.PutUint32(s.mem[i*s.stride:], ne.Uint32(src[4*i:]))
		}
	default:
		for i := range whole {
			copy(s.mem[i*s.stride:], src[i*s.block:][:s.block])
		}
	}
	if rest := src[whole*s.block:]; len(rest) > 0 {
		copy(s.mem[whole*s.stride:], rest)
	}
}
