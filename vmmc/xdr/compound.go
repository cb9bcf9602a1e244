package xdr

// EncodeFixedArray encodes the elements of an array of the declared length len(v), in
// order (section 4.12).
func EncodeFixedArray[T any](e *Encoder, v []T, elem func(*T, *Encoder)) {
	for i := range v {
		if e.err != nil {
			return
		}
		elem(&v[i], e)
	}
}

// DecodeFixedArray decodes the elements of an array of the declared length len(v) into v
// (section 4.12).
func DecodeFixedArray[T any](d *Decoder, v []T, elem func(*T, *Decoder)) {
	for i := range v {
		if d.err != nil {
			return
		}
		elem(&v[i], d)
	}
}

// EncodeArray encodes the length of v and its elements (section 4.13). More than max
// elements are ErrTooLong.
func EncodeArray[T any](e *Encoder, v []T, max uint32, elem func(*T, *Encoder)) {
	if uint64(len(v)) > uint64(max) {
		e.fail(ErrTooLong, "array", int64(len(v)), int64(max))
	}
	if !e.Enter("array") {
		return
	}
	e.word(uint32(len(v)), "array")
	EncodeFixedArray(e, v, elem)
	e.Leave()
}

// DecodeArray decodes an array of up to max elements (section 4.13), each of which
// occupies size octets or more: the sum over the members of its type, 4 for what is counted,
// optional or a union. The elements of the result are in dst's memory if its capacity
// suffices, else in new memory; what is in them already is for elem to reuse or replace.
//
// The array is refused as ErrShort, before memory is taken, if the message cannot hold
// that many elements. A size below 1 counts as 1, so that no message of a few octets can
// keep the decoder busy with elements of none.
func DecodeArray[T any](d *Decoder, dst []T, max uint32, size int, elem func(*T, *Decoder)) []T {
	if !d.Enter("array") {
		return dst[:0]
	}
	least := int64(size)
	if least < 1 {
		least = 1
	}
	n := d.count(max, least)
	if n > cap(dst) {
		dst = make([]T, n)
	}
	dst = dst[:n]
	for i := range dst {
		if d.err != nil {
			break
		}
		d.owed -= least
		elem(&dst[i], d)
	}
	d.Leave()
	return dst
}

// EncodeOptional encodes whether p points to a value, and the value (section 4.19).
func EncodeOptional[T any](e *Encoder, p *T, elem func(*T, *Encoder)) {
	if !e.Enter("optional data") {
		return
	}
	e.Bool(p != nil)
	if p != nil && e.err == nil {
		elem(p, e)
	}
	e.Leave()
}

// DecodeOptional decodes optional data, which occupy size octets or more where they are
// there (section 4.19). It returns nil if they are absent, else p, into which they were
// decoded, or a new value if p is nil. If the message cannot hold them they are refused as
// ErrShort, before memory is taken.
func DecodeOptional[T any](d *Decoder, p *T, size int, elem func(*T, *Decoder)) *T {
	if !d.Enter("optional data") {
		return nil
	}
	defer d.Leave()
	if !d.Bool() || !d.Need("optional data", size) {
		return nil
	}
	if p == nil {
		p = new(T)
	}
	elem(p, d)
	return p
}

// EncodeList encodes a linked list from p on: of each element what members encodes, and
// the link to the next, which is the last member of its type. The link is the optional data
// that the pointer at link(p) is (section 4.19). Elements take no level of depth: the list may have
// any length. One that comes back to an element of itself is ErrCycle.
func EncodeList[T any](e *Encoder, p *T, members func(*T, *Encoder), link func(*T) **T) {
	slow, odd := p, false
	for {
		members(p, e)
		next := *link(p)
		e.Bool(next != nil)
		if next == nil || e.err != nil {
			return
		}
		// Of two that go round, the one that goes twice as fast meets the other.
		if p, odd = next, !odd; !odd {
			slow = *link(slow)
		}
		if p == slow {
			e.fail(ErrCycle, "linked list", 0, 0)
			return
		}
	}
}

// DecodeList decodes a linked list into p and what follows it: of each element what members
// decodes, size octets or more, and the link. Elements that are linked to already are
// decoded into. Memory for an element is taken when those before it have been decoded and
// the message can hold it.
func DecodeList[T any](d *Decoder, p *T, size int, members func(*T, *Decoder), link func(*T) **T) {
	for {
		members(p, d)
		next := link(p)
		if !d.Bool() || !d.Need("linked list", size) {
			*next = nil
			return
		}
		if *next == nil {
			*next = new(T)
		}
		p = *next
	}
}

// Marshaler is a type that encodes itself. Errors stay in the Encoder.
type Marshaler interface {
	MarshalXDR(e *Encoder)
}

// Unmarshaler is a type that decodes itself, replacing its whole value. Errors stay in
// the Decoder.
type Unmarshaler interface {
	UnmarshalXDR(d *Decoder)
}

// Append appends the encoding of v to buf, with the limits of a zero Encoder. After an
// error it returns buf as it was.
func Append(buf []byte, v Marshaler) ([]byte, error) {
	var e Encoder
	e.Reset(buf)
	v.MarshalXDR(&e)
	if e.err != nil {
		return buf, e.err
	}
	return e.buf, nil
}

// Unmarshal decodes msg into v, with the limits of a zero Decoder. Octets after the value
// are an error.
func Unmarshal(msg []byte, v Unmarshaler) error {
	var d Decoder
	d.Reset(msg)
	v.UnmarshalXDR(&d)
	return d.End()
}

// Void is the type of no data (section 4.16), for the argument or result of a procedure
// that has none.
type Void struct{}

// MarshalXDR encodes nothing.
func (Void) MarshalXDR(*Encoder) {}

// UnmarshalXDR decodes nothing.
func (Void) UnmarshalXDR(*Decoder) {}
