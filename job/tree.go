package job

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/vipl"
)

// A Member needs no connection with every other rank: all ranks together would have one for each
// pair, and most of the time of a start would go there. Its links are the edges of a tree, with
// rank 0 at its root. Each rank looks for the one above it alone, whether a launcher says where that
// is or the segment has to be asked. Along the links each rank learns where all others are (told.go). What
// a rank reports of a failure goes along them: each rank that learns of it passes it
// on (tree.Fail), by the NIC's goroutine while its program computes. A rank that dies cuts the
// tree. Each part has a neighbour of it, which notices. Those below it and the next rank above it that
// lives ask each other for a link (repair): so each side notices if the other has died as well. If no
// rank above lives, the lowest rank that lives is the root.

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

// repair links this rank with the living ranks that are next to it in the tree now, where one between
// them has died. It does nothing before the job has come together.
func (t *tree) repair() {
	if !t.job.joined || t.closed || t.parted {
		return
	}
	if t.up < 0 || t.dead(t.up) {
		t.up = t.nextAbove(t.job.Rank)
	}
	switch {
	case t.up < 0 && t.job.Rank > 0:
		t.adopt(0)
	case t.up >= 0 && t.dead(0):
		t.seek()
	case t.up >= 0:
		t.link(t.up)
	}
	t.adopt(t.job.Rank)
}

// seekMost is how many ranks a rank asks at most that looks for the root.
const seekMost = 256

// seek links this rank with the one above it when the root has died. That may be any lower rank, and
// many may have died with the root: each that does not answer doubles the number of ranks that are asked at once.
func (t *tree) seek() {
	t.link(t.up)
	for rank, left := 0, t.silent; rank < t.job.Rank && left > 0; rank++ {
		if !t.dead(rank) {
			t.link(rank)
			left--
		}
	}
}

// adopt links this rank with the ranks below another one. In place of one that has died these are those
// below that.
func (t *tree) adopt(rank int) {
	for child := fanOut*rank + 1; child <= fanOut*rank+fanOut && child < t.job.Size; child++ {
		switch {
		case t.dead(child):
			t.adopt(child)
		case child != t.job.Rank:
			t.link(child)
		}
	}
}

// link asks another rank for a link, unless there is one or an attempt.
func (t *tree) link(rank int) {
	p := t.peer(rank)
	if p.VI != nil || p.state != Absent {
		return
	}
	vi, err := t.Open(rank, t.patience(rank))
	if err == nil {
		err = vi.ConnectStart(t.address(rank), t.job.request(forLink, t.params))
	}
	if err != nil {
		t.Fail(rank, err)
		return
	}
	p.caller = true
	t.dialing = append(t.dialing, p)
}

// unlink takes back an attempt to link.
func (t *tree) unlink(p *link) {
	t.forgetLink(p)
	p.Close()
	p.Channel, p.recvs, p.caller = channel.Channel{}, nil, false
}

// patience is how long an attempt to link with a rank may take. A rank below may still be waiting, in
// Meet, for the rank that has died, and answers when it has noticed.
func (t *tree) patience(rank int) time.Duration {
	patience := t.cfg.PeerTimeout
	if patience == 0 {
		patience = vipl.DefaultPeerTimeout
	}
	if rank > t.job.Rank {
		patience *= 2
	}
	return patience
}

// nextAbove returns the rank that is to be above another one: -1 if there is none.
func (t *tree) nextAbove(of int) int {
	for rank := of; rank > 0; {
		if rank = above(rank); !t.dead(rank) {
			return rank
		}
	}
	for rank := range of {
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

// linkedWith begins to talk over a link whose attempt has ended. If the attempt has failed, another one
// follows, unless the other rank is dead.
func (t *tree) linkedWith(p *link) {
	if p.state != Absent {
		return
	}
	switch err := p.VI.ConnectDone(); {
	case err == nil:
		p.state = Live
		t.pass(p)
	case p.caller:
		t.refused(p, err)
	default:
		t.unlink(p)
		t.repair()
	}
}

// linkTries is how often a rank may refuse a link, or give up an attempt, before it counts as dead.
const linkTries = 5

// refused handles the end of an attempt of this rank to link with p. A rank that does not answer, or ends
// itself, is dead. One that refuses may have accepted an attempt before and given that up: it is asked again,
// a few times.
func (t *tree) refused(p *link, err error) {
	refusal := ""
	if why := (*vipl.ConnError)(nil); errors.Is(err, vipl.ErrReject) && errors.As(err, &why) {
		refusal = why.Detail
	}
	r, ends := ParseReport(refusal, t.job.Size)
	switch {
	case ends:
		t.job.Hear(r, p.rank)
		if r.Rank != p.rank || r.Twice() {
			t.Fail(p.rank, lastWords(r.gaveUp()))
		}
	case refusal == busy:
		t.unlink(p)
		// A lower rank is not asked again. Either its own request is on its way to this rank, and that one
		// counts (takeLink). Or it has not joined yet, and too many requests wait for that (Requested): if
		// it is next to this rank in the tree once it has joined, it asks this rank (repair).
		if p.rank > t.job.Rank {
			t.repair()
		}
	case (refusal != "" || Again(err)) && p.tries < linkTries:
		p.tries++
		t.unlink(p)
		t.repair()
	default:
		if p.rank < t.job.Rank {
			t.silent = min(2*t.silent+1, seekMost)
		}
		t.Fail(p.rank, err)
	}
}

// forgetLink takes p from the lists of tree.
func (t *tree) forgetLink(p *link) {
	is := func(q *link) bool { return q == p }
	t.near, t.dialing = slices.DeleteFunc(t.near, is), slices.DeleteFunc(t.dialing, is)
}

// takeLink accepts the request of a rank for a link, in place of one to a rank that has died. If this
// rank has asked that one, too, the request of the lower rank counts.
func (t *tree) takeLink(req *vipl.Request, rank int) {
	p := t.peer(rank)
	if p.state == Absent && p.caller && rank < t.job.Rank {
		t.unlink(p)
	}
	if p.state != Absent || p.VI != nil {
		req.Reject(busy)
		return
	}
	vi, err := t.Open(rank, t.patience(rank))
	if err == nil {
		err = req.AcceptStart(vi)
	}
	if err != nil {
		Refuse(req, err)
		t.unlink(p)
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
//
// A rank that has left may die, and another path may bring that to the root before the ranks between
// count again. So each number says without which dead ranks it was counted, and only numbers that agree on
// these are added up.

// leavers is a number of ranks that leave, and a sum that stands for the dead ranks without which they were
// counted. The zero leavers is unknown.
type leavers struct{ count, without uint32 }

// mark returns what a dead rank adds to leavers.without.
func mark(rank int) uint32 {
	x := uint32(rank+1) * 0x9e3779b1
	x = (x ^ x>>15) * 0x85ebca6b
	return x ^ x>>13
}

// byes returns the number of leaving ranks that p is to be told: zero if none yet.
func (t *tree) byes(p *link) leavers {
	if !t.leaving || p.rank != t.up {
		return p.bye
	}
	if count, all := t.below(); all {
		return leavers{count, t.marks}
	}
	return p.bye
}

// below returns how many ranks leave, of this one and those below it, and whether all do that are
// linked. Ranks that look for the root may have links with others, too.
func (t *tree) below() (count uint32, all bool) {
	for _, p := range t.near {
		if p.rank < t.job.Rank || p.state == Dead || t.nextAbove(p.rank) != t.job.Rank {
			continue
		}
		if p.left.count == 0 || p.left.without != t.marks {
			return 0, false
		}
		count += p.left.count
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
	} else if count, all := t.below(); !all || int(count)+t.deaths < t.job.Size {
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
