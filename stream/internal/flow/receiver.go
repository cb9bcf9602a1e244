package flow

import "fmt"

// Receiver knows what lies in this end's ring.
type Receiver struct {
	size              uint64
	arrived, consumed uint64 // bytes since the beginning
	told              uint64 // of the consumed ones, those that the other end knows of
	messages          uint64 // that have arrived, whose receives are posted again
	toldMsgs          uint64
	ended             bool
}

// NewReceiver returns the Receiver of a ring of size bytes.
func NewReceiver(size uint32) Receiver { return Receiver{size: uint64(size)} }

// Arrived takes the word of data, with the number of bytes that were written. What does
// not fit between what is unread and the end of the ring is an error, and so is
// anything behind the end of the stream.
func (r *Receiver) Arrived(w Word, written uint32) error {
	n := w.Bytes()
	free, edge := r.size-(r.arrived-r.told), r.size-r.arrived%r.size
	switch {
	case r.ended:
		return fmt.Errorf("%w: %d bytes behind the end of the stream", ErrPeer, n)
	case n == 0 || n != written || uint64(n) > min(free, edge):
		return fmt.Errorf("%w: a message of %d bytes says that it has %d, where %d fit", ErrPeer, written, n, min(free, edge))
	case r.messages-r.toldMsgs == Depth:
		return fmt.Errorf("%w: more than %d messages without credit", ErrPeer, Depth)
	}
	r.arrived += uint64(n)
	r.messages++
	return nil
}

// End takes the word of the end.
func (r *Receiver) End(w Word, written uint32) error {
	if r.ended || w != EndWord || written != 0 {
		return fmt.Errorf("%w: an end with %d bytes, %#x, ended before: %v", ErrPeer, written, uint32(w), r.ended)
	}
	r.ended = true
	return nil
}

// Ended reports whether nothing follows what is in the ring.
func (r *Receiver) Ended() bool { return r.ended }

// Unread returns how many bytes are to be read.
func (r *Receiver) Unread() uint64 { return r.arrived - r.consumed }

// Readable returns the offset of the oldest byte, and how many lie there in a row.
func (r *Receiver) Readable() (at, n uint32) {
	off := r.consumed % r.size
	return uint32(off), uint32(min(r.arrived-r.consumed, r.size-off))
}

// Consumed notes that n bytes, which Readable has returned, have been read.
func (r *Receiver) Consumed(n uint32) { r.consumed += uint64(n) }

// Due reports whether so much has become free that the other end should know: a quarter of
// the ring, or half of the messages. So it never waits for less than that, and few
// messages carry credit alone. Behind the end of the stream the other end needs none.
func (r *Receiver) Due() bool {
	return !r.ended && (r.consumed-r.told >= r.size/4 || r.messages-r.toldMsgs >= Depth/2)
}

// Credit returns the word that gives back all that is free, and takes it as sent.
func (r *Receiver) Credit() Word {
	w := creditWord(uint32(r.messages-r.toldMsgs), uint32(r.consumed-r.told))
	r.told, r.toldMsgs = r.consumed, r.messages
	return w
}
