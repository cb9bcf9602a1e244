package flow

import "fmt"

// Sender knows the other end's ring: where the next data go, and how many may.
type Sender struct {
	size                uint64
	sent, freed         uint64 // bytes since the beginning
	messages, freedMsgs uint64
	ended               bool
}

// NewSender returns the Sender to a ring of size bytes.
func NewSender(size uint32) Sender { return Sender{size: uint64(size)} }

// Space returns the offset in the ring of the next byte, and how many may be written
// there in one message; 0 if the peer has to give credit first, or the stream has ended.
func (s *Sender) Space() (at, n uint32) {
	free := s.size - (s.sent - s.freed)
	if s.ended || s.size == 0 || free == 0 || s.messages-s.freedMsgs == Depth {
		return 0, 0
	}
	off := s.sent % s.size
	return uint32(off), uint32(min(free, s.size-off))
}

// Sent notes a message of n bytes, which Space has allowed, and returns its word.
func (s *Sender) Sent(n uint32) Word {
	s.sent += uint64(n)
	s.messages++
	return DataWord(n)
}

// End notes the end of the stream, and returns its word.
func (s *Sender) End() Word {
	s.ended = true
	return EndWord
}

// Ended reports whether End has been called.
func (s *Sender) Ended() bool { return s.ended }

// Unread returns how many bytes the other end has not given back.
func (s *Sender) Unread() uint64 { return s.sent - s.freed }

// Credited takes a credit. More than is under way is an error.
func (s *Sender) Credited(w Word) error {
	n, m := uint64(w.Bytes()), uint64(w.Messages())
	if n > s.sent-s.freed || m > s.messages-s.freedMsgs || n == 0 && m == 0 {
		return fmt.Errorf("%w: credit for %d bytes and %d messages, of %d and %d under way", ErrPeer, n, m, s.sent-s.freed, s.messages-s.freedMsgs)
	}
	s.freed += n
	s.freedMsgs += m
	return nil
}
