package transport

// BulkSlot is a place for one frame. The frame lies in Frame, except for the
// bytes from At on that Body has room for: those lie in Body. Both stay the
// caller's. Frame must be as long as the longest frame.
type BulkSlot struct {
	Frame []byte
	At    int
	Body  []byte
	Size  int // set by RecvBulk: the frame's length, Body's part included; 0: the link has dropped the frame and counted it
}

// BulkReceiver is implemented by links that can receive the frames that carry
// ethertype.FlagBulk straight into memory that the caller names: by a guess at
// which frame comes next, the payload lands where it belongs and is copied
// once less (Bobnet paper, section 4: one copy, made by the kernel agent).
//
// Between StartBulk and StopBulk frames with the flag arrive by RecvBulk and never
// by Recv. Ready does not see them; Wait does. StartBulk, StopBulk and RecvBulk must
// not run at the same time as Send, Recv or each other.
type BulkReceiver interface {
	Link

	// Bulk reports whether the link can. It never changes.
	Bulk() bool

	// BulkOnTrial reports whether it is left to the caller to find out if this is
	// faster on this machine. It never changes.
	BulkOnTrial() bool

	// StartBulk has the link do so from now on. Before, Recv returns frames with
	// the flag as all others, and RecvBulk nothing. It costs every frame that
	// arrives a little; so it is called when there is something to gain. It does
	// nothing if the link does so already.
	StartBulk() error

	// StopBulk has Recv return all frames from now on, as before StartBulk.
	// RecvBulk returns those that have come before, until it finds no more. One that
	// comes at this very moment may come both ways. Each frame still pays for what StartBulk has
	// set up, for the next time, unless it is stopped for good: then the link gives
	// that back, when RecvBulk finds no more, and StartBulk does nothing.
	StopBulk(forGood bool) error

	// RecvBulk fills slots, in order, with frames that have arrived, and
	// returns how many. It never blocks, but it makes a system call even when
	// there is nothing. What a slot that is not filled holds is undefined.
	RecvBulk(slots []BulkSlot) (n int, err error)
}
