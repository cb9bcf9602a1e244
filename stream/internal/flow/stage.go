package flow

// Stage knows a ring of data on their way out: those written into it and not posted yet,
// and those posted, which stay until they have been acknowledged.
type Stage struct {
	size                      uint64
	released, posted, written uint64 // bytes since the beginning
	asked                     uint64 // of these, up to where an acknowledgement was asked for
}

// NewStage returns a Stage of size bytes.
func NewStage(size int) Stage { return Stage{size: uint64(size)} }

// Free returns the offset of the next byte to be written, and how many fit in a row.
func (s *Stage) Free() (at, n int) {
	off := s.written % s.size
	return int(off), int(min(s.size-(s.written-s.released), s.size-off))
}

// Room returns how many bytes fit in all.
func (s *Stage) Room() int { return int(s.size - (s.written - s.released)) }

// Wrote notes n bytes, which fit where Free has said.
func (s *Stage) Wrote(n int) { s.written += uint64(n) }

// Pending returns the offset of the oldest byte that is not posted, and how many lie there
// in a row.
func (s *Stage) Pending() (at, n int) {
	off := s.posted % s.size
	return int(off), int(min(s.written-s.posted, s.size-off))
}

// Unposted returns how many bytes are not posted.
func (s *Stage) Unposted() int { return int(s.written - s.posted) }

// Posted notes that the oldest n of them are.
func (s *Stage) Posted(n int) { s.posted += uint64(n) }

// Ask reports whether the message posted last is to ask for an acknowledgement: a quarter of the
// ring was posted since another one has, so that there is room again before all is full.
func (s *Stage) Ask() bool {
	if s.posted-s.asked < s.size/4 {
		return false
	}
	s.asked = s.posted
	return true
}

// Released notes that the oldest n of the posted ones may be written over.
func (s *Stage) Released(n int) { s.released += uint64(n) }
