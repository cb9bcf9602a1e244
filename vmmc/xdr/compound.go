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

// EncodeArray encodes the length of v and its elements (section 4.13). The error is ErrTooLong for
// more than max elements.
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

// DecodeArray decodes an array of up to max elements (section 4.13). Each element must occupy at
// least size bytes: the sum over the members of its type, with 4 for a counted or optional member
// or a union. The result uses dst's memory if its capacity suffices, and otherwise new memory. elem
// may reuse or replace the previous contents of its element.
//
// If the message cannot hold that many elements, DecodeArray fails with ErrShort before it
// allocates memory. A size below 1 counts as 1, so that a message of a few bytes cannot keep the
// decoder busy with empty elements.
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

// EncodeOptional encodes whether p points to a value, and then the value (section 4.19).
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

// DecodeOptional decodes optional data, which occupy at least size bytes if present (section 4.19).
// It returns nil if they are absent. Otherwise it decodes into p, or into a new value if p is nil,
// and returns it. If the message cannot hold the data, DecodeOptional fails with ErrShort before it
// allocates memory.
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

// EncodeList encodes a linked list that starts at p. For each element it encodes what members
// encodes, and then the link to the next element, which is the last member of the type. The link is
// optional data, the pointer at link(p) (section 4.19). Elements do not count as levels of depth:
// the list may have any length. The error is ErrCycle for a list that links back to one of its own
// elements.
func EncodeList[T any](e *Encoder, p *T, members func(*T, *Encoder), link func(*T) **T) {
	slow, odd := p, false
	for {
		members(p, e)
		next := *link(p)
		e.Bool(next != nil)
		if next == nil || e.err != nil {
			return
		}
		// In a cycle, a pointer that advances twice as fast meets the other pointer.
		if p, odd = next, !odd; !odd {
			slow = *link(slow)
		}
		if p == slow {
			e.fail(ErrCycle, "linked list", 0, 0)
			return
		}
	}
}

// DecodeList decodes a linked list into p and the elements that follow it. For each element it
// decodes what members decodes, at least size bytes, and the link. It decodes into elements that
// are already linked. It allocates an element only after the earlier ones have been decoded, and if
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

// Marshaler is a type that encodes itself. The Encoder holds any error.
type Marshaler interface {
	MarshalXDR(e *Encoder)
}

// Unmarshaler is a type that decodes itself, replacing its whole value. The Decoder holds any
// error.
type Unmarshaler interface {
	UnmarshalXDR(d *Decoder)
}

// Append appends the encoding of v to buf, with the limits of a zero Encoder. After an error it
// returns buf unchanged.
func Append(buf []byte, v Marshaler) ([]byte, error) {
	var e Encoder
	e.Reset(buf)
	v.MarshalXDR(&e)
	if e.err != nil {
		return buf, e.err
	}
	return e.buf, nil
}

// Unmarshal decodes msg into v, with the limits of a zero Decoder. Bytes after the value are an
// error.
func Unmarshal(msg []byte, v Unmarshaler) error {
	var d Decoder
	d.Reset(msg)
	v.UnmarshalXDR(&d)
	return d.End()
}

// Void is the type of no data (section 4.16), for a procedure without an argument or a result.
type Void struct{}

// MarshalXDR encodes nothing.
func (Void) MarshalXDR(*Encoder) {}

// UnmarshalXDR decodes nothing.
func (Void) UnmarshalXDR(*Decoder) {}
