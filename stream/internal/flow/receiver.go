package flow

import "fmt"

// Receiver tracks the contents of this end's ring.
type Receiver struct {
	size              uint64
	arrived, consumed uint64 // bytes since the beginning
	told              uint64 // consumed bytes for which credit was sent
	messages          uint64 // messages that have arrived and whose receives are posted again
	toldMsgs          uint64
	ended             bool
}

// NewReceiver returns the Receiver of a ring of size bytes.
func NewReceiver(size uint32) Receiver { return Receiver{size: uint64(size)} }

// Arrived processes the word of a message with data, whose RDMA write had written bytes. It returns
// an error if the bytes do not fit between the unread bytes and the end of the ring, or follow the
// end of the stream.
func (r *Receiver) Arrived(w Word, written uint32) error {
	n := w.Bytes()
	free, edge := r.size-(r.arrived-r.told), r.size-r.arrived%r.size
	switch {
	case r.ended:
		return fmt.Errorf("%w: %d bytes after the end of the stream", ErrPeer, n)
	case n == 0 || n != written || uint64(n) > min(free, edge):
		return fmt.Errorf("%w: a message of %d bytes announces %d, and %d fit", ErrPeer, written, n, min(free, edge))
	case r.messages-r.toldMsgs == Depth:
		return fmt.Errorf("%w: more than %d messages without credit", ErrPeer, Depth)
	}
	r.arrived += uint64(n)
	r.messages++
	return nil
}

// End processes the word of the end of the stream.
func (r *Receiver) End(w Word, written uint32) error {
	if r.ended || w != EndWord || written != 0 {
		return fmt.Errorf("%w: invalid end with %d bytes, word %#x, already ended: %v", ErrPeer, written, uint32(w), r.ended)
	}
	r.ended = true
	return nil
}

// Ended reports whether no data follow those in the ring.
func (r *Receiver) Ended() bool { return r.ended }

// Unread returns the number of unread bytes.
func (r *Receiver) Unread() uint64 { return r.arrived - r.consumed }

// Readable returns the offset of the oldest unread byte, and how many follow contiguously.
func (r *Receiver) Readable() (at, n uint32) {
	off := r.consumed % r.size
	return uint32(off), uint32(min(r.arrived-r.consumed, r.size-off))
}

// Consumed records that n bytes returned by Readable have been read.
func (r *Receiver) Consumed(n uint32) { r.consumed += uint64(n) }

// Due reports whether credit should be sent: a quarter of the ring or half of the messages have
// become free. So the sender never waits for less than that, and few messages carry credit alone.
// After the end of the stream no credit is due.
func (r *Receiver) Due() bool {
	return !r.ended && (r.consumed-r.told >= r.size/4 || r.messages-r.toldMsgs >= Depth/2)
}

// Credit returns the word that returns all free space as credit, and counts it as sent.
func (r *Receiver) Credit() Word {
	w := creditWord(uint32(r.messages-r.toldMsgs), uint32(r.consumed-r.told))
	r.told, r.toldMsgs = r.consumed, r.messages
	return w
}
