package vipl

import "github.com/bobnet-go/bobnet/transport/fifo"

// attemptTable lets as many of a NIC's attempts to connect send at a time as the peer's
// receive ring has room for, and the others wait for their turn. When thousands begin at
// once, they would else overflow the ring, which at the largest MTU holds a few dozen
// frames, whatever their length; and as each repeats what is lost, none would get on.
//
// An attempt keeps its turn until it is over. One that has sent several times without
// getting on, because nobody answers there or the server has not accepted it yet, goes
// behind those that wait. Its answer may come all the same, and gives it the turn back.
// The time that an attempt has begins with its first turn. What it waits later does not
// count if others have got on meanwhile: they may be many, and the server slow.
type attemptTable struct {
	limit   int // attempts that have the turn
	active  int
	gotOn   int64 // when one has got on last
	waiting fifo.Queue[attempt]
}

// attempt is an attempt that waits for its turn. It is over if v has another handshake.
type attempt struct {
	v  *VI
	hs *handshake
}

// standing is how an attempt stands with the table.
type standing uint8

const (
	turnNone standing = iota // it has not asked
	turnWaits
	turnHas
)

const (
	turnRequests = 4  // sends before an attempt makes way
	turnProbes   = 12 // the same when the server has accepted it
	// turnShare is the part of a ring that one NIC's attempts may fill: each sends up to
	// three frames.
	turnShare = 4
	turnMin   = 4
	turnSlots = 256 // of rings that do not tell theirs
)

// init sets the limit for peers whose rings hold as many frames as this NIC's.
func (t *attemptTable) init(slots int) {
	if slots == 0 {
		slots = turnSlots
	}
	t.limit = max(slots/turnShare, turnMin)
}

// admit reports whether v's handshake may send now. If not, it does when its turn comes.
func (t *attemptTable) admit(v *VI) bool {
	hs := v.hs
	switch {
	case hs.phase == phaseAccept: // it answers who has the turn
		return true
	case hs.turn == turnHas && (!hs.spent() || t.waiting.Len() == 0):
	case hs.turn == turnHas:
		t.active--
		hs.since = v.nic.conns.Now
		t.wait(v)
		t.next(v.nic)
		return false
	case hs.turn == turnWaits:
		hs.next = forever
		return false
	case t.active >= t.limit || t.waiting.Len() > 0:
		t.wait(v)
		return false
	default:
		t.giveTurn(v)
	}
	hs.sent++
	return true
}

// spent reports whether an attempt that has the turn should make way for others.
func (hs *handshake) spent() bool {
	if hs.phase == phaseProbe {
		return hs.sent >= turnProbes
	}
	return hs.sent >= turnRequests
}

// wait has v's handshake wait for its turn. Its clock stands still.
func (t *attemptTable) wait(v *VI) {
	hs := v.hs
	hs.left, hs.deadline = hs.deadline-v.nic.conns.Now, forever
	hs.turn, hs.next = turnWaits, forever
	t.waiting.Push(attempt{v, hs})
}

// resume gives v's handshake, which has got on, the turn.
func (t *attemptTable) resume(v *VI) {
	t.gotOn = v.nic.conns.Now
	t.giveTurn(v)
}

// giveTurn gives v's handshake the turn. If it has lost one before, and nobody has got on
// since, it was not the others that it waited for: the clock has run all the same.
func (t *attemptTable) giveTurn(v *VI) {
	hs, now := v.hs, v.nic.conns.Now
	if hs.turn != turnHas {
		hs.turn = turnHas
		t.active++
	}
	if hs.left > 0 {
		if hs.since > 0 && t.gotOn < hs.since {
			hs.left -= now - hs.since
		}
		hs.deadline, hs.left = now+hs.left, 0
		v.nic.conns.Watch(&v.conn) // it had no timer
	}
	hs.sent = 0
}

// end takes note that a handshake is over.
func (t *attemptTable) end(n *NIC, hs *handshake) {
	if hs.turn == turnHas {
		t.active--
		t.next(n)
	}
}

// next gives the turn to those that have waited longest.
func (t *attemptTable) next(n *NIC) {
	for t.active < t.limit && t.waiting.Len() > 0 {
		a := t.waiting.Pop()
		if a.v.hs != a.hs || a.hs.turn != turnWaits {
			continue
		}
		a.hs.next, a.hs.interval = n.conns.Now, firstRetry
		t.giveTurn(a.v)
	}
}
