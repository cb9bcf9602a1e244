package memory

// Scatter copies data to offset in the concatenation of segs. It reports whether there is room; the
// segments were long enough when they were posted.
func Scatter(segs []Segment, offset uint32, data []byte) bool {
	for i := 0; len(data) > 0; i++ {
		if i == len(segs) {
			return false
		}
		part := segs[i].Data
		if uint32(len(part)) <= offset {
			offset -= uint32(len(part))
			continue
		}
		data = data[copy(part[offset:], data):]
		offset = 0
	}
	return true
}

// AppendParts appends the size bytes from offset of the concatenated segments to body, as parts. It
// reports whether these bytes exist.
func AppendParts(body [][]byte, segs []Segment, offset, size uint32) (parts [][]byte, ok bool) {
	for i := 0; size > 0 && i < len(segs); i++ {
		part := segs[i].Data
		if uint32(len(part)) <= offset {
			offset -= uint32(len(part))
			continue
		}
		part = part[offset:]
		part = part[:min(uint32(len(part)), size)]
		body = append(body, part)
		size -= uint32(len(part))
		offset = 0
	}
	return body, size == 0
}

// CopyOut copies size bytes from offset of the concatenated segments. It reports whether these
// bytes exist.
func CopyOut(dst []byte, segs []Segment, offset, size uint32) bool {
	done := 0
	for i := 0; uint32(done) < size && i < len(segs); i++ {
		part := segs[i].Data
		if uint32(len(part)) <= offset {
			offset -= uint32(len(part))
			continue
		}
		done += copy(dst[done:size], part[offset:])
		offset = 0
	}
	return uint32(done) == size
}
