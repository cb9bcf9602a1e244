package wire

import "encoding/binary"

// Bytes 6 and 7 of a message's header say how long it is if another one follows
// in the same VI message; 0: it is the last.
const LengthAt = 6

// Rounded is the room that a message of n bytes takes before another, so that
// each begins at a multiple of 4 bytes.
func Rounded(n int) int { return (n + 3) &^ 3 }

// Follow says in the header of a message of n bytes that it is followed by others in
// the same VI message, if it is. It returns how many bytes it takes there.
func Follow(m []byte, n, others int) int {
	if others == 0 {
		return n
	}
	binary.LittleEndian.PutUint16(m[LengthAt:], uint16(n))
	clear(m[n:Rounded(n)])
	return Rounded(n)
}

// Join copies a message behind others and returns its length there. Its tags stay
// away if they are those that came last.
func Join(dst, m []byte, last **[TagsSize]byte) int {
	if !Kind(m[0]).Tagged() {
		return copy(dst, m)
	}
	tags := (*[TagsSize]byte)(m[BaseSize:])
	if *last == nil || *tags != **last {
		*last = tags
		return copy(dst, m)
	}
	n := copy(dst, m[:BaseSize])
	dst[0] |= sameTags
	return n + copy(dst[n:], m[BaseSize+TagsSize:])
}

// SplitNext cuts the first message off the messages b, of which none is longer than
// full. It reports false for what no version of this package sends.
func SplitNext(b []byte, full int) (m, rest []byte, ok bool) {
	if len(b) < BaseSize {
		return nil, nil, false
	}
	n := int(binary.LittleEndian.Uint16(b[LengthAt:]))
	next := Rounded(n)
	if b[0]&Spaced != 0 {
		next = full
	}
	switch {
	case n == 0:
		return b, nil, true
	case n < BaseSize || n > next || next > len(b)-BaseSize:
		return nil, nil, false
	}
	return b[:n:n], b[next:], true
}
