package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// Frames that share an Ethernet frame
//
// An Ethernet frame costs the kernels of both hosts microseconds, whatever its contents. Short
// frames that are sent together to one NIC therefore share an Ethernet frame. Each has its own
// header (ethertype.FlagMore).

// joint is the place at which the next frame may be joined to the previous one.
type joint struct {
	peer uint64 // the destination NIC of the last Ethernet frame; 0: nothing may be joined
	at   int    // where its last frame begins
}

// joining records with which frames those of a connection share Ethernet frames.
type joining struct {
	Peer  uint64 // incarnation of the destination NIC; 0: with none
	alone int    // frames that must still be sent alone
}

// aloneAfter is the number of frames that are sent alone after a retransmission.
const aloneAfter = 64

// AddShared is Add for a frame that is entirely in head. It may share the Ethernet frame before it
// if both have at most most bytes. Its slot is then free again. Retransmissions and the frames
// after them are sent alone: a joined frame may have been lost because it was too long for a path
// that has become narrower.
func (b *Batch) AddShared(j *joining, most int, again bool, head []byte) {
	if again {
		j.alone = aloneAfter
	}
	peer := j.peer()
	if peer == 0 || b.joint.peer != peer || b.n == b.first || b.stuck || !b.join(most, head) {
		b.Add(head, nil, nil)
		b.joint = joint{peer: peer}
	}
}

// Part makes the next frame start a new Ethernet frame, for a duplicate that must survive the loss
// of the previous frame.
func (b *Batch) Part() { b.joint = joint{} }

// peer returns the NIC for which the next frame may be joined, or 0.
func (j *joining) peer() uint64 {
	if j.alone > 0 {
		j.alone--
		return 0
	}
	return j.Peer
}

// join appends a frame to the previous one. It returns false if there is no room, or the
// destinations differ.
func (b *Batch) join(most int, head []byte) bool {
	f := &b.frames[b.n-1]
	end := len(f.Head)
	if end+len(head) > min(most, b.stride) || !framing.ToOne(f.Head, head) { // a peer can choose any incarnation as its own
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
