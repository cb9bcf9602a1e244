package am

import "github.com/bobnet-go/bobnet/splitc/internal/layer"

// Kinds of operations that wait for replies.
const (
	opNone = iota
	opGet
	opPut
	opCall
)

// operation is a get, put or call that is not complete.
type operation struct {
	kind uint8
	proc int
	dst  []byte // of a get or call
	left int    // replies to come
	due  int    // of them, those to requests that were sent
	use  uint32 // how often the place was used, which tells a late reply from a new one's
}

// operations are a rank's operations under way. A reply names its own by place and use.
type operations struct {
	all  []operation
	free []uint32
	due  []int // requests sent that no reply to their operation has answered, by rank
}

// placeBits of an operation's number are its place, the others are of its use.
const placeBits = 20

// place returns the place that a number names.
func place(number uint32) int { return int(number & (1<<placeBits - 1)) }

// begin adds an operation that waits for so many replies, and returns its number.
func (o *operations) begin(c *layer.Counters, kind uint8, proc int, dst []byte, left int) uint32 {
	if len(o.free) == 0 {
		o.grow()
	}
	i := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	op := &o.all[i]
	op.kind, op.proc, op.dst, op.left, op.due = kind, proc, dst, left, 0
	op.use++
	c.Outstanding++
	return i | op.use<<placeBits
}

// grow adds places. There are fewer operations than credits, since each request under way
// takes one (Layer.sent).
func (o *operations) grow() {
	old := len(o.all)
	o.all = append(o.all, make([]operation, max(64, old))...)
	for i := len(o.all) - 1; i >= old; i-- {
		o.free = append(o.free, uint32(i))
	}
}

// asked takes note that a request of an operation was sent, and returns to which rank.
func (o *operations) asked(number uint32) (proc int) {
	op := &o.all[place(number)]
	op.due++
	o.due[op.proc]++
	return op.proc
}

// find returns the operation that a reply names, or nil.
func (o *operations) find(number uint32, kind uint8) *operation {
	if i := place(number); i < len(o.all) {
		if op := &o.all[i]; op.kind == kind && op.use<<placeBits == number&^(1<<placeBits-1) {
			return op
		}
	}
	return nil
}

// replied takes note of a reply to an operation.
func (o *operations) replied(c *layer.Counters, number uint32) {
	op := &o.all[place(number)]
	op.due--
	o.due[op.proc]--
	o.abandon(c, number, 1)
}

// abandon takes note that so many replies to an operation will not come, or have.
func (o *operations) abandon(c *layer.Counters, number uint32, replies int) {
	i := place(number)
	op := &o.all[i]
	if op.left -= replies; op.left <= 0 {
		o.due[op.proc] -= op.due
		op.kind, op.dst = opNone, nil
		o.free = append(o.free, uint32(i))
		c.Outstanding--
	}
}
