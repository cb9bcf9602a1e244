package ethertype

import "encoding/binary"

// Prefix is what precedes the sequence number in a header: all that the frames of
// one kind have in common in one direction of a connection. Comparing it with a
// frame's answers at once what Parse, and who looks at its fields afterwards, find
// out one by one. The zero Prefix is that of no frame.
type Prefix struct {
	words [3]uint64
	end   uint16
}

// Prefix returns the prefix of frames with header h.
func (h *Header) Prefix() Prefix {
	w := h.words()
	return Prefix{words: [3]uint64(w[:]), end: uint16(h.Tag)}
}

// Parse is Header.Parse of a frame which p is the prefix of, and which holds all
// bytes of a whole message without extension. It leaves alone the fields of h that
// the prefix holds. It reports false for any other frame, and for one with a wrong
// CRC; then h is undefined.
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
	if h.Offset != 0 || h.Length != uint32(h.Size) || int(h.Size) > len(frame)-HeaderSize {
		return nil, false
	}
	payload = frame[HeaderSize:][:h.Size]
	return payload, be.Uint32(b[fieldCRC:]) == checksum((*[fieldCRC]byte)(b), payload, Flags(p.words[2]>>48))
}
