package mplite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// Connections on first use (OnUse). The ranks come together as a job.Member, which has every
// rank know where the others listen, reports failed ranks and tells when all ranks leave. This
// package connects two ranks when one of them first has a message for the other:
//
//	sender                           receiver
//	  need: Dial, the send waits
//	    | request --------------------> | accept: makes its VI, also while its program computes
//	    | <------------------- accepted |
//	  live: pump sends what waits
//	    | first message --------------> | live
//
// Each side knows from the Member what the receive buffers of the other one take, so neither says
// Hello. If both ask at the same time, the request of the lower rank counts: the higher rank gives
// up its own, and the lower one refuses that.
//
// An attempt that the other rank refuses, or for which this rank has no memory, VI or port, ends the
// sends that wait for it, and nothing else: the next send asks again. An attempt that the other rank gives
// up is repeated. A rank that does not answer is dead.
//
// Events of the Member and ends of attempts are handled by whoever releases the world's mutex next,
// or at once if nobody holds it (guard).

// Connect selects when ranks connect.
type Connect uint8

const (
	// ConnectBySize means Ahead in a job of up to eight ranks, and for a Config with a Member. It
	// means OnUse otherwise.
	ConnectBySize Connect = iota
	// OnUse connects two ranks when one of them first sends to the other. That message takes about three round
	// trips more than later ones. The time of Init and the memory of a rank then depend only on the ranks that
	// it communicates with. If either rank has no port, VI or memory for the connection, the sends and
	// collectives that need it end at both ranks with an error that is a vipl.ErrResource and names the limit.
	// The next send tries again. Other ranks may wait in such a collective until their context ends.
	OnUse
	// Ahead connects all ranks with each other in Init. An error of Init then names the unreachable
	// ranks, and the first message takes no longer than others.
	Ahead
)

// aheadMost is the most ranks of a job that connects Ahead by default.
const aheadMost = 8

// onUse reports whether ranks connect on first use.
func (c *Config) onUse() bool {
	if c.Connect == ConnectBySize {
		return c.Size > aheadMost && c.Member == nil
	}
	return c.Connect == OnUse
}

// guard is the world's mutex. see handles what kick has announced, with the mutex held.
type guard struct {
	sync.Mutex
	kicked atomic.Bool
	see    func()
}

// Unlock releases the mutex, and has what was announced meanwhile handled.
func (g *guard) Unlock() {
	g.Mutex.Unlock()
	if g.kicked.Load() {
		g.seeTo()
	}
}

// kick announces that there is something for see.
func (g *guard) kick() {
	g.kicked.Store(true)
	g.seeTo()
}

// seeTo calls see, unless somebody holds the mutex, who does so in releasing it.
func (g *guard) seeTo() {
	for g.kicked.Load() && g.TryLock() {
		g.kicked.Store(false)
		g.see()
		g.Mutex.Unlock()
	}
}

// joinOnUse joins the job and connects with nobody.
func (w *world) joinOnUse(ctx context.Context) (err error) {
	cfg := w.cfg.Config
	cfg.NIC = w.nic
	w.member, err = job.Open(ctx, &cfg, job.Program{Name: program, Version: wireVersion, Params: w.params()})
	if err != nil {
		return err
	}
	j, err := w.member.New(program, wireVersion, links{w}, w.cfg.Timeout)
	if err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	w.job, w.mu.see = j, w.see
	j.OnUse(w.mu.kick)
	return nil
}

// see handles events of the Member, and attempts to connect that have ended. The mutex is held.
func (w *world) see() {
	if w.cq == nil {
		return // this rank has ended
	}
	for {
		ev, ok := w.job.Next()
		switch {
		case !ok:
			w.connected()
			return
		case ev.Request != nil:
			w.accept(&ev)
		case ev.Rank < 0:
			w.parted = true
			w.notify()
		default:
			w.died(&ev)
		}
	}
}

// died handles the failure of a rank, of which the Member has learned.
func (w *world) died(ev *job.Event) {
	_, code, aborted := strings.Cut(ev.Err.Error(), wordAbort)
	if n, err := strconv.Atoi(code); aborted && err == nil {
		w.shutdown(&AbortError{Rank: ev.Rank, Code: n})
		return
	}
	var failed *RankError
	if errors.As(ev.Err, &failed) {
		w.peer(ev.Rank).fail(failed.Err)
	}
}

// wordAbort is what the Member's reports say of a rank that has aborted the job, before the code.
const wordAbort = "it aborted the job with code "

// need has p connected, on first use.
func (p *peer) need() {
	w := p.w
	if p.state != peerAbsent || p.VI != nil || !w.onUse || w.fatal != nil {
		return
	}
	_, p.params = w.job.Station(p.rank)
	p.caller = true
	if err := p.attempt(func() error { return w.job.Dial(p.VI, p.rank) }); err != nil {
		p.unconnected(err)
	}
}

// attempt begins to connect by start.
func (p *peer) attempt(start func() error) error {
	w := p.w
	err := p.init(w.attemptFor())
	if err == nil {
		err = start()
	}
	if err != nil {
		p.reset()
		return err
	}
	w.dialing = append(w.dialing, p)
	if len(w.dialing) == 1 {
		w.cq.Attend(w.mu.kick)
		w.mu.kicked.Store(true) // it may have ended before: see looks when the mutex is released
	}
	return nil
}

// reset takes back what attempt has made. What waits for p goes on waiting.
func (p *peer) reset() {
	p.w.dialing = slices.DeleteFunc(p.w.dialing, func(q *peer) bool { return q == p })
	p.Close()
	p.Channel = channel.Channel{}
	p.rx, p.control, p.caller = nil, 0, false
}

// accept handles the request of a rank for a connection.
func (w *world) accept(ev *job.Event) {
	p := w.peer(ev.Rank)
	switch {
	case w.fatal != nil:
		ev.Request.Reject(w.fatal.Error())
		return
	case w.saidBye && len(w.dead) > 0: // the reason why it has left
		ev.Request.Reject(w.job.ReportOf(w.dead[0].err).String())
		return
	case w.saidBye:
		ev.Request.Reject(errLeft.Error())
		return
	case p.state != peerAbsent || p.VI != nil && (!p.caller || p.rank > w.rank):
		refusal.Busy(ev.Request)
		return
	case p.VI != nil: // both ask: the lower rank's request counts
		p.reset()
	}
	p.params = ev.Params
	if err := p.attempt(func() error { return ev.Request.AcceptStart(p.VI) }); err != nil {
		refusal.Because(ev.Request, err)
		p.endCollectives(fmt.Errorf("mplite: connection of rank %d: %w", p.rank, err))
		p.again()
	}
}

// connected looks at the attempts to connect that have ended.
func (w *world) connected() {
	for i := 0; i < len(w.dialing); {
		p := w.dialing[i]
		if p.VI.State() == vipl.StateConnectPending {
			i++
			continue
		}
		w.dialing = slices.Delete(w.dialing, i, i+1)
		p.attempted(p.VI.ConnectDone())
		i = 0 // it may have changed the list
	}
	if len(w.dialing) == 0 && w.cq != nil {
		w.cq.Attend(nil)
	}
}

// attempted handles how an attempt to connect has ended.
func (p *peer) attempted(err error) {
	var refused *vipl.ConnError
	errors.As(err, &refused)
	switch {
	case err == nil:
		p.live()
	case !p.caller:
		p.reset()
		p.again()
	case p.worthAnother(err):
		p.reset()
		p.again()
	case errors.Is(err, vipl.ErrReject) && refused != nil && refused.Detail == errLeft.Error():
		p.reset()
		p.left()
	case errors.Is(err, vipl.ErrReject) && refused != nil && p.leftBecause(refused.Detail):
	case errors.Is(err, vipl.ErrReject):
		p.reset()
		p.unconnected(refusal.Classed(err))
	default:
		p.fail(err)
	}
}

// worthAnother reports whether an attempt that has ended with err is to be repeated. A rank that does not
// listen answers like one that gave up the attempt; so one that has only given up attempts for as long as an
// attempt may take counts as dead.
func (p *peer) worthAnother(err error) bool {
	now := p.w.nic.Now()
	switch {
	case !refusal.Passing(err):
		return false
	case errors.Is(err, vipl.ErrReject): // it is busy
		p.givenUp = 0
	case p.givenUp == 0:
		p.givenUp = now
	}
	return p.givenUp == 0 || now-p.givenUp < int64(p.w.attemptFor())
}

// attemptFor is how long an attempt to connect may take.
func (w *world) attemptFor() time.Duration { return max(2*w.cfg.PeerTimeout, time.Second) }

// leftBecause handles the refusal of p, which has left, if text is the report of the dead rank because of
// which it has.
func (p *peer) leftBecause(text string) bool {
	w := p.w
	r, ok := job.ParseReport(text, w.size)
	if !ok || r.Twice() || r.Rank == w.rank || r.Rank == p.rank {
		return false
	}
	p.reset()
	_ = w.job.Hear(r, p.rank)
	p.left()
	return true
}

// live begins to talk with p, which is connected.
func (p *peer) live() {
	eager, credits := p.params[0], p.params[1]
	if credits < 2 || eager < 64 || credits > maxCredits {
		p.state = peerLive
		p.fail(errGarbled)
		return
	}
	p.state, p.givenUp = peerLive, 0
	p.meetNear()
	p.credits = int(credits)
	p.eagerMax = min(int(eager), p.w.cfg.EagerSize)
	for _, dead := range p.w.dead { // before anything that follows from it
		p.say(control{kind: kindFail, tag: int32(dead.rank), body: []byte(p.w.job.ReportOf(dead.err).String())})
	}
	if p.w.saidBye {
		p.say(control{kind: kindBye})
	}
	p.pump()
}

// unconnected ends what waits for p with the reason for which there is no connection.
func (p *peer) unconnected(err error) {
	err = fmt.Errorf("mplite: connect with rank %d: %w", p.rank, err)
	p.endCollectives(err)
	for p.queue.head != nil {
		p.w.cancel(p.queue.head.of, err)
	}
	for p.pending.Len() > 0 {
		p.pending.Pop()
	}
}

// endCollectives ends with err the operations of collectives that communicate with p now, with p and with other
// ranks: no rank can use what they move.
func (p *peer) endCollectives(err error) {
	for _, with := range p.w.requests {
		if !with.coll || with.state != sendQueued && with.state != recvPosted || with.peer != p && (with.peer != nil || with.env.src != int32(p.rank)) {
			continue
		}
		for _, r := range p.w.requests {
			if r.coll && r.c == with.c && r.env.tag == with.env.tag && r != with && r.state != stateFree {
				p.w.cancel(r, err)
			}
		}
		p.w.cancel(with, err)
	}
}

// dialPause is after how long a rank is asked again that could not take the request.
const dialPause = 20 * time.Millisecond

// again has p asked again a little later, if something waits for it.
func (p *peer) again() {
	w := p.w
	if p.queue.head == nil && p.pending.Len() == 0 {
		p.givenUp = 0
		return
	}
	if p.state == peerAbsent && !slices.Contains(w.later, p) {
		w.later = append(w.later, p)
		w.laterAt = w.nic.Now() + int64(dialPause)
		w.notify() // a goroutine that waits without a limit
	}
}

// askAgain asks the ranks again that could not take a request, if it is time.
func (w *world) askAgain() {
	if len(w.later) == 0 || w.nic.Now() < w.laterAt {
		return
	}
	later := w.later
	w.later = nil
	for _, p := range later {
		p.need()
	}
}
