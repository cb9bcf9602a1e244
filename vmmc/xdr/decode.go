package xdr

import (
	"encoding/binary"
	"math"
)

// Decoder decodes the items of a message.
type Decoder struct {
	// InPlace makes Opaque return views into the message instead of copies.
	InPlace bool
	// MaxDepth is the maximum nesting depth of optional data and variable-length arrays; 0 means 1024.
	MaxDepth int

	msg   []byte
	off   int
	owed  int64 // bytes that the elements to come of the arrays around need at least
	depth int
	err   error
}

// Reset makes d decode msg from its start, and clears the error. d only reads msg, which must not
// change until the last item has been decoded and the last view has been used. InPlace and MaxDepth
// remain.
func (d *Decoder) Reset(msg []byte) {
	d.msg, d.off, d.owed, d.depth, d.err = msg, 0, 0, 0, nil
}

// Offset returns the number of bytes that have been decoded.
func (d *Decoder) Offset() int { return d.off }

// Rest returns the bytes that have not been decoded, in the message's own memory.
func (d *Decoder) Rest() []byte { return d.msg[d.off:len(d.msg):len(d.msg)] }

// Err returns the first error since Reset, an *Error, or nil.
func (d *Decoder) Err() error { return d.err }

// End returns Err, or an error if bytes are left after the last item.
func (d *Decoder) End() error {
	if left := len(d.msg) - d.off; left > 0 {
		d.fail(errTrailing, "end of the message", d.off, int64(left), 0)
	}
	return d.err
}

func (d *Decoder) fail(kind error, what string, offset int, got, limit int64) {
	if d.err == nil {
		d.err = &Error{Kind: kind, What: what, Offset: offset, Got: got, Limit: limit}
	}
}

func (d *Decoder) left() int64 { return int64(len(d.msg) - d.off) }

// next returns the next n bytes of the message, or false.
func (d *Decoder) next(n int64, what string) ([]byte, bool) {
	if d.err != nil {
		return nil, false
	}
	if n > d.left() {
		d.fail(ErrShort, what, d.off, n, d.left())
		return nil, false
	}
	end := d.off + int(n)
	p := d.msg[d.off:end:end]
	d.off = end
	return p, true
}

func (d *Decoder) word(what string) uint32 {
	if p, ok := d.next(4, what); ok {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (d *Decoder) double(what string) uint64 {
	if p, ok := d.next(8, what); ok {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// Int decodes an int (section 4.1).
func (d *Decoder) Int() int32 { return int32(d.word("int")) }

// Uint decodes an unsigned int (section 4.2).
func (d *Decoder) Uint() uint32 { return d.word("unsigned int") }

// Enum decodes a value of the enumeration called what (section 4.3). The error is ErrValue if valid
// returns false. If valid is nil, every value is accepted.
func (d *Decoder) Enum(what string, valid func(int32) bool) int32 {
	v := int32(d.word(what))
	if valid != nil && d.err == nil && !valid(v) {
		d.refuse(what, int64(v))
		return 0
	}
	return v
}

// Bool decodes a bool (section 4.4). The error is ErrValue for a number other than 0 and 1.
func (d *Decoder) Bool() bool {
	v := d.word("bool")
	if v > 1 {
		d.refuse("bool", int64(v))
	}
	return v == 1
}

// refuse returns the last word to the message, because it is not a valid value of the
// item.
func (d *Decoder) refuse(what string, v int64) {
	d.off -= 4
	d.fail(ErrValue, what, d.off, v, 0)
}

// Hyper decodes a hyper (section 4.5).
func (d *Decoder) Hyper() int64 { return int64(d.double("hyper")) }

// Uhyper decodes an unsigned hyper (section 4.5).
func (d *Decoder) Uhyper() uint64 { return d.double("unsigned hyper") }

// Float decodes a float (section 4.6).
func (d *Decoder) Float() float32 { return math.Float32frombits(d.word("float")) }

// Double decodes a double (section 4.7).
func (d *Decoder) Double() float64 { return math.Float64frombits(d.double("double")) }

// Quadruple decodes a quadruple (section 4.8).
func (d *Decoder) Quadruple() (v Quadruple) {
	if p, ok := d.next(int64(len(v)), "quadruple"); ok {
		copy(v[:], p)
	}
	return v
}

// FixedOpaque decodes opaque data of the declared length len(dst) into dst (section 4.9).
func (d *Decoder) FixedOpaque(dst []byte) { copy(dst, d.FixedOpaqueView(len(dst))) }

// FixedOpaqueView decodes opaque data of the declared length n, which must not be negative (section
// 4.9). The result lies in the message. It is nil after an error.
func (d *Decoder) FixedOpaqueView(n int) []byte { return d.opaque("opaque", d.off, uint64(n)) }

// Opaque decodes opaque data of up to max bytes (section 4.10). The result is a copy in dst's
// memory if its capacity suffices, and otherwise in new memory, unless InPlace is set.
func (d *Decoder) Opaque(dst []byte, max uint32) []byte {
	p := d.OpaqueView(max)
	if d.InPlace {
		return p
	}
	return append(dst[:0], p...)
}

// OpaqueView decodes opaque data of up to max bytes (section 4.10). The result lies in the message.
// It is nil after an error.
func (d *Decoder) OpaqueView(max uint32) []byte { return d.counted("opaque", max) }

// String decodes a string of up to max bytes (section 4.11).
func (d *Decoder) String(max uint32) string { return string(d.StringView(max)) }

// StringView decodes a string of up to max bytes (section 4.11). The result lies in the message. It
// is nil after an error.
func (d *Decoder) StringView(max uint32) []byte { return d.counted("string", max) }

// NoArm records that the last decoded discriminant v selects no arm of the union called what, which
// has no default (section 4.15): ErrValue.
func (d *Decoder) NoArm(what string, v int64) {
	if d.err == nil {
		d.refuse(what, v)
	}
}

// counted takes a length and that many bytes.
func (d *Decoder) counted(what string, max uint32) []byte {
	start := d.off
	n := d.word(what)
	if d.err == nil && n > max {
		d.off = start
		d.fail(ErrTooLong, what, start, int64(n), int64(max))
	}
	return d.opaque(what, start, uint64(n))
}

// opaque takes n bytes and their padding, of the item that begins at start. If the message is too
// short, the decoder stays at start.
func (d *Decoder) opaque(what string, start int, n uint64) []byte {
	p, ok := d.next(padded(n), what)
	if !ok {
		d.off = start
		return nil
	}
	for i, pad := range p[n:] {
		if pad != 0 {
			d.fail(errPadding, what, d.off-len(p)+int(n)+i, int64(pad), 0)
			d.off = start
			return nil
		}
	}
	return p[:n:n]
}

// count takes the length of an array whose elements occupy at least size bytes each. It
// reserves these bytes for the elements, so that an array within an element cannot be
// longer than the rest of the message.
func (d *Decoder) count(max uint32, size int64) int {
	start := d.off
	n := d.word("array")
	if d.err != nil {
		return 0
	}
	// The product fits: n has 32 bits, and a size beyond 31 bits is no XDR type.
	need, free := int64(n)*size, d.left()-d.owed
	if free < 0 {
		free = 0
	}
	switch {
	case n > max:
		d.off = start
		d.fail(ErrTooLong, "array", start, int64(n), int64(max))
		return 0
	case need > free:
		d.off = start
		d.fail(ErrShort, "array", start, need, free)
		return 0
	}
	d.owed += need
	return int(n)
}

// Need reports whether the message can hold that many bytes for the item called what, in addition
// to the bytes that elements of enclosing arrays still need. If not, it records ErrShort. It is for
// a union whose arm is allocated separately: a message that cannot hold the arm must not cause the
// allocation.
func (d *Decoder) Need(what string, size int) bool {
	if free := max(d.left()-d.owed, 0); d.err == nil && int64(size) > free {
		d.fail(ErrShort, what, d.off, int64(size), free)
	}
	return d.err == nil
}

// Enter begins a level of nesting for the item called what; Leave ends it. It reports whether
// decoding can continue. If MaxDepth levels are open, it records ErrDepth. It is for generated code
// of recursive types, so that a message cannot control the depth of calls.
func (d *Decoder) Enter(what string) bool {
	if limit := maxDepth(d.MaxDepth); d.depth >= limit {
		d.fail(ErrDepth, what, d.off, int64(d.depth)+1, int64(limit))
	}
	if d.err != nil {
		return false
	}
	d.depth++
	return true
}

// Leave ends the level of the last successful Enter.
func (d *Decoder) Leave() { d.depth-- }
