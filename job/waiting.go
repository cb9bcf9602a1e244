package job

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// sayAfter is how long Meet waits for other ranks before it says so.
const sayAfter = 3 * time.Second

// wait says what Meet waits for, to tell a person when that takes long.
type wait struct {
	sayAt int64 // on the NIC's clock
	said  bool
	kind  waitKind
	rank  int            // that is looked for, or asked
	addr  ethertype.Addr // where it is
}

type waitKind uint8

const (
	waitAsked   waitKind = iota // for higher ranks to ask for a connection
	waitName                    // for a rank to answer to its name
	waitAnswer                  // for one that has been found to take this rank in
	waitAll                     // for all to be connected that have told where they are
	waitBarrier                 // for all to come to the launcher's barrier
)

func (s *wait) at(kind waitKind, rank int, addr ethertype.Addr) {
	s.kind, s.rank, s.addr = kind, rank, addr
}

// why says what has not happened yet.
func (s *wait) why() string {
	switch s.kind {
	case waitName:
		return fmt.Sprintf("nobody on the segment answers to the name of rank %d: is it running, on this segment, with the same %s? "+tryDoctor, s.rank, EnvJob)
	case waitAll:
		return "they have come to the launcher's barrier, and are not connected yet: are they on this segment? " + tryDoctor
	case waitBarrier:
		return "not all ranks have come to the launcher's barrier: do all of them call this?"
	case waitAnswer:
		return fmt.Sprintf("rank %d is there, at %v, and has not taken this rank in: it may wait for others itself", s.rank, s.addr)
	}
	return fmt.Sprintf("no request for a connection has come from there: is it running, on this segment, with the same %s? "+tryDoctor, EnvJob)
}

// tryDoctor is the hint of errors that a filter between hosts can cause.
const tryDoctor = "(to see whether frames pass between two hosts: bobnet doctor --host HOST,HOST)"

// sayAwaited logs, once, which ranks Meet waits for and why. The caller must not hold the lock.
func (m *meeting) sayAwaited() {
	m.waits.said = true
	ranks, why := rankList(m.unconnected()), m.waits.why()+m.clues()
	m.log.Warn("Init waits for other ranks", "job", m.Identity.Job, "rank", m.Rank, "missing", ranks, "why", why)
}

// clues is what else may be behind it that ranks do not come: who was refused, and
// what keeps the interface from others. It goes on after other words.
func (m *meeting) clues() (text string) {
	if m.refusal != nil {
		text = "; " + m.refusal.Error()
	}
	if clue := m.nic.Obstacle(); clue != "" {
		text += "; " + clue
	}
	return text
}
