package lanai

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"

	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/reliability"
)

// Stats counts what a card's control program and driver have done.
type Stats struct {
	Sent, Again uint64 // packets of messages; of these, by the scan
	Delivered   uint64 // messages that were written into endpoints
	Returned    uint64 // that came back because nobody has answered
	Refused     uint64 // that came back because a card has refused them
	Unroutable  uint64 // that came back because there is no route
	Loads       uint64 // of endpoints into frames
	Unloads     uint64
	Faults      uint64 // endpoints that were wanted in a frame, staging areas that were not pinned
	Turns       uint64 // of frames, to send
	Loitered    uint64 // attempts to send while there was nothing, and others waited
	Passed      uint64 // turns of others, at the most, between two messages of a frame that had something to send

	Nacked [reliability.NackNoEndpoint + 1]uint64 // packets, by the answer

	BadEntries   uint64 // entries of send queues that make no sense: the message came back
	Privileged   uint64 // messages of a program that speaks as a driver, or to one, which were refused
	BadTags      uint64 // messages with another tag than their endpoint's
	Forged       uint64 // messages for a connection of somebody else, which the host has dropped: the card tells it who has sent them
	Malformed    uint64 // packets dropped: no card sends such
	Misdelivered uint64 // packets dropped: for another card
	Strangers    uint64 // packets dropped: from cards to which there is no way, or more than the table holds
	NoRoute      uint64 // answers dropped: there is no route
	Unanswered   uint64 // messages dropped: as many answers wait to be sent as have room
}

// Snapshot is what a card is like at a moment.
type Snapshot struct {
	station.Snapshot
	Stats     Stats
	Sends     reliability.SendChannelCounters
	Receives  reliability.RecvChannelCounters
	Programs  int
	Endpoints int // but for the driver's
	Resident  int // of these, in frames
	Frames    int // for endpoints of programs
	Waiting   int // for a frame
	Pinned    int // octets of staging areas
	Cards     int // that it has spoken with, or has routes to
	Posted    int // messages in entries of send queues that the card has not done with
	Queued    int // messages that wait in the host for such an entry
	Answers   int // ACKs and NACKs that wait to be sent
}

// Snapshot returns what the card is like now. Any goroutine may call it.
func (c *Card) Snapshot() Snapshot {
	c.lock()
	defer c.unlock()
	p, d := &c.prog, &c.driver
	s := Snapshot{
		Snapshot: station.Snapshot{Card: c.card.Snapshot(), Cable: c.via.port(), Mapper: p.maps.Snapshot(), Stations: len(p.peers.Routed(nil)), LongRoutes: p.maps.Long},
		Stats:    p.stats, Sends: p.sends.Stats(), Receives: p.recvs.Stats(),
		Programs: len(d.programs), Endpoints: len(d.by) - 1, Frames: len(p.frames) - 1, Waiting: d.load.Len(), Pinned: d.pinned, Cards: p.peers.Len() - 1, Answers: p.answers.n,
	}
	s.Stats.Faults = d.faults
	for i := range p.frames {
		if f := &p.frames[i]; f.end != nil && !f.end.privileged() {
			s.Resident++
		}
	}
	for _, e := range d.by {
		done := e.post.done // as far as the host has looked
		if e.state == endResident {
			done = e.frame.done
		}
		s.Posted += bits.OnesCount16(e.post.posted ^ done)
		s.Queued += e.post.waiting[requests].Len() + e.post.waiting[replies].Len()
	}
	return s
}

// WriteTo writes the snapshot as text for people: the card, its endpoints and messages, its
// cable, and the host's mapper. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	s.WriteCard(&b, func() { s.writeProgram(&b) })
	return b.WriteTo(w)
}

func (s *Snapshot) writeProgram(b *bytes.Buffer) {
	n := &s.Stats
	fmt.Fprintf(b, "  AM-II  %d programs, %d endpoints, %d of them in %d frames, %d wait for one; pinned %d octets; cards %d\n",
		s.Programs, s.Endpoints, s.Resident, s.Frames, s.Waiting, s.Pinned, s.Cards)
	fmt.Fprintf(b, "         faults %d, loads %d, evictions %d; turns %d, loitered %d, waited for %d turns at the most\n", n.Faults, n.Loads, n.Unloads, n.Turns, n.Loitered, n.Passed)
	fmt.Fprintf(b, "         sent %d, again %d, delivered %d; posted %d, queued %d, answers to send %d\n",
		n.Sent, n.Again, n.Delivered, s.Posted, s.Queued, s.Answers)
	fmt.Fprintf(b, "         returned: unanswered %d, refused %d, no route %d, bad entries %d\n", n.Returned, n.Refused, n.Unroutable, n.BadEntries)
	fmt.Fprintf(b, "         NACKs sent: not resident %d, overrun %d, not pinned %d, tag %d, no endpoint %d\n", n.Nacked[reliability.NackResident],
		n.Nacked[reliability.NackOverrun], n.Nacked[reliability.NackMemory], n.Nacked[reliability.NackTag], n.Nacked[reliability.NackNoEndpoint])
	fmt.Fprintf(b, "         dropped: malformed %d, misdelivered %d, strangers %d, no route %d, no room for an answer %d; duplicates %d, stale %d; forged %d, privileged %d, bad tags %d\n",
		n.Malformed, n.Misdelivered, n.Strangers, n.NoRoute, n.Unanswered, s.Receives.Duplicates, s.Receives.Stale, n.Forged, n.Privileged, n.BadTags)
}
