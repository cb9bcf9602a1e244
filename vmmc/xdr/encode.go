package xdr

import (
	"encoding/binary"
	"math"
)

const (
	// Unbounded is the bound of an opaque, string or array that is declared without one.
	Unbounded = math.MaxUint32
	// defaultMaxDepth is the limit of nesting where MaxDepth is 0.
	defaultMaxDepth = 1024
)

// Encoder appends the encodings of items to a slice. An item that cannot be encoded
// appends nothing.
type Encoder struct {
	// MaxSize is the maximum number of bytes encoded between Reset and Bytes; 0 means no limit. If
	// the slice has that capacity, the Encoder never reallocates it.
	MaxSize int
	// MaxDepth is the maximum nesting depth of optional data and variable-length arrays; 0 means 1024.
	MaxDepth int
	// ReferFrom, if positive, is the minimum length in bytes of opaque data that the Encoder
	// references instead of copying: Bytes omits them, and Refs returns them with their positions.
	ReferFrom int

	buf      []byte
	base     int // length of buf at Reset
	refs     []Ref
	referred int // bytes in refs
	depth    int
	err      error
}

// Ref is opaque data that is part of an encoding but lies elsewhere in memory.
type Ref struct {
	At   int // its position: before this byte of Encoder.Bytes
	Data []byte
}

// Reset makes e append to buf, which belongs to e until Bytes is called, and clears the error.
// MaxSize, MaxDepth and ReferFrom remain.
func (e *Encoder) Reset(buf []byte) {
	clear(e.refs)
	e.buf, e.base, e.refs, e.referred, e.depth, e.err = buf, len(buf), e.refs[:0], 0, 0, nil
}

// Bytes returns the slice given to Reset, or a larger one that has replaced it, with everything
// encoded since. It holds whole items, even after an error.
func (e *Encoder) Bytes() []byte { return e.buf }

// Refs returns the data that Bytes omits, in order. The result is valid until Reset.
func (e *Encoder) Refs() []Ref { return e.refs }

// Len returns the number of bytes that have been encoded since Reset, a multiple of four.
func (e *Encoder) Len() int { return len(e.buf) - e.base + e.referred }

// Err returns the first error since Reset, an *Error, or nil.
func (e *Encoder) Err() error { return e.err }

func (e *Encoder) fail(kind error, what string, got, limit int64) {
	if e.err == nil {
		e.err = &Error{Kind: kind, What: what, Offset: e.Len(), Got: got, Limit: limit}
	}
}

// room reports whether n more bytes may be appended.
func (e *Encoder) room(n int64, what string) bool {
	if e.err != nil {
		return false
	}
	if size := int64(e.Len()) + n; e.MaxSize > 0 && size > int64(e.MaxSize) {
		e.fail(errFull, what, size, int64(e.MaxSize))
		return false
	}
	return true
}

func (e *Encoder) word(v uint32, what string) {
	if e.room(4, what) {
		e.buf = binary.BigEndian.AppendUint32(e.buf, v)
	}
}

func (e *Encoder) double(v uint64, what string) {
	if e.room(8, what) {
		e.buf = binary.BigEndian.AppendUint64(e.buf, v)
	}
}

// Int encodes an int (section 4.1).
func (e *Encoder) Int(v int32) { e.word(uint32(v), "int") }

// Uint encodes an unsigned int (section 4.2).
func (e *Encoder) Uint(v uint32) { e.word(v, "unsigned int") }

// Enum encodes a value of the enumeration called what (section 4.3). The error is ErrValue if valid
// returns false. If valid is nil, every value is encoded.
func (e *Encoder) Enum(what string, v int32, valid func(int32) bool) {
	if valid != nil && !valid(v) {
		e.fail(ErrValue, what, int64(v), 0)
		return
	}
	e.word(uint32(v), what)
}

// Bool encodes a bool (section 4.4).
func (e *Encoder) Bool(v bool) {
	var n uint32
	if v {
		n = 1
	}
	e.word(n, "bool")
}

// Hyper encodes a hyper (section 4.5).
func (e *Encoder) Hyper(v int64) { e.double(uint64(v), "hyper") }

// Uhyper encodes an unsigned hyper (section 4.5).
func (e *Encoder) Uhyper(v uint64) { e.double(v, "unsigned hyper") }

// Float encodes a float (section 4.6).
func (e *Encoder) Float(v float32) { e.word(math.Float32bits(v), "float") }

// Double encodes a double (section 4.7).
func (e *Encoder) Double(v float64) { e.double(math.Float64bits(v), "double") }

// Quadruple encodes a quadruple (section 4.8).
func (e *Encoder) Quadruple(v Quadruple) {
	if e.room(int64(len(v)), "quadruple") {
		e.buf = append(e.buf, v[:]...)
	}
}

// FixedOpaque encodes opaque data of the declared length len(p) (section 4.9).
func (e *Encoder) FixedOpaque(p []byte) {
	if e.room(padded(uint64(len(p))), "opaque") {
		e.opaque(p)
	}
}

// Opaque encodes opaque data of up to max bytes (section 4.10). It copies them unless ReferFrom
// applies.
func (e *Encoder) Opaque(p []byte, max uint32) {
	if e.length("opaque", len(p), max) {
		e.opaque(p)
	}
}

// opaque encodes opaque data and its padding; the caller has made room for both.
func (e *Encoder) opaque(p []byte) {
	if e.ReferFrom > 0 && len(p) >= e.ReferFrom {
		e.refs = append(e.refs, Ref{len(e.buf), p})
		e.referred += len(p)
	} else {
		e.buf = append(e.buf, p...)
	}
	e.pad(len(p))
}

// String encodes a string of up to max bytes (section 4.11).
func (e *Encoder) String(s string, max uint32) {
	if e.length("string", len(s), max) {
		e.buf = append(e.buf, s...)
		e.pad(len(s))
	}
}

// NoArm records ErrValue: the discriminant v selects no arm of the union, and the union has no
// default arm (section 4.15). what is the union's name in the error.
func (e *Encoder) NoArm(what string, v int64) { e.fail(ErrValue, what, v, 0) }

// Nil records that the value called what is nil but not optional: ErrNil.
func (e *Encoder) Nil(what string) { e.fail(ErrNil, what, 0, 0) }

// length encodes the length of n bytes, and reports whether there is room for these
// bytes.
func (e *Encoder) length(what string, n int, max uint32) bool {
	if uint64(n) > uint64(max) {
		e.fail(ErrTooLong, what, int64(n), int64(max))
		return false
	}
	if !e.room(4+padded(uint64(n)), what) {
		return false
	}
	e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(n))
	return true
}

// pad fills up n bytes to a multiple of four.
func (e *Encoder) pad(n int) {
	var zero [4]byte
	e.buf = append(e.buf, zero[:-n&3]...)
}

// padded returns the number of bytes that n bytes occupy with their padding.
func padded(n uint64) int64 { return int64(n+3) &^ 3 }

// Enter begins a level of nesting for the item called what; Leave ends it. It reports whether
// encoding can continue. If MaxDepth levels are open, which includes a value that contains itself,
// it records ErrDepth. It is for generated code of recursive types.
func (e *Encoder) Enter(what string) bool {
	if limit := maxDepth(e.MaxDepth); e.depth >= limit {
		e.fail(ErrDepth, what, int64(e.depth)+1, int64(limit))
	}
	if e.err != nil {
		return false
	}
	e.depth++
	return true
}

// Leave ends the level of the last successful Enter.
func (e *Encoder) Leave() { e.depth-- }

func maxDepth(set int) int {
	if set > 0 {
		return set
	}
	return defaultMaxDepth
}
