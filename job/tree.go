package job

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/vipl"
)

// A Member does not connect with every other rank: that would need one connection for each pair of
// ranks, and take most of the start time. Its links are the edges of a tree with rank 0 at the
// root. Each rank looks only for the rank above it, through a launcher or by broadcast. Along the
// links each rank learns the addresses of all others (told.go). Reports of a failure travel along
// the links too: each rank that learns of one forwards it (tree.Fail), on the NIC's goroutine while
// its program computes. A rank that dies cuts the tree into parts. Each part contains a neighbour
// of the dead rank, which detects the death. The ranks below the dead one, and the next living rank
// above it, then request links from each other (repair), so each side also detects if the other has
// died. If no rank above lives, the lowest living rank is the root.

// The number of ranks directly below a rank, in jobs of up to manyRanks ranks and in larger jobs. Each
// rank that has ranks below it broadcasts where it is, and each such broadcast wakes all ranks. So a
// larger job has fewer such ranks. A smaller job has few links on each rank.
const (
	fanOutFew  = 4
	fanOutMany = 16
	manyRanks  = 256
)

// fanOut returns the number of ranks directly below a rank.
func (id *Identity) fanOut() int {
	if id.Size > manyRanks {
		return fanOutMany
	}
	return fanOutFew
}

// above returns the rank above another one, which is not 0.
func (id *Identity) above(rank int) int { return (rank - 1) / id.fanOut() }

// linked reports whether the tree initially links this rank with another one.
func (t *tree) linked(rank int) bool {
	me := t.job.Rank
	return me > 0 && t.job.above(me) == rank || rank > 0 && t.job.above(rank) == me
}

// begin records where this rank listens.
func (t *tree) begin(at ethertype.Addr) {
	t.Lock()
	defer t.Unlock()
	t.learn(t.job.Rank, place{at, t.params}, t.job.Rank)
}

// dead reports whether a rank has failed.
func (t *tree) dead(rank int) bool {
	p := t.peers.At(rank)
	return p != nil && p.state == joining.Dead
}

// attend makes the NIC handle messages of other ranks while the program computes.
func (t *tree) attend() error {
	return t.cq.Attend(func() {
		t.kicked.Store(true)
		t.seeTo()
	})
}

// seeTo handles completions, if the NIC has reported some and no goroutine holds the lock. A
// goroutine that holds the lock does this when it releases the lock.
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

// repair links this rank with its living neighbours in the tree, if a rank between them has died.
// It does nothing before the job has started.
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

// seekMost limits the number of ranks that a rank asks when it looks for the root.
const seekMost = 256

// seek links this rank with the one above it when the root has died. That may be any lower rank,
// and many may have died with the root. So each rank that does not answer doubles the number of
// ranks that are asked at once.
func (t *tree) seek() {
	t.link(t.up)
	for rank, left := 0, t.silent; rank < t.job.Rank && left > 0; rank++ {
		if !t.dead(rank) {
			t.link(rank)
			left--
		}
	}
}

// adopt links this rank with the ranks below another one. It replaces a dead rank by the ranks
// below it.
func (t *tree) adopt(rank int) {
	first := t.job.fanOut()*rank + 1
	for child := first; child < min(first+t.job.fanOut(), t.job.Size); child++ {
		switch {
		case t.dead(child):
			t.adopt(child)
		case child != t.job.Rank:
			t.link(child)
		}
	}
}

// link requests a link from another rank, unless there is a link or an attempt.
func (t *tree) link(rank int) {
	p := t.peer(rank)
	if p.VI != nil || p.state != joining.Absent {
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

// unlink cancels an attempt to link.
func (t *tree) unlink(p *link) {
	t.forgetLink(p)
	p.Close()
	p.Channel, p.recvs, p.caller = channel.Channel{}, nil, false
}

// patience returns the timeout of an attempt to link with a rank. A rank below may still wait in
// Meet for the rank that has died, and answers when it has detected the death.
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

// nextAbove returns the living rank that should be above another one, or -1 if there is none.
func (t *tree) nextAbove(of int) int {
	for rank := of; rank > 0; {
		if rank = t.job.above(rank); !t.dead(rank) {
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

// dialed handles the attempts to link that have ended.
func (t *tree) dialed() {
	for i := 0; i < len(t.dialing); {
		p := t.dialing[i]
		if p.state != joining.Absent || p.VI.State() != vipl.StateConnectPending {
			t.dialing = slices.Delete(t.dialing, i, i+1)
			t.linkedWith(p)
			i = 0 // the list may have changed
			continue
		}
		i++
	}
}

// linkedWith handles the end of an attempt to link. If it has failed, another one follows, unless
// the other rank is dead.
func (t *tree) linkedWith(p *link) {
	if p.state != joining.Absent {
		return
	}
	switch err := p.VI.ConnectDone(); {
	case err == nil:
		p.state = joining.Live
		t.pass(p)
	case p.caller:
		t.refused(p, err)
	default:
		t.unlink(p)
		t.repair()
	}
}

// linkTries limits how often a rank may refuse a link, or give up an attempt, before it counts as
// dead.
const linkTries = 5

// refused handles the failure of an attempt of this rank to link with p. A rank that does not
// answer, or ends itself, is dead. A rank that refuses may have accepted an attempt before and
// given that up, so it is asked again, a few times.
func (t *tree) refused(p *link, err error) {
	text := ""
	if why := (*vipl.ConnError)(nil); errors.Is(err, vipl.ErrReject) && errors.As(err, &why) {
		text = why.Detail
	}
	r, ends := joining.ParseReport(text, t.job.Size)
	switch {
	case ends:
		t.job.Hear(r, p.rank)
		if r.Rank != p.rank || r.Twice() {
			t.Fail(p.rank, lastWords(gaveUp(r)))
		}
	case refusal.IsBusy(err):
		t.unlink(p)
		// A lower rank is not asked again. Either its own request is on its way to this rank, and
		// takes precedence (takeLink). Or it has not joined yet, and too many requests wait for
		// that (Requested): if it is a neighbour of this rank once it has joined, it requests the
		// link itself (repair).
		if p.rank > t.job.Rank {
			t.repair()
		}
	case (text != "" || refusal.Passing(err)) && p.tries < linkTries:
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

// forgetLink removes p from the lists of tree.
func (t *tree) forgetLink(p *link) {
	is := func(q *link) bool { return q == p }
	t.near, t.dialing = slices.DeleteFunc(t.near, is), slices.DeleteFunc(t.dialing, is)
}

// takeLink accepts a rank's request for a link that replaces one to a dead rank. If this rank has
// also requested one, the request of the lower rank takes precedence.
func (t *tree) takeLink(req *vipl.Request, rank int) {
	p := t.peer(rank)
	if p.state == joining.Absent && p.caller && rank < t.job.Rank {
		t.unlink(p)
	}
	if p.state != joining.Absent || p.VI != nil {
		refusal.Busy(req)
		return
	}
	vi, err := t.Open(rank, t.patience(rank))
	if err == nil {
		err = req.AcceptStart(vi)
	}
	if err != nil {
		refusal.Because(req, err)
		t.unlink(p)
		return
	}
	t.dialing = append(t.dialing, p)
}

// where returns the address of another rank and the parameters of its program.
func (t *tree) where(rank int) (ethertype.Addr, [2]uint32) {
	t.Lock()
	defer t.Unlock()
	return t.table[rank].addr, t.table[rank].params
}

// stepUntil handles events until done, or until the job has failed, which is not an error.
func (t *tree) stepUntil(ctx context.Context, done func() bool) error {
	for t.err == nil && !done() {
		if err := t.Step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Leaving. When all ranks linked below a rank have reported, it reports to the rank above how many
// ranks leave: itself and those below it. When that is the number of all living ranks, the root
// knows that all leave, and tells those below it, which forward it.
//
// A rank that has left may die, and the root may learn of that by another path before the ranks in
// between count again. So each number identifies the dead ranks that it excludes, and only numbers
// that exclude the same ones are added up.

// leavers is a number of leaving ranks, and a sum that identifies the dead ranks that it excludes.
// The zero leavers is unknown.
type leavers struct{ count, without uint32 }

// mark returns a dead rank's contribution to leavers.without.
func mark(rank int) uint32 {
	x := uint32(rank+1) * 0x9e3779b1
	x = (x ^ x>>15) * 0x85ebca6b
	return x ^ x>>13
}

// byes returns the number of leaving ranks to send to p: zero if not yet known.
func (t *tree) byes(p *link) leavers {
	if !t.leaving || p.rank != t.up {
		return p.bye
	}
	if count, all := t.below(); all {
		return leavers{count, t.marks}
	}
	return p.bye
}

// below returns the number of leaving ranks, this one and those below it, and whether all linked
// ranks below leave. Ranks that look for the root may have other links as well.
func (t *tree) below() (count uint32, all bool) {
	for _, p := range t.near {
		if p.rank < t.job.Rank || p.state == joining.Dead || t.nextAbove(p.rank) != t.job.Rank {
			continue
		}
		if p.left.count == 0 || p.left.without != t.marks {
			return 0, false
		}
		count += p.left.count
	}
	return 1 + count, true
}

// part continues the leaving.
func (t *tree) part() {
	if !t.leaving || t.parted {
		return
	}
	if t.up >= 0 {
		if p := t.peer(t.up); p.state != joining.Left {
			t.pass(p)
			return
		}
	} else if count, all := t.below(); !all || int(count)+t.deaths < t.job.Size {
		return
	}
	t.parted = true
	for _, p := range t.near {
		if p.rank > t.job.Rank && p.state == joining.Live {
			t.say(p, sayBye, nil)
			p.state = joining.Left
		}
	}
	t.events.left()
}
