package conn

import (
	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Answers that go with what the program sends next
//
// A program that has got what it waits for often sends the next thing within a microsecond or
// two. The answers to RDMA reads that came in the same poll, which wait in the batch, and the
// program's own if it says so (Descriptor.Next), which wait on their send queue, then go with it, in one
// call of the link's and, if they are for the same NIC, in one frame. So two programs that read from
// each other need one frame for an answer and the request behind it, where they would need two.
//
// The answers wait for the next post or poll, whatever comes first, or for the engine's service,
// some milliseconds. So they do not wait where there is no service, nor where the program
// has not been prompt before.

// nextPost is what an adapter knows of what the program does next.
type nextPost struct {
	progress.Prompt
	gave     bool  // a descriptor has completed in this poll
	answered bool  // answers to reads were put into the batch in this poll
	holds    bool  // the batch waits for the next post
	kept     *Conn // has a send on its queue that does
}

// gives notes that the program gets something by this poll.
func (a *Adapter) gives() {
	a.next.gave = true
	a.next.Got(a.Now)
}

// endNext sends what has waited for a post in vain, and notes how long.
func (a *Adapter) endNext() {
	n := &a.next
	n.gave, n.answered = false, false
	a.putKept()
	if n.holds {
		n.Posted(a.Now, n.Take())
		a.Flush()
	}
}

// FlushPending offers the batch to the link if there is anything in it that does not wait for the
// program's next post.
func (a *Adapter) FlushPending() {
	if a.batch.Len() == 0 {
		return
	}
	if a.next.answered && a.awaitsNext() {
		a.next.holds = true
		return
	}
	a.Flush()
}

// awaitsNext reports whether the program has got something in the last poll and is likely to post
// soon, so that frames may wait for that.
func (a *Adapter) awaitsNext() bool {
	n := &a.next
	return n.gave && n.Is() && a.eng.Serves()
}

// keep leaves what PostSend has queued on c to the program's next post, in whose batch it goes, or
// to the next poll. Until then the program may take it back (Retract).
func (a *Adapter) keep(c *Conn) {
	if a.next.kept != c {
		a.putKept()
		a.next.kept = c
		a.eng.WakeBefore(a.Now) // who sleeps on the link sends it
	}
}

// putKept puts what is kept into the batch, which goes with the next post or poll.
func (a *Adapter) putKept() {
	if c := a.next.kept; c != nil {
		a.next.kept = nil
		if c.State == code.StateConnected && c.tx.unsent() {
			c.tx.hold()
		}
		a.next.holds = a.batch.Len() > 0 // also if what was put off has sent it
	}
}
