package handshake

import (
	"math"

	"github.com/bobnet-go/bobnet/internal/fifo"
)

// Never is the time at which an attempt that waits for its turn sends and gives up.
const Never int64 = math.MaxInt64

// Attempt is an attempt of an owner's to connect, from when it begins until Turns.End. All
// times are in nanoseconds of one clock.
type Attempt[Owner any] struct {
	Deadline int64 // when it gives up
	Next     int64 // when it sends again
	interval int64 // between its last sending and the next; 0: it begins anew
	last     int64 // when it has sent last
	tries    int   // times that it has sent since it began or got on
	owner    Owner
	turn     standing
	left     int64 // of the time that it has, while it waits for its turn
	since    int64 // when it lost the turn last; 0: it has not
	sent     int   // times that it has, in its turn
}

// Begin begins an attempt that sends at once, and has so much time.
func (a *Attempt[Owner]) Begin(owner Owner, now, timeout int64) {
	*a = Attempt[Owner]{owner: owner, Deadline: now + timeout, Next: now}
}

// Due returns when the attempt has something to do.
func (a *Attempt[Owner]) Due() int64 { return min(a.Next, a.Deadline) }

// Restart has the attempt, which has got on, send at once.
func (a *Attempt[Owner]) Restart(now int64) { a.Next, a.interval, a.tries = now, 0, 0 }

// Left returns how much time the attempt has still. While it waits for its turn none of it
// passes.
func (a *Attempt[Owner]) Left(now int64) int64 {
	if a.left > 0 {
		return a.left
	}
	return a.Deadline - now
}

// standing is how an attempt stands with the table.
type standing uint8

const (
	turnNone standing = iota // it has not asked
	turnWaits
	turnHas
	turnOver
)

// Stage is how far an attempt has got, for Turns.Admit.
type Stage uint8

// The stages.
const (
	StageAsks    Stage = iota // nobody has answered it
	StageProves               // the server has accepted it
	StageAnswers              // it is the server's side of one: it answers who has the turn
)

// sendsBeforeYield is how often an attempt sends before it makes way.
var sendsBeforeYield = [...]int{StageAsks: 4, StageProves: 12}

const (
	// turnShare is the part of a ring that one NIC's attempts may fill: each sends up to
	// three frames.
	turnShare = 4
	turnMin   = 4
	turnSlots = 256 // of rings that do not tell theirs
)

// Turns decides when the attempts of a NIC send, and when they give up. It is pure: the time is an
// argument, and the owner of an attempt sends for it.
//
//   - An attempt repeats a frame when its answer is overdue, judged by how long answers take on this
//     NIC, and then at growing intervals.
//   - Turns lets as many attempts send at a time as the peer's receive ring has room for. The others
//     wait for their turn. Thousands that begin at once would otherwise overflow the ring, which at
//     the largest MTU holds a few dozen frames, and each would repeat its lost frames without end.
//   - An attempt keeps its turn until it is over. An attempt that has sent several times without
//     progress goes behind those that wait. An answer that still comes gives it the turn back.
//   - The time limit of an attempt begins with its first turn. Later waiting does not count if other
//     attempts made progress meanwhile.
type Turns[Owner any] struct {
	limit   int // attempts that have the turn
	active  int
	gotOn   int64 // when one has got on last
	pace    pace
	waiting fifo.Queue[*Attempt[Owner]]
	watch   func(Owner)
}

// Init makes a table for peers whose rings hold as many frames as this NIC's; 0 if that is
// not known. watch is called when an attempt that had no timer has one again.
func (t *Turns[Owner]) Init(slots int, watch func(Owner)) {
	if slots == 0 {
		slots = turnSlots
	}
	t.limit, t.watch = max(slots/turnShare, turnMin), watch
}

// Admit reports whether an attempt may send now. If not, it may when its turn comes.
func (t *Turns[Owner]) Admit(a *Attempt[Owner], at Stage, now int64) bool {
	switch {
	case at == StageAnswers:
		return true
	case a.turn == turnHas && (a.sent < sendsBeforeYield[at] || t.waiting.Len() == 0):
	case a.turn == turnHas:
		t.active--
		a.since = now
		t.wait(a, now)
		t.next(now)
		return false
	case a.turn == turnWaits:
		a.Next = Never
		return false
	case t.active >= t.limit || t.waiting.Len() > 0:
		t.wait(a, now)
		return false
	default:
		t.giveTurn(a, now)
	}
	a.sent++
	return true
}

// Sends notes that an attempt sends now. It sends again when an answer is overdue, and from
// then on after twice the time that has passed between the last two, up to a tenth of a second.
func (t *Turns[Owner]) Sends(a *Attempt[Owner], now int64) {
	if a.interval == 0 {
		a.interval = t.pace.first()
	} else {
		a.interval = min(2*a.interval, maxRetry)
	}
	a.tries++
	a.last, a.Next = now, now+a.interval
}

// Answered notes that an attempt gets on by what the peer's NIC has answered at once. What the peer's
// program has to do with, or what the peer repeats by itself, tells nothing of how long an
// answer takes.
func (t *Turns[Owner]) Answered(a *Attempt[Owner], now int64) {
	switch {
	case a.tries == 1:
		t.pace.answered(now - a.last)
	case a.tries > 1:
		t.pace.repeated(now-a.last, a.interval)
	}
}

// wait has an attempt wait for its turn. Its clock stands still.
func (t *Turns[Owner]) wait(a *Attempt[Owner], now int64) {
	a.left, a.Deadline = a.Deadline-now, Never
	a.turn, a.Next = turnWaits, Never
	t.waiting.Push(a)
}

// Resume gives an attempt that has got on the turn.
func (t *Turns[Owner]) Resume(a *Attempt[Owner], now int64) {
	t.gotOn = now
	t.giveTurn(a, now)
}

// giveTurn gives an attempt the turn. If it has lost one before, and nobody has got on
// since, it was not the others that it waited for: the clock has run all the same.
func (t *Turns[Owner]) giveTurn(a *Attempt[Owner], now int64) {
	if a.turn != turnHas {
		a.turn = turnHas
		t.active++
	}
	if a.left > 0 {
		if a.since > 0 && t.gotOn < a.since {
			a.left -= now - a.since
		}
		a.Deadline, a.left = now+a.left, 0
		t.watch(a.owner)
	}
	a.sent = 0
}

// End takes note that an attempt is over.
func (t *Turns[Owner]) End(a *Attempt[Owner], now int64) {
	had := a.turn == turnHas
	a.turn = turnOver
	if had {
		t.active--
		t.next(now)
	}
}

// next gives the turn to those that have waited longest.
func (t *Turns[Owner]) next(now int64) {
	for t.active < t.limit && t.waiting.Len() > 0 {
		if a := t.waiting.Pop(); a.turn == turnWaits {
			a.Next, a.interval = now, 0
			t.giveTurn(a, now)
		}
	}
}

// pace says how long an attempt waits for the answer to what it has sent first, before it
// sends that again. It follows from how long answers have taken on this NIC, as RFC 6298
// has it: their mean and four times their deviation from that. Only answers to what was sent
// once count (Karn's rule), because of others nobody knows what they answer.
//
// But where a receiver is not scheduled for a while, everything is sent more than once, and the
// pace would never be known. So after an answer to what was sent several times all
// attempts wait as long as that one did in the end, until an answer comes to what was
// sent once. A network that loses frames looks otherwise: there the last of them is
// answered as fast as ever.
type pace struct {
	mean      int64 // of the times that answers have taken, in ns; 0: there was none
	deviation int64
	held      int64 // what an attempt that had to repeat waited for in the end; 0: none, or that is over
}

// The limits of such a time. The lower one is for networks that lose a frame now and then. The
// upper one bounds what a slow receiver costs others, and is that of later repetitions, too.
const (
	firstRetry = 5_000_000   // ns
	maxRetry   = 100_000_000 // ns
)

// first returns how long an attempt waits before it repeats the first time.
func (p *pace) first() int64 {
	return min(max(p.mean+4*p.deviation, p.held, firstRetry), maxRetry)
}

// answered notes how long the answer to what was sent once has taken.
func (p *pace) answered(took int64) {
	took = min(max(took, 1), maxRetry)
	p.held = 0
	if p.mean == 0 {
		p.mean, p.deviation = took, took/2
		return
	}
	p.deviation += (max(took-p.mean, p.mean-took) - p.deviation) / 4
	p.mean += (took - p.mean) / 8
}

// repeated notes that an attempt that had sent several times was answered, took ns after the last
// time, when it would have sent again after interval. An answer that comes in the first part
// of the interval answers the last of them: the others were lost. While no answer time is known, the
// first part is a quarter.
func (p *pace) repeated(took, interval int64) {
	usual := 2 * p.mean
	if p.mean == 0 {
		usual = interval / 4
	}
	if took > usual {
		p.held = max(p.held, interval)
	}
}
