package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// Frames that share an Ethernet frame
//
// An Ethernet frame costs the kernels of both hosts microseconds, whatever is in it. So short
// frames that leave together for one NIC share an Ethernet frame, one behind the other, each with
// its header (ethertype.FlagMore).

// joint is where the next frame may be joined to the one that was added last.
type joint struct {
	peer uint64 // the NIC that the last Ethernet frame goes to; 0: none may be
	at   int    // where the last frame in it begins
}

// joining says with which frames those of a connection share Ethernet frames.
type joining struct {
	Peer  uint64 // incarnation of the NIC that they go to; 0: with none
	alone int    // frames that go alone next
}

// aloneAfter is how many frames go alone after one that is sent again.
const aloneAfter = 64

// AddShared is Add for a frame that is all in its head, and may share the Ethernet frame before it if
// both are no longer than most bytes. The slot that it was built in is free again if it does. What was lost goes alone when it is sent again,
// and so do those after it: perhaps it was too long when joined, because the path has become narrower.
func (b *Batch) AddShared(j *joining, most int, again bool, head []byte) {
	if again {
		j.alone = aloneAfter
	}
	peer := j.peer()
	if peer == 0 || b.joint.peer != peer || b.n == b.first || b.stuck || !b.join(most, head) {
		b.Add(head, nil)
		b.joint = joint{peer: peer}
	}
}

// Part has the next frame begin an Ethernet frame of its own: one that says the same as the last, so
// that it is heard if the other is lost.
func (b *Batch) Part() { b.joint = joint{} }

// peer returns the NIC to whose frames the next one may be joined, or 0.
func (j *joining) peer() uint64 {
	if j.alone > 0 {
		j.alone--
		return 0
	}
	return j.Peer
}

// join puts a frame behind the one that was added last. It reports false if there is no room, or they
// are for others.
func (b *Batch) join(most int, head []byte) bool {
	f := &b.frames[b.n-1]
	end := len(f.Head)
	if end+len(head) > min(most, b.stride) || !framing.ToOne(f.Head, head) { // whatever incarnation a peer gives as its own
		return false
	}
	framing.SetMore(f.Head[b.joint.at:])
	f.Head = f.Head[:end+len(head)]
	copy(f.Head[end:], head)
	ethertype.Seal(f.Head[end:])
	b.joint.at = end
	b.stats.TxJoined++
	return true
}
