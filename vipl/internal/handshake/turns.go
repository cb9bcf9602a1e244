package handshake

import (
	"math"

	"github.com/bobnet-go/bobnet/internal/fifo"
)

// Never is the time at which an attempt that waits for its turn sends and gives up.
const Never int64 = math.MaxInt64

// Attempt is an owner's attempt to connect, from its start until Turns.End. All times are in
// nanoseconds of one clock.
type Attempt[Owner any] struct {
	Deadline int64 // when it gives up
	Next     int64 // when it sends again
	interval int64 // between its last transmission and the next; 0 after a restart
	last     int64 // time of its last transmission
	tries    int   // transmissions since its start or its last progress
	owner    Owner
	turn     standing
	left     int64 // remaining time, while it waits for its turn
	since    int64 // when it last lost its turn; 0 if it has not
	sent     int   // transmissions in its turn
}

// Begin starts an attempt that sends at once, and fails after timeout.
func (a *Attempt[Owner]) Begin(owner Owner, now, timeout int64) {
	*a = Attempt[Owner]{owner: owner, Deadline: now + timeout, Next: now}
}

// Due returns when the attempt has something to do.
func (a *Attempt[Owner]) Due() int64 { return min(a.Next, a.Deadline) }

// Restart makes an attempt that has progressed send at once.
func (a *Attempt[Owner]) Restart(now int64) { a.Next, a.interval, a.tries = now, 0, 0 }

// Left returns the remaining time of the attempt. Time does not count while it waits for its turn.
func (a *Attempt[Owner]) Left(now int64) int64 {
	if a.left > 0 {
		return a.left
	}
	return a.Deadline - now
}

// standing is the state of an attempt in the table.
type standing uint8

const (
	turnNone standing = iota // it has not asked for a turn
	turnWaits
	turnHas
	turnOver
)

// Stage is the progress of an attempt, for Turns.Admit.
type Stage uint8

// The stages.
const (
	StageAsks    Stage = iota // without an answer
	StageProves               // the server has accepted it
	StageAnswers              // it is the server's side, which answers the side that has the turn
)

// sendsBeforeYield is the number of transmissions after which an attempt yields its turn.
var sendsBeforeYield = [...]int{StageAsks: 4, StageProves: 12}

const (
	// turnShare is the fraction of a ring that one NIC's attempts may fill: each sends up to three
	// frames.
	turnShare = 4
	turnMin   = 4
	turnSlots = 256 // for rings of unknown size
)

// Turns decides when the attempts of a NIC send, and when they give up. It is pure: the time is an
// argument, and the owner of an attempt sends for it.
//
//   - An attempt retransmits a frame when its answer is overdue, compared with the answer times on
//     this NIC, and then at growing intervals.
//   - Turns lets as many attempts send at a time as the peer's receive ring has room for. The others
//     wait for their turn. Thousands that begin at once would otherwise overflow the ring, which at
//     the largest MTU holds a few dozen frames, and each would repeat its lost frames without end.
//   - An attempt keeps its turn until it is over. An attempt that has sent several times without
//     progress goes behind those that wait. An answer that still comes gives it the turn back.
//   - The time limit of an attempt begins with its first turn. Later waiting does not count if other
//     attempts made progress meanwhile.
type Turns[Owner any] struct {
	limit   int // attempts that may have the turn
	active  int
	gotOn   int64 // time of the last progress of any attempt
	pace    pace
	waiting fifo.Queue[*Attempt[Owner]]
	watch   func(Owner)
}

// Init initializes the table for peers whose rings hold slots frames, like this NIC's; 0 means
// unknown. watch is called when an attempt without a timer gets one again.
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

// Sends records a transmission of an attempt. The next one is due when an answer is overdue. Later
// intervals double, up to a tenth of a second.
func (t *Turns[Owner]) Sends(a *Attempt[Owner], now int64) {
	if a.interval == 0 {
		a.interval = t.pace.first()
	} else {
		a.interval = min(2*a.interval, maxRetry)
	}
	a.tries++
	a.last, a.Next = now, now+a.interval
}

// Answered records that an attempt has progressed by an immediate answer of the peer's NIC. Answers
// that depend on the peer's program, and frames that the peer repeats by itself, do not count,
// because they do not measure the time of an answer.
func (t *Turns[Owner]) Answered(a *Attempt[Owner], now int64) {
	switch {
	case a.tries == 1:
		t.pace.answered(now - a.last)
	case a.tries > 1:
		t.pace.repeated(now-a.last, a.interval)
	}
}

// wait makes an attempt wait for its turn. Its clock stops.
func (t *Turns[Owner]) wait(a *Attempt[Owner], now int64) {
	a.left, a.Deadline = a.Deadline-now, Never
	a.turn, a.Next = turnWaits, Never
	t.waiting.Push(a)
}

// Resume gives the turn to an attempt that has progressed.
func (t *Turns[Owner]) Resume(a *Attempt[Owner], now int64) {
	t.gotOn = now
	t.giveTurn(a, now)
}

// giveTurn gives the turn to an attempt. Normally the time without a turn does not count for the
// attempt's deadline. It counts if no other attempt has made progress since this one lost its turn,
// because the attempt did not wait for the others then.
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

// End records the end of an attempt.
func (t *Turns[Owner]) End(a *Attempt[Owner], now int64) {
	had := a.turn == turnHas
	a.turn = turnOver
	if had {
		t.active--
		t.next(now)
	}
}

// next gives the turn to the attempts that have waited longest.
func (t *Turns[Owner]) next(now int64) {
	for t.active < t.limit && t.waiting.Len() > 0 {
		if a := t.waiting.Pop(); a.turn == turnWaits {
			a.Next, a.interval = now, 0
			t.giveTurn(a, now)
		}
	}
}

// pace computes the retransmission timeout of an attempt's first frame. As in RFC 6298, the timeout
// is the mean answer time on this NIC plus four times the mean deviation. Only answers to frames
// that were sent once count (Karn's rule): an answer to a retransmitted frame may belong to any of
// its transmissions.
//
// If a receiver is not scheduled for a while, every frame is sent more than once, and no answer time
// would ever be measured. So after an answer to a retransmitted frame, all attempts use the last
// timeout of that attempt, until a frame that was sent once is answered. If instead the network lost
// the frames, the last transmission is answered as fast as usual, and the timeout does not change.
type pace struct {
	mean      int64 // mean answer time in ns; 0: unknown
	deviation int64
	held      int64 // last timeout of an attempt that had to retransmit; 0: none, or no longer valid
}

// Bounds of the retransmission timeout. The lower bound suits networks that occasionally lose a
// frame. The upper bound limits the effect of a slow receiver on other attempts. It also applies to
// later retransmissions of a frame.
const (
	firstRetry = 5_000_000   // ns
	maxRetry   = 100_000_000 // ns
)

// first returns how long an attempt waits before its first retransmission.
func (p *pace) first() int64 {
	return min(max(p.mean+4*p.deviation, p.held, firstRetry), maxRetry)
}

// answered records the answer time of a frame that was sent once.
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

// repeated records the answer to an attempt that had sent several times. It arrived took ns after
// the last transmission, whose timeout was interval. An answer in the first part
// of the interval belongs to the last transmission: the others were lost. While no answer time is
// known, the first part is a quarter.
func (p *pace) repeated(took, interval int64) {
	usual := 2 * p.mean
	if p.mean == 0 {
		usual = interval / 4
	}
	if took > usual {
		p.held = max(p.held, interval)
	}
}
