package job

import (
	"context"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// A Member needs no connection with every other rank: all ranks together would have one for each
// pair, and most of the time of a start would go there. Its links are the edges of a tree, with
// rank 0 at its root. Each rank looks for the one above it alone, whether a launcher says where that
// is or the segment has to be asked. Along the links each rank learns where all others are (told.go). What
// a rank reports of a failure goes along them: each rank that learns of it passes it
// on (tree.Fail), by the NIC's goroutine while its program computes. A rank that dies cuts the
// tree. Each part has a neighbour of it, which notices, and those below it ask the next rank above
// it that lives for a link. If there is none, the lowest rank that lives is the root.

// fanOut is how many ranks are below one.
const fanOut = 4

// above returns the rank above another one than 0.
func above(rank int) int { return (rank - 1) / fanOut }

// linked reports whether this rank has a link with another one from the start.
func (t *tree) linked(rank int) bool {
	me := t.job.Rank
	return me > 0 && above(me) == rank || rank > 0 && above(rank) == me
}

// begin takes note of where this rank listens.
func (t *tree) begin(at ethertype.Addr) {
	t.Lock()
	defer t.Unlock()
	t.learn(t.job.Rank, place{at, t.params}, t.job.Rank)
}

// dead reports whether a rank has failed.
func (t *tree) dead(rank int) bool { return t.peers[rank] != nil && t.peers[rank].state == Dead }

// attend has messages of other ranks handled while the program computes.
func (t *tree) attend() error {
	return t.cq.Attend(func() {
		t.kicked.Store(true)
		t.seeTo()
	})
}

// seeTo handles what has completed, if attend has been called and nobody holds the lock. A holder
// of the lock does so in releasing it.
func (t *tree) seeTo() {
	for t.kicked.Load() && t.mu.TryLock() {
		t.kicked.Store(false)
		for more := true; more && !t.closed; more = t.cq.Full() {
			t.handle(t.cq.Reap())
		}
		kick := t.events.due()
		t.mu.Unlock()
		if kick != nil {
			kick()
		}
	}
}

// climb links this rank with one above it, in place of the one that has died.
func (t *tree) climb() {
	t.up = t.nextAbove()
	if t.up < 0 || t.closed {
		return
	}
	p := t.peer(t.up)
	if p.VI != nil {
		return // it is linked already
	}
	vi, err := t.Open(t.up, t.patience())
	if err == nil {
		err = vi.ConnectStart(t.address(t.up), t.job.request(forLink, t.params))
	}
	if err != nil {
		t.Fail(t.up, err)
		return
	}
	p.caller = true
	t.dialing = append(t.dialing, p)
}

// patience is how long an attempt to link may take.
func (t *tree) patience() time.Duration {
	if t.cfg.PeerTimeout > 0 {
		return t.cfg.PeerTimeout
	}
	return vipl.DefaultPeerTimeout
}

// nextAbove returns the rank that is to be above this one: -1 if there is none.
func (t *tree) nextAbove() int {
	for rank := t.job.Rank; rank > 0; {
		if rank = above(rank); !t.dead(rank) {
			return rank
		}
	}
	for rank := range t.job.Rank {
		if !t.dead(rank) {
			return rank
		}
	}
	return -1
}

// dialed looks at the attempts to link that have ended.
func (t *tree) dialed() {
	for i := 0; i < len(t.dialing); {
		p := t.dialing[i]
		if p.state != Absent || p.VI.State() != vipl.StateConnectPending {
			t.dialing = slices.Delete(t.dialing, i, i+1)
			t.linkedWith(p)
			i = 0 // others may have ended with it
			continue
		}
		i++
	}
}

// linkedWith begins to talk over a link whose attempt has ended. A caller that has given up asks
// again, or somebody else.
func (t *tree) linkedWith(p *link) {
	if p.state != Absent {
		return
	}
	switch err := p.VI.ConnectDone(); {
	case err == nil:
		p.state = Live
		t.pass(p)
	case p.caller:
		t.Fail(p.rank, err)
	default:
		t.Reset(p.rank)
	}
}

// forgetLink takes p from the lists of tree.
func (t *tree) forgetLink(p *link) {
	is := func(q *link) bool { return q == p }
	t.near, t.dialing = slices.DeleteFunc(t.near, is), slices.DeleteFunc(t.dialing, is)
}

// takeLink accepts the request of a rank that has lost the rank above it.
func (t *tree) takeLink(req *vipl.Request, rank int) {
	p := t.peer(rank)
	if p.state != Absent || p.VI != nil {
		req.Reject(busy)
		return
	}
	vi, err := t.Open(rank, t.patience())
	if err == nil {
		err = req.AcceptStart(vi)
	}
	if err != nil {
		req.Reject(err.Error())
		t.Reset(rank)
		return
	}
	t.dialing = append(t.dialing, p)
}

// where returns the address of another rank and what its program tells of itself.
func (t *tree) where(rank int) (ethertype.Addr, [2]uint32) {
	t.Lock()
	defer t.Unlock()
	return t.table[rank].addr, t.table[rank].params
}

// stepUntil handles what comes until done, or until the job has failed, which is no error.
func (t *tree) stepUntil(ctx context.Context, done func() bool) error {
	for t.err == nil && !done() {
		if err := t.Step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Leaving. A rank tells the one above it how many ranks leave, itself and those below it, when all
// that are linked below it have told it. The root knows that all leave when that is everybody who has not
// failed, and tells those below it, who pass it on.

// byes returns the number of leaving ranks that p is to be told: 0 if none yet.
func (t *tree) byes(p *link) int {
	if !t.leaving || p.rank != t.up {
		return p.bye
	}
	if count, all := t.below(); all {
		return count
	}
	return p.bye
}

// below returns how many ranks leave, of this one and those below it, and whether all do that are
// linked.
func (t *tree) below() (count int, all bool) {
	for _, p := range t.near {
		if p.rank < t.job.Rank || p.state == Dead {
			continue
		}
		if p.left == 0 {
			return 0, false
		}
		count += p.left
	}
	return 1 + count, true
}

// part goes on with leaving.
func (t *tree) part() {
	if !t.leaving || t.parted {
		return
	}
	if t.up >= 0 {
		if p := t.peer(t.up); p.state != Left {
			t.pass(p)
			return
		}
	} else if count, all := t.below(); !all || count+t.deaths < t.job.Size {
		return
	}
	t.parted = true
	for _, p := range t.near {
		if p.rank > t.job.Rank && p.state == Live {
			t.say(p, sayBye, nil)
			p.state = Left
		}
	}
	t.events.left()
}
