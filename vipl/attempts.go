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
// The time that an attempt has begins with its first turn.
type attemptTable struct {
	limit   int // attempts that have the turn
	active  int
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
		t.wait(v)
		t.next(v.nic)
		return false
	case hs.turn == turnWaits:
		hs.next = forever
		return false
	case t.active >= t.limit || t.waiting.Len() > 0:
		hs.left, hs.deadline = hs.deadline-v.nic.conns.Now, forever
		t.wait(v)
		return false
	default:
		t.resume(v)
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

func (t *attemptTable) wait(v *VI) {
	v.hs.turn, v.hs.next = turnWaits, forever
	t.waiting.Push(attempt{v, v.hs})
}

// resume gives v's handshake, which has got on, the turn.
func (t *attemptTable) resume(v *VI) {
	hs := v.hs
	if hs.turn != turnHas {
		hs.turn = turnHas
		t.active++
	}
	if hs.left > 0 {
		hs.deadline, hs.left = v.nic.conns.Now+hs.left, 0
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
		t.resume(a.v)
		a.hs.next, a.hs.interval = n.conns.Now, firstRetry
		n.conns.Watch(&a.v.conn) // it had no timer
	}
}
