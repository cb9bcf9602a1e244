package wire

import "encoding/binary"

// LengthAt is the offset of a message's length in its header, 2 bytes. The length is 0 for the last
// message of a VI message.
const LengthAt = 6

// Rounded returns the space of a message of n bytes before another one: each begins at a multiple
// of 4 bytes.
func Rounded(n int) int { return (n + 3) &^ 3 }

// Follow writes into the header of a message of n bytes whether others follow it in the same VI
// message. It returns the space of the message there, in bytes.
func Follow(m []byte, n, others int) int {
	if others == 0 {
		return n
	}
	binary.LittleEndian.PutUint16(m[LengthAt:], uint16(n))
	clear(m[n:Rounded(n)])
	return Rounded(n)
}

// Join appends a message to others and returns its length there. It omits the tags if they equal
// the previous ones.
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

// SplitNext splits the first message off the messages b. No message is longer than full. It returns
// false for bytes that no version of this package sends.
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
