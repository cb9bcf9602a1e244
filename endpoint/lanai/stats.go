package lanai

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"

	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// Stats counts events of a card's control program and driver.
type Stats struct {
	Sent       uint64 `metric:"bobnet_amcard_sent_messages_total" help:"Message packets sent, including retransmissions."`
	Again      uint64 `metric:"bobnet_amcard_retransmissions_total" help:"Message packets retransmitted."`
	Delivered  uint64 `metric:"bobnet_amcard_delivered_messages_total" help:"Messages written into endpoints of this host."`
	Returned   uint64 `metric:"bobnet_amcard_returned_messages_total" reason:"unanswered" help:"no card answered"`
	Refused    uint64 `metric:"bobnet_amcard_returned_messages_total" reason:"refused" help:"the other card refused them permanently"`
	Unroutable uint64 `metric:"bobnet_amcard_returned_messages_total" reason:"no_route" help:"no route to the other card"`
	Loads      uint64 `metric:"bobnet_amcard_loads_total" help:"Endpoints loaded into frames."`
	Unloads    uint64 `metric:"bobnet_amcard_evictions_total" help:"Endpoints unloaded from frames."`
	Faults     uint64 `metric:"bobnet_amcard_faults_total" help:"Requests for endpoints that were not in a frame, or whose staging area was not pinned."`
	Turns      uint64 `metric:"bobnet_amcard_turns_total" help:"Turns in which a frame could send."`
	Loitered   uint64 // attempts to send that found no message while other endpoints waited
	Passed     uint64 // maximum number of other frames' turns between two messages of a frame that had messages to send

	Nacked [channels.NackNoEndpoint + 1]uint64 `metric:"bobnet_amcard_nacks_total"` // packets, by reason of the NACK

	BadEntries   uint64 `metric:"bobnet_amcard_returned_messages_total" reason:"bad_entry" help:"the program posted an invalid message"`
	Privileged   uint64 `metric:"bobnet_amcard_dropped_total" reason:"privileged" help:"messages of programs to or from a driver's endpoint"`
	BadTags      uint64 // messages whose tag differs from their endpoint's
	Forged       uint64 `metric:"bobnet_amcard_dropped_total" reason:"forged" help:"messages for another card's connection"`
	Malformed    uint64 `metric:"bobnet_amcard_dropped_total" reason:"malformed" help:"malformed packets"`
	Misdelivered uint64 `metric:"bobnet_amcard_dropped_total" reason:"misdelivered" help:"packets for another card"`
	Strangers    uint64 `metric:"bobnet_amcard_dropped_total" reason:"stranger" help:"the table of cards is full"`
	NoRoute      uint64 `metric:"bobnet_amcard_dropped_total" reason:"no_route" help:"answers without a route"`
	Unheard      uint64 `metric:"bobnet_amcard_dropped_total" reason:"unheard" help:"driver messages to programs that have not read earlier ones"`
	Unsaid       uint64 `metric:"bobnet_amcard_dropped_total" reason:"unsaid" help:"answers to other drivers beyond their limit"`
	Unasked      uint64 `metric:"bobnet_amcard_dropped_total" reason:"unasked" help:"name lookups of processes beyond their limit"`
	Unanswered   uint64 `metric:"bobnet_amcard_dropped_total" reason:"no_room" help:"messages, because the queue of answers is full"`
}

// Snapshot is the state of a card at one moment.
type Snapshot struct {
	station.Snapshot
	Served    bool // another process serves the card; programs, endpoints and messages are then those of this process only
	Stats     Stats
	Sends     channels.SenderCounters
	Receives  channels.ReceiverCounters
	Programs  int `metric:"bobnet_amcard_programs" help:"Programs with endpoints on the card."`
	Endpoints int `metric:"bobnet_amcard_endpoints" help:"Endpoints on the card, in frames or not."`
	Resident  int `metric:"bobnet_amcard_resident_endpoints" help:"Endpoints in frames of the card."`
	Frames    int `metric:"bobnet_amcard_frames" help:"Frames for endpoints."`
	Waiting   int `metric:"bobnet_amcard_waiting_endpoints" help:"Endpoints that wait for a frame."`
	Pinned    int `metric:"bobnet_amcard_pinned_bytes" help:"Pinned memory of staging areas."`
	Cards     int // cards that it has communicated with, or has routes to
	Posted    int `metric:"bobnet_amcard_posted_messages" help:"Messages in send queues that the card has not completed."`
	Queued    int `metric:"bobnet_amcard_queued_messages" help:"Messages in the host that wait for room in a send queue."`
	Answers   int `metric:"bobnet_amcard_queued_answers" help:"ACKs and NACKs that wait to be sent."`
}

// Snapshot returns the state of the card. Any goroutine may call it.
func (c *Card) Snapshot() Snapshot {
	c.lock()
	defer c.unlock()
	p, d := &c.prog, &c.driver
	if d.far != nil {
		s := Snapshot{Served: true, Programs: len(d.programs), Endpoints: len(d.by)}
		s.Card.Name = d.far.info.Interface
		s.count(d)
		return s
	}
	s := Snapshot{
		Snapshot: c.host.Snapshot(&p.maps, &p.peers),
		Stats:    p.stats, Sends: p.sends.Stats(), Receives: p.recvs.Stats(),
		Programs: len(d.programs), Endpoints: len(d.by) - 1, Frames: len(p.frames) - 1, Waiting: d.load.Len(), Pinned: d.pinned, Cards: p.peers.Len() - 1, Answers: p.answers.n,
	}
	s.Stats.Faults = d.faults
	for i := range p.frames {
		if f := &p.frames[i]; f.end != nil && !f.end.privileged() {
			s.Resident++
		}
	}
	s.count(d)
	return s
}

// count counts the messages of the endpoints.
func (s *Snapshot) count(d *driver) {
	s.Queued += d.sayings.n
	for _, e := range d.by {
		posted, done := e.post.posted, e.post.done // as far as the host has read them
		switch {
		case e.memory != nil: // of a program of another process this one's half of the driver knows nothing
			posted, done = uint16(shared.Load(e.image, postedAt)), uint16(shared.Load(e.image, doneAt))
		case e.frame != nil && e.state == endResident:
			done = e.frame.done
		}
		s.Posted += bits.OnesCount16(posted ^ done)
		s.Queued += e.post.waiting[requests].Len() + e.post.waiting[replies].Len()
	}
}

// WriteTo writes the snapshot as text for display: the card, its endpoints and messages, its cable,
// and the host's mapper. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if s.Served {
		fmt.Fprintf(&b, "card %s of another process; of this one: %d programs, %d endpoints; posted %d, queued %d\n", s.Card.Name, s.Programs, s.Endpoints, s.Posted, s.Queued)
		return b.WriteTo(w)
	}
	s.WriteCard(&b, func() { s.writeProgram(&b) })
	return b.WriteTo(w)
}

func (s *Snapshot) writeProgram(b *bytes.Buffer) {
	n := &s.Stats
	fmt.Fprintf(b, "  AM-II  %d programs, %d endpoints, %d of them in %d frames, %d wait for one; pinned %d bytes; cards %d\n",
		s.Programs, s.Endpoints, s.Resident, s.Frames, s.Waiting, s.Pinned, s.Cards)
	fmt.Fprintf(b, "         faults %d, loads %d, evictions %d; turns %d, loitered %d, waited for %d turns at the most\n", n.Faults, n.Loads, n.Unloads, n.Turns, n.Loitered, n.Passed)
	fmt.Fprintf(b, "         sent %d, again %d, delivered %d; posted %d, queued %d, answers to send %d\n",
		n.Sent, n.Again, n.Delivered, s.Posted, s.Queued, s.Answers)
	fmt.Fprintf(b, "         returned: unanswered %d, refused %d, no route %d, bad entries %d\n", n.Returned, n.Refused, n.Unroutable, n.BadEntries)
	fmt.Fprintf(b, "         NACKs sent: not resident %d, overrun %d, not pinned %d, tag %d, no endpoint %d\n", n.Nacked[channels.NackResident],
		n.Nacked[channels.NackOverrun], n.Nacked[channels.NackMemory], n.Nacked[channels.NackTag], n.Nacked[channels.NackNoEndpoint])
	fmt.Fprintf(b, "         dropped: malformed %d, misdelivered %d, strangers %d, no route %d, no room for an answer %d; duplicates %d, stale %d; forged %d, privileged %d, bad tags %d\n",
		n.Malformed, n.Misdelivered, n.Strangers, n.NoRoute, n.Unanswered, s.Receives.Duplicates, s.Receives.Stale, n.Forged, n.Privileged, n.BadTags)
}
