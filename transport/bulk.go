package transport

// BulkSlot is a place for one frame: the frame's first len(Head) bytes go to
// Head, what follows to Body. Both stay the caller's. Head holds at least
// ethertype.HeaderSize bytes.
type BulkSlot struct {
	Head []byte
	Body []byte
	Size int // set by RecvBulk: the frame's length, which is more than Head and Body hold if it was cut
}

// BulkReceiver is implemented by links that can receive the frames that carry
// ethertype.FlagBulk straight into memory that the caller names: by a guess at
// which frame comes next, the payload lands where it belongs and is copied
// once less. (Bobnet section 4: the kernel agent's single copy.)
//
// Frames with the flag arrive by RecvBulk and never by Recv. Ready does not
// see them; Wait does.
type BulkReceiver interface {
	Link

	// RecvBulk fills slots, in order, with frames that have arrived, and
	// returns how many. It never blocks, but it makes a system call even when
	// there is nothing. What a slot that is not filled holds is undefined. It
	// must not run at the same time as Send, Recv or itself.
	RecvBulk(slots []BulkSlot) (n int, err error)
}
