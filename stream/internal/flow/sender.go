package flow

import "fmt"

// Sender tracks the other end's ring: where the next data go, and how many bytes may be sent.
type Sender struct {
	size                uint64
	sent, freed         uint64 // bytes since the beginning
	messages, freedMsgs uint64
	ended               bool
}

// NewSender returns the Sender to a ring of size bytes.
func NewSender(size uint32) Sender { return Sender{size: uint64(size)} }

// Space returns the offset in the ring of the next byte, and how many bytes one message may write
// there. It returns 0 bytes if the peer must send credit first, or the stream has ended.
func (s *Sender) Space() (at, n uint32) {
	free := s.size - (s.sent - s.freed)
	if s.ended || s.size == 0 || free == 0 || s.messages-s.freedMsgs == Depth {
		return 0, 0
	}
	off := s.sent % s.size
	return uint32(off), uint32(min(free, s.size-off))
}

// Sent records a message of n bytes, at most those of Space, and returns its word.
func (s *Sender) Sent(n uint32) Word {
	s.sent += uint64(n)
	s.messages++
	return DataWord(n)
}

// End records the end of the stream and returns its word.
func (s *Sender) End() Word {
	s.ended = true
	return EndWord
}

// Ended reports whether End has been called.
func (s *Sender) Ended() bool { return s.ended }

// Unread returns the number of bytes for which the other end has not returned credit.
func (s *Sender) Unread() uint64 { return s.sent - s.freed }

// Credited processes a credit. More credit than bytes or messages in flight is an error.
func (s *Sender) Credited(w Word) error {
	n, m := uint64(w.Bytes()), uint64(w.Messages())
	if n > s.sent-s.freed || m > s.messages-s.freedMsgs || n == 0 && m == 0 {
		return fmt.Errorf("%w: credit for %d bytes and %d messages, with %d and %d in flight", ErrPeer, n, m, s.sent-s.freed, s.messages-s.freedMsgs)
	}
	s.freed += n
	s.freedMsgs += m
	return nil
}
