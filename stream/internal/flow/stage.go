package flow

// Stage tracks a ring of outgoing data: bytes that are written and not posted, and bytes that are
// posted and not acknowledged.
type Stage struct {
	size                      uint64
	released, posted, written uint64 // bytes since the beginning
	asked                     uint64 // posted bytes up to the last request for an acknowledgement
}

// NewStage returns a Stage of size bytes.
func NewStage(size int) Stage { return Stage{size: uint64(size)} }

// Free returns the offset of the next byte to write, and how many fit contiguously.
func (s *Stage) Free() (at, n int) {
	off := s.written % s.size
	return int(off), int(min(s.size-(s.written-s.released), s.size-off))
}

// Room returns how many bytes fit in total.
func (s *Stage) Room() int { return int(s.size - (s.written - s.released)) }

// Wrote records n bytes written at the offset that Free returned.
func (s *Stage) Wrote(n int) { s.written += uint64(n) }

// Pending returns the offset of the oldest byte that has not been posted, and the number of
// contiguous bytes from there.
func (s *Stage) Pending() (at, n int) {
	off := s.posted % s.size
	return int(off), int(min(s.written-s.posted, s.size-off))
}

// Unposted returns how many bytes are not posted.
func (s *Stage) Unposted() int { return int(s.written - s.posted) }

// Posted records that the oldest n of them are posted.
func (s *Stage) Posted(n int) { s.posted += uint64(n) }

// Ask reports whether the last posted message should request an acknowledgement: a quarter of the
// ring was posted since the last request. So room becomes free before the ring is full.
func (s *Stage) Ask() bool {
	if s.posted-s.asked < s.size/4 {
		return false
	}
	s.asked = s.posted
	return true
}

// Released records that the oldest n posted bytes may be overwritten.
func (s *Stage) Released(n int) { s.released += uint64(n) }
