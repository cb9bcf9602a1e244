package batch

import "github.com/bobnet-go/bobnet/ethertype"

// Frames that share an Ethernet frame
//
// What an Ethernet frame costs the kernel of both hosts is microseconds, whatever is in it. So
// short frames that leave together for one NIC go in one, one behind the other, each with its
// header (ethertype.FlagMore). That they arrive together matters as much: two programs that ask
// each other get an answer and the next question at once, and send the same back.

// joint is where the next frame may be joined to the one that was added last.
type joint struct {
	peer uint64 // the NIC that the last Ethernet frame goes to; 0: none may be
	at   int    // where the last frame in it begins
}

// AddShared is Add for a frame that is all in its head, and may share the Ethernet frame before
// it if that goes to the same NIC: peer is the NIC's incarnation, 0 if the frame goes alone, and most
// how long the longest Ethernet frame for it is. The slot that the frame was built in is free again
// if it does.
func (b *Batch) AddShared(peer uint64, most int, head []byte) {
	if peer == 0 || b.joint.peer != peer || b.n == b.first || b.stuck || !b.join(most, head) {
		b.Add(head, nil)
		b.joint = joint{peer: peer}
	}
}

// join puts a frame behind the one that was added last. It reports false if there is no room.
func (b *Batch) join(most int, head []byte) bool {
	f := &b.frames[b.n-1]
	end := len(f.Head)
	if end+len(head) > min(most, b.stride) {
		return false
	}
	ethertype.SetMore(f.Head[b.joint.at:])
	f.Head = f.Head[:end+len(head)]
	copy(f.Head[end:], head)
	ethertype.Seal(f.Head[end:])
	b.joint.at = end
	b.stats.TxJoined++
	return true
}
