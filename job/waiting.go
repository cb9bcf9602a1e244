package job

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// sayAfter is how long Meet waits for other ranks before it logs that.
const sayAfter = 3 * time.Second

// wait describes what Meet waits for, for the log.
type wait struct {
	sayAt int64 // on the NIC's clock
	said  bool
	kind  waitKind
	rank  int            // the rank that is looked up or asked
	addr  ethertype.Addr // its address
}

type waitKind uint8

const (
	waitAsked   waitKind = iota // for requests of higher ranks
	waitName                    // for an answer to a rank's name
	waitAnswer                  // for a found rank to accept this one
	waitAll                     // for connections with all ranks that have published their address
	waitBarrier                 // for all ranks to reach the launcher's barrier
)

func (s *wait) at(kind waitKind, rank int, addr ethertype.Addr) {
	s.kind, s.rank, s.addr = kind, rank, addr
}

// why describes what has not happened yet.
func (s *wait) why() string {
	switch s.kind {
	case waitName:
		return fmt.Sprintf("no reply on the segment for rank %d: is it running, on this segment, with the same %s and key? "+tryDoctor, s.rank, EnvJob)
	case waitAll:
		return "they reached the launcher's barrier, but have not connected: are they on this segment? " + tryDoctor
	case waitBarrier:
		return "not all ranks reached the launcher's barrier: do all of them call this?"
	case waitAnswer:
		return fmt.Sprintf("rank %d at %v has not accepted this rank yet: it may be waiting for others", s.rank, s.addr)
	}
	return fmt.Sprintf("no connection request has arrived from there: is it running, on this segment, with the same %s and key? "+tryDoctor, EnvJob)
}

// tryDoctor is the hint of errors that a filter between hosts can cause.
const tryDoctor = "(to see whether frames pass between two hosts: bobnet doctor --host HOST,HOST)"

// sayAwaited logs, once, which ranks Meet waits for and why. The caller must not hold the lock.
func (m *meeting) sayAwaited() {
	m.waits.said = true
	ranks, why := rankList(m.unconnected()), m.waits.why()+m.clues()
	m.log.Warn("Init waits for other ranks", "job", m.Identity.Job, "rank", m.Rank, "missing", ranks, "why", why)
}

// clues returns possible reasons why ranks are missing, as a continuation of a sentence: the last
// refused request, and what separates the interface from others.
func (m *meeting) clues() (text string) {
	if m.refusal != nil {
		text = "; " + m.refusal.Error()
	}
	if clue := m.nic.Obstacle(); clue != "" {
		text += "; " + clue
	}
	return text
}
