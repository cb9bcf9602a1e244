package ethertype

import "encoding/binary"

// Prefix is the part of a header before the sequence number, which all frames of one kind have in
// common in one direction of a connection. One comparison with it replaces most checks of Parse and
// of its caller. No frame has the zero Prefix.
type Prefix struct {
	words [3]uint64
	end   uint16
}

// Prefix returns the prefix of frames with header h.
func (h *Header) Prefix() Prefix {
	w := h.words()
	return Prefix{words: [3]uint64(w[:]), end: uint16(h.Tag)}
}

// Kind returns the kind of the frames that have the prefix.
func (p *Prefix) Kind() Kind { return Kind(p.words[1]) }

// Flags returns the flags of the frames that have the prefix.
func (p *Prefix) Flags() Flags { return Flags(p.words[2] >> 48) }

// Parse is Header.Parse for a frame with prefix p. It does not set the fields of h that the prefix
// holds, and does not check that offset, length and size agree. It returns false for any other
// frame, and for one that is too short or has an invalid CRC; h is then undefined.
func (p *Prefix) Parse(h *Header, frame []byte) (payload []byte, ok bool) {
	if len(frame) < HeaderSize || p.words[1] == 0 {
		return nil, false
	}
	be, b := binary.BigEndian, frame[:HeaderSize:HeaderSize]
	differs := (be.Uint64(b) ^ p.words[0]) | (be.Uint64(b[8:]) ^ p.words[1]) | (be.Uint64(b[16:]) ^ p.words[2])
	if differs != 0 || be.Uint16(b[24:]) != p.end {
		return nil, false
	}
	h.getRest(b)
	if int(h.Size) > len(frame)-HeaderSize {
		return nil, false
	}
	payload = frame[HeaderSize:][:h.Size]
	return payload, be.Uint32(b[fieldCRC:]) == checksum((*[fieldCRC]byte)(b), payload, p.Flags())
}
