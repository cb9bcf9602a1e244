package job

import (
	"context"
	"errors"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Where a launcher has told all ranks of a run where the others are, a Member needs no
// connection with each of them: all ranks together would have one for each pair, and most of
// the time of a start would go there. Its links are the edges of a tree then, with rank 0 at
// its root. What a rank says of a failure goes along them: each that hears of it passes it on
// (links.Fail), by the NIC's goroutine while its program computes. A rank that dies cuts the
// tree, but each part has a neighbour of it, which notices.

// fanOut is how many ranks are below one.
const fanOut = 4

// above returns the rank above another one than 0.
func above(rank int) int { return (rank - 1) / fanOut }

// isTree reports whether links are the edges of a tree only.
func (l *links) isTree() bool { return l.job.told }

// linked reports whether this rank has a link with another one.
func (l *links) linked(rank int) bool {
	me := l.job.Rank
	return !l.isTree() || me > 0 && above(me) == rank || rank > 0 && above(rank) == me
}

// attend has what other ranks say be passed on while the program computes.
func (l *links) attend() error {
	if !l.isTree() {
		return nil
	}
	return l.cq.Attend(func() {
		l.kicked.Store(true)
		l.seeTo()
	})
}

// seeTo handles what has completed, if attend has been told of that and nobody holds the lock,
// who sees to it in releasing it.
func (l *links) seeTo() {
	for l.kicked.Load() && l.mu.TryLock() {
		l.kicked.Store(false)
		for more := true; more && !l.closed; more = l.cq.Full() {
			l.handle(l.cq.Reap())
		}
		l.mu.Unlock()
	}
}

// where returns the address of another rank and what its program tells of itself. Those that
// this one has no link with have put it into the launcher's space; where that fails, it is the
// job's failure.
func (l *links) where(rank int) (ethertype.Addr, [2]uint32) {
	p := l.peers[rank]
	if p.VI != nil {
		return p.VI.Remote(), p.params
	}
	if p.addr == (ethertype.Addr{}) { // asked without the lock, so that what others say is passed on meanwhile
		ctx, cancel := l.nic.WithTimeout(context.Background(), l.cfg.Timeout)
		defer cancel()
		e, err := (&meeting{Job: l.job, ctx: ctx}).read(rank)
		l.Lock()
		defer l.Unlock()
		if err != nil {
			l.err = errors.Join(l.err, err)
		}
		p.addr, p.params = e.addr, e.params
	}
	return p.addr, p.params
}

// part says goodbye along the tree: a rank tells the one above it when all below it have told
// it, and then those below it when the one above has told it. The lock is held.
func (l *links) part(ctx context.Context) error {
	me, size := l.job.Rank, l.job.Size
	below := l.peers[min(me*fanOut+1, size):min((me+1)*fanOut+1, size)]
	stays := func(p *link) bool { return p.state != Left }
	if err := l.stepUntil(ctx, func() bool { return !slices.ContainsFunc(below, stays) }); err != nil {
		return err
	}
	if me > 0 {
		up := l.peers[above(me)]
		l.say(up, sayBye, nil)
		if err := l.stepUntil(ctx, func() bool { return !stays(up) }); err != nil {
			return err
		}
	}
	for _, p := range below {
		l.say(p, sayBye, nil)
	}
	return nil
}

// stepUntil handles what comes until done, or until the job has failed, which is no error.
func (l *links) stepUntil(ctx context.Context, done func() bool) error {
	for l.err == nil && !done() {
		if err := l.Step(ctx); err != nil {
			return err
		}
	}
	return nil
}
