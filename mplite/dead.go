package mplite

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/joining"
)

// Dead ranks. This rank regards another rank as dead when the connection to it breaks
// (vipl detects a silent peer within Config.PeerTimeout), or when a third rank reports
// its death. The first rank that detects a death ends the connection and notifies all
// others. So the death also reaches ranks that wait for other ranks inside a collective.
// Each rank then ends
//
//   - every operation with the dead rank,
//   - every pending receive or probe from any source on a communicator that it is in,
//     and later ones until AckFailed,
//   - every collective on such a communicator, now and later,
//
// with a RankError. Operations between living ranks go on. Whole messages that
// had arrived from the dead rank can still be received.

var (
	errGarbled   = errors.New("it sent a malformed message")
	errOverspent = errors.New("it sent more messages than its credits allow")
	errEnded     = errors.New("the connection with it has ended")
	errLeft      = errors.New("it has finalized")
	errDead      = errors.New("it is dead")
)

// fail marks p as dead, with err as the cause.
func (p *peer) fail(err error) {
	w := p.w
	if p.state >= peerDead {
		return
	}
	if w.leaving {
		p.left()
		return
	}
	if err == nil {
		err = errEnded
	}
	p.state = peerDead
	dead := &RankError{Rank: p.rank, Err: err}
	p.err = dead
	w.dead = append(w.dead, p)
	w.stats.RanksFailed++
	w.cfg.Logger.Debug("rank failed", "rank", p.rank, "err", err)
	p.Disconnect()
	p.endOwn(dead)
	p.endOthers(dead)
	if w.onUse {
		w.job.Failed(p.rank, err)
	}
	w.sayAll(w.job.ReportOf(dead))
	w.notify()
}

// told handles another rank's report that rank is dead. why is the reported cause.
func (p *peer) told(rank int, why []byte) {
	w := p.w
	r, ok := joining.ParseReport(string(why), w.size)
	switch {
	case rank < 0 || rank >= w.size:
		w.stats.Strays++
		return
	case !ok || r.Rank != rank:
		r = joining.Report{Rank: rank, Why: "the cause is unknown"}
	}
	if !r.Twice() && r.Rank == w.rank {
		w.stats.Strays++
		return
	}
	w.job.Hear(r, p.rank)
}

// left marks p as having left regularly, as soon as no write between p and this rank is
// in progress. p has passed the barrier in Finalize, so only operations with p itself can
// still wait for it. If a rank is dead, that barrier has failed, and p has left because
// of the dead rank, which it reported first. The error then names the dead rank.
func (p *peer) left() {
	if p.state >= peerDead {
		return
	}
	if p.leaving = p.writing(); p.leaving {
		return // check again at the next completion
	}
	p.state = peerLeft
	switch {
	case p.w.unaccepted() != nil:
		p.err = &RankError{Rank: p.w.dead[0].rank, Err: fmt.Errorf("%w (rank %d left because of this)", errDead, p.rank)}
	case p.w.ending:
		p.err = ErrFinalized
	default:
		p.err = &RankError{Rank: p.rank, Err: errLeft}
	}
	p.endOwn(p.err)
}

// writing reports whether a long message that has matched its receive is in transit
// between p and this rank.
func (p *peer) writing() bool {
	for _, r := range p.w.requests {
		if r.peer == p && (r.state == sendWriting || r.state == recvClear || r.state == recvPulling) {
			return true
		}
	}
	return false
}

// endOwn ends the operations with p, with err. Posted writes end when their descriptors
// complete.
func (p *peer) endOwn(err error) {
	w := p.w
	w.met()      // p may have posted before
	bye := false // pending contained this rank's goodbye, which a rank that has left waits for
	for p.pending.Len() > 0 {
		c := p.pending.Pop()
		if c.req != nil {
			w.complete(c.req, err)
		}
		bye = bye || c.kind == kindBye && p.state == peerLeft
	}
	if bye {
		p.pending.Push(control{kind: kindBye})
	}
	p.endTaken(p.taken.Len()) // these messages have been copied completely
	for _, r := range w.requests {
		if (r.state == recvPosted || r.state == recvMeet) && r.env.src == int32(p.rank) || r.peer == p && r.state != stateFree {
			p.end(r, err)
		}
	}
	for n := w.match.of(int32(p.rank)).arrived.head; n != nil; {
		in := n.of
		n = n.next
		if in.kind == kindReady {
			w.match.removeMessage(in)
			w.drop(in)
		}
	}
}

// endOthers ends the operations with other ranks that p's death affects, with err: see
// the list above.
func (p *peer) endOthers(err error) {
	for _, r := range p.w.requests {
		wild := r.state == recvPosted && r.env.src == AnySource
		if r.state != stateFree && (wild || r.coll) && r.c.contains(p.rank) {
			p.w.cancel(r, err)
		}
	}
}

// end ends an operation with p.
func (p *peer) end(r *request, err error) {
	w := p.w
	switch {
	case r.timeWait:
		w.endTimeWait(r)
	case r.state == recvClear: // the peer can no longer write to the buffer
		w.complete(r, err)
	case w.cancel(r, err) && r.timeWait:
		r.timeWait = false
	}
}

// contains reports whether the rank of the first communicator is in c.
func (c *Comm) contains(rank int) bool { return c.index[rank] >= 0 }

// casualty returns the error that collectives on c end with, or nil.
func (c *Comm) casualty() error {
	for _, p := range c.w.dead {
		if c.contains(p.rank) {
			return p.err
		}
	}
	return nil
}

// A receive or probe from any source may wait for a message of a rank that has
// died, and no rank can decide whether it does. So it fails, as in ULFM (MPI 5,
// chapter on process failures), until the program acknowledges the death with
// AckFailed.

// AckFailed acknowledges the known deaths of ranks of c and returns these ranks, as ranks of c, in
// the order of their detection (MPIX_Comm_ack_failed and MPIX_Comm_get_failed). It returns nil if
// there are none. After the call, receives and probes from AnySource on c wait for living ranks
// again, until another rank dies. Other communicators are not affected, and collectives on c still
// fail. Finalize does not fail because of ranks that were acknowledged on any communicator. Any
// goroutine may call AckFailed.
func (c *Comm) AckFailed() []int {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	c.acked = len(w.dead)
	var ranks []int
	for _, p := range w.dead {
		if c.contains(p.rank) {
			p.acked = true
			ranks = append(ranks, int(c.index[p.rank]))
		}
	}
	return ranks
}

// unacknowledged returns the error of the first death in c that the program has
// not acknowledged, or nil.
func (c *Comm) unacknowledged() error {
	for _, p := range c.w.dead[c.acked:] {
		if c.contains(p.rank) {
			return p.err
		}
	}
	return nil
}

// unaccepted returns the error of the first death that the program has not acknowledged
// on any communicator, or nil.
func (w *world) unaccepted() error {
	for _, p := range w.dead {
		if !p.acked {
			return p.err
		}
	}
	return nil
}

// duplicate ends the job for this rank, because two processes claim one rank of the job,
// and notifies all others.
func (w *world) duplicate(err error) {
	if w.fatal == nil {
		twice := w.job.ReportOf(err)
		w.cfg.Logger.Warn("rank is there twice", "rank", twice.Rank, "first", twice.First, "second", twice.Second)
		w.sayAll(twice)
	}
	w.shutdown(err)
}

// sayAll sends the report to every rank that this rank is connected with. With OnUse the Member also
// reports to all ranks, but on another path: later messages of this rank may overtake that report.
func (w *world) sayAll(r joining.Report) {
	for _, p := range w.peers.All() {
		if p.state != peerAbsent && (p.rank != r.Rank || r.Twice()) {
			p.say(control{kind: kindFail, tag: int32(r.Rank), body: []byte(r.String())})
		}
	}
}
