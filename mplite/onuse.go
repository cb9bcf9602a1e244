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
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// Connections on first use (OnUse). The ranks join as a job.Member. The Member distributes the
// addresses where the ranks listen, reports failed ranks, and reports when all ranks leave.
// This package connects two ranks when one of them first has a message for the other:
//
//	sender                           receiver
//	  need: Dial, the send waits
//	    | request --------------------> | accept: makes its VI, also while its program computes
//	    | <------------------- accepted |
//	  live: pump sends what waits
//	    | first message --------------> | live
//
// The Member also distributes the size and number of each rank's receive buffers, so neither side
// sends a hello. If both ranks send a request at the same time, the request of the lower rank
// counts: the higher rank gives up its own request, and the lower rank refuses it.
//
// If the other rank refuses an attempt, or this rank has no memory, VI or port for it, only the sends that
// wait for the connection end: the next send tries again. An attempt that the other rank gives up is
// repeated. A rank that does not answer is dead.
//
// The goroutine that next releases the world's mutex handles events of the Member and the ends of
// attempts. If no goroutine holds the mutex, they are handled at once (guard).

// Connect selects when ranks connect.
type Connect uint8

const (
	// ConnectBySize means Ahead in a job of up to eight ranks, and for a Config with a Member. It
	// means OnUse otherwise.
	ConnectBySize Connect = iota
	// OnUse connects two ranks when one of them first sends to the other. That message takes about three round
	// trips more than later ones. The time of Init and the memory of a rank then depend only on the ranks that
	// it communicates with. If either rank has no port, VI or memory for the connection, the sends and
	// collectives that need the connection fail at both ranks. The error is a vipl.ErrResource and names the
	// limit. The next send tries again. Other ranks may wait in such a collective until their context ends.
	OnUse
	// Ahead connects all ranks with each other in Init. An error of Init then names the unreachable
	// ranks, and the first message takes no longer than others.
	Ahead
)

// aheadMost is the maximum number of ranks of a job that connects Ahead by default.
const aheadMost = 8

// onUse reports whether ranks connect on first use.
func (c *Config) onUse() bool {
	if c.Connect == ConnectBySize {
		return c.Size > aheadMost && c.Member == nil
	}
	return c.Connect == OnUse
}

// guard is the world's mutex. see handles the events that kick has announced, with the
// mutex held.
type guard struct {
	sync.Mutex
	kicked atomic.Bool
	see    func()
}

// Unlock releases the mutex, and then handles the events that were announced meanwhile.
func (g *guard) Unlock() {
	g.Mutex.Unlock()
	if g.kicked.Load() {
		g.seeTo()
	}
}

// kick announces that there are events for see.
func (g *guard) kick() {
	g.kicked.Store(true)
	g.seeTo()
}

// seeTo calls see. If another goroutine holds the mutex, that goroutine calls see when it
// releases the mutex.
func (g *guard) seeTo() {
	for g.kicked.Load() && g.TryLock() {
		g.kicked.Store(false)
		g.see()
		g.Mutex.Unlock()
	}
}

// joinOnUse joins the job without connecting to other ranks.
func (w *world) joinOnUse(ctx context.Context) (err error) {
	cfg := w.cfg.Config
	cfg.NIC = w.nic
	w.member, err = job.Open(ctx, &cfg, job.Program{Name: program, Version: wireVersion, Params: w.params()})
	if err != nil {
		return err
	}
	j, err := joining.On(w.program(), w.member)
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

// died handles the failure of a rank, as reported by the Member.
func (w *world) died(ev *joining.Event) {
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

// wordAbort precedes the code in the Member's report of a rank that has aborted the job.
const wordAbort = "it aborted the job with code "

// need starts to connect to p, on first use.
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

// reset undoes attempt. Operations that wait for p continue to wait.
func (p *peer) reset() {
	p.w.dialing = slices.DeleteFunc(p.w.dialing, func(q *peer) bool { return q == p })
	p.Close()
	p.Channel = channel.Channel{}
	p.control, p.caller = 0, false
}

// accept handles the request of a rank for a connection.
func (w *world) accept(ev *joining.Event) {
	p := w.peer(ev.Rank)
	switch {
	case w.fatal != nil:
		ev.Request.Reject(w.fatal.Error())
		return
	case w.saidBye && len(w.dead) > 0: // this rank has left because of a dead rank: send the report
		ev.Request.Reject(w.job.ReportOf(w.dead[0].err).String())
		return
	case w.saidBye:
		ev.Request.Reject(errLeft.Error())
		return
	case p.state != peerAbsent || p.VI != nil && (!p.caller || p.rank > w.rank):
		refusal.Busy(ev.Request)
		return
	case p.VI != nil: // both ranks have sent a request: the lower rank's request counts
		p.reset()
	}
	p.params = ev.Params
	if err := p.attempt(func() error { return ev.Request.AcceptStart(p.VI) }); err != nil {
		refusal.Because(ev.Request, err)
		p.endCollectives(fmt.Errorf("mplite: connection of rank %d: %w", p.rank, err))
		p.again()
	}
}

// connected handles the attempts to connect that have ended.
func (w *world) connected() {
	for i := 0; i < len(w.dialing); {
		p := w.dialing[i]
		if p.VI.State() == vipl.StateConnectPending {
			i++
			continue
		}
		w.dialing = slices.Delete(w.dialing, i, i+1)
		p.attempted(p.VI.ConnectDone())
		i = 0 // attempted may have changed the list
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

// worthAnother reports whether an attempt that has ended with err must be repeated. A rank that does not
// listen answers like a rank that gave up the attempt. So a rank that has only given up attempts, for as
// long as one attempt may take, counts as dead.
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

// leftBecause handles a refusal by p, which has left because of a dead rank, if text is the report of
// that rank.
func (p *peer) leftBecause(text string) bool {
	w := p.w
	r, ok := joining.ParseReport(text, w.size)
	if !ok || r.Twice() || r.Rank == w.rank || r.Rank == p.rank {
		return false
	}
	p.reset()
	_ = w.job.Hear(r, p.rank)
	p.left()
	return true
}

// live begins the exchange of messages with p, which is connected.
func (p *peer) live() {
	eager, credits := p.params[0], p.params[1]
	if credits < 2 || eager < 64 || credits > maxCredits {
		p.state = peerLive
		p.fail(errGarbled)
		return
	}
	p.state, p.givenUp = peerLive, 0
	p.meetNear()
	p.credits, _ = p.w.firstCredits(int(credits))
	p.eagerMax = min(int(eager), p.w.cfg.EagerSize)
	for _, dead := range p.w.dead { // first, because later messages may be consequences of these deaths
		p.say(control{kind: kindFail, tag: int32(dead.rank), body: []byte(p.w.job.ReportOf(dead.err).String())})
	}
	if p.w.saidBye {
		p.say(control{kind: kindBye})
	}
	p.pump()
}

// unconnected ends the operations that wait for p. err is the reason why there is no
// connection.
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

// endCollectives ends the collectives that are communicating with p: all their operations, with p and with
// other ranks, end with err, because no rank can use the data that they transfer.
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

// dialPause is the pause before another request to a rank that could not accept the last
// one.
const dialPause = 20 * time.Millisecond

// again schedules another request to p, if an operation waits for p.
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

// askAgain repeats the requests to ranks that could not accept them, if the pause has
// passed.
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
