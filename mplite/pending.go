package mplite

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// Pending is the unfinished work of a rank, over all its communicators: every incomplete operation
// and message. Its ranks are those of the job's first communicator. Each list holds the oldest
// entries, at most 256. The counts are complete.
type Pending struct {
	Job           string
	Rank, Size    int
	Receives      []Operation // posted receives, in the order of posting
	Sends         []Operation
	Unexpected    []Message // messages that have arrived and that no receive has taken, in order of arrival
	Peers         []Peer    // ranks with unfinished work, and ranks that are not live
	NumReceives   int       `metric:"bobnet_mplite_pending_receives" help:"Receives in progress."`
	NumSends      int       `metric:"bobnet_mplite_pending_sends" help:"Sends in progress."`
	NumUnexpected int
	Leading       bool   // a goroutine waits for the network
	Following     int    // goroutines that wait for the leading one
	Err           string // cause of the end of the job for this rank; empty before
}

// pendingMax is the maximum number of entries in each list of a Pending.
const pendingMax = 256

// Operation is a send or receive that has started and is not complete.
type Operation struct {
	Rank         int    // the other rank; AnySource if not known yet
	Tag          int    // or AnyTag; in a collective the number of its call
	Communicator int    // 0 is the job's first; others are numbered in order of creation
	Collective   bool   // part of a collective
	Size         int    // bytes of the message, or of the buffer if the message's size is not known yet
	Moved        int    // bytes that the sender has passed to the network, in a rendezvous
	State        string // what it waits for
}

// Message is a message, or the announcement of one, that waits for a receive.
type Message struct {
	Rank         int
	Tag          int
	Communicator int
	Collective   bool
	Size         int
	Announced    bool // only the announcement has arrived; the sender waits
	Matched      bool // a matched probe has reserved it
}

// Peer is this rank's view of another rank.
type Peer struct {
	Rank    int
	State   string // "absent", "greeting", "live", "dead" or "left"
	VI      uint16 // this rank's port for it: a VI of the NIC
	Credits int    // messages that the peer has room for
	Control int    // control messages that the peer has room for
	Queued  int    // sends that wait for credits
	Busy    int    // bounce buffers whose messages the peer has not acknowledged
	Writes  int    // RDMA writes in progress to the peer
	Held    int    // receive buffers with messages that no receive has taken
	Err     string // why it is dead
}

var stateWaits = [...]string{
	sendQueued: "for credits", sendSync: "to be received", sendReady: "announced, for its receive",
	sendWriting: "to be written", sendSelf: "for this rank's own receive",
	recvMeet: "for a rank to make the call", recvPosted: "for a message", recvClear: "to be written to", recvPulling: "to be copied from the sender", recvPulled: "for a credit, to release the sender",
}

var peerStates = [...]string{
	peerAbsent: "absent", peerGreeting: "greeting", peerLive: "live", peerDead: "dead", peerLeft: "left",
}

// Pending returns the rank's unfinished work. It is the same for every communicator. Any goroutine
// may call it at any time.
func (c *Comm) Pending() Pending {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Pending{Job: w.cfg.Job, Rank: w.rank, Size: w.size, NumUnexpected: w.match.waiting, Following: w.waiting}
	if w.cq != nil && w.waiting > 0 {
		s.Leading, s.Following = true, w.waiting-1
	}
	w.pendingOperations(&s)
	for n := w.match.all.head; n != nil && len(s.Unexpected) < pendingMax; n = n.next {
		s.Unexpected = append(s.Unexpected, n.of.describe())
	}
	for n := w.match.claimed.head; n != nil; n = n.next {
		if s.NumUnexpected++; len(s.Unexpected) < pendingMax {
			s.Unexpected = append(s.Unexpected, n.of.describe())
		}
	}
	for _, p := range w.peers.All() {
		if !p.quiet() {
			s.Peers = append(s.Peers, p.describe())
		}
	}
	if w.fatal != nil {
		s.Err = w.fatal.Error()
	}
	return s
}

func (w *world) pendingOperations(s *Pending) {
	var posted []*request
	for _, r := range w.requests {
		switch r.state {
		case stateFree, stateDone, collRunning: // whose parts are listed
		case recvMeet, recvPosted, recvClear, recvPulling, recvPulled:
			posted = append(posted, r)
		default:
			if s.NumSends++; s.NumSends <= pendingMax {
				s.Sends = append(s.Sends, r.describe())
			}
		}
	}
	slices.SortFunc(posted, func(a, b *request) int {
		if a.state != b.state { // those that are matched come first
			return int(b.state) - int(a.state)
		}
		if a.number < b.number {
			return -1
		}
		return 1
	})
	s.NumReceives = len(posted)
	for _, r := range posted[:min(len(posted), pendingMax)] {
		s.Receives = append(s.Receives, r.describe())
	}
}

func (r *request) describe() Operation {
	o := Operation{Rank: int(r.env.src), Tag: int(r.env.tag), Communicator: int(r.env.context / 2), Collective: r.coll,
		Size: len(r.buf), State: stateWaits[r.state]}
	switch {
	case r.state.matched():
		o.Rank, o.Tag, o.Size = r.peer.rank, r.status.Tag, r.accepted
	case r.state == recvMeet, r.state == recvPosted:
	case r.peer != nil:
		o.Rank = r.peer.rank
		if r.state == sendQueued && r.peer.state == peerAbsent {
			o.State = "for a connection"
		}
	}
	if r.state == sendWriting {
		o.Moved = r.written
	}
	return o
}

func (in *inbound) describe() Message {
	return Message{
		Rank: int(in.env.src), Tag: int(in.env.tag), Communicator: int(in.env.context / 2), Collective: in.env.context&1 != 0,
		Size: int(in.size), Announced: in.kind == kindReady, Matched: in.ticket != 0,
	}
}

// quiet reports whether p has no unfinished work and is live, so that Pending omits it.
func (p *peer) quiet() bool {
	if p.state == peerAbsent && p.w.onUse {
		return p.VI == nil && p.queue.head == nil && p.pending.Len() == 0
	}
	return p.state == peerLive && p.credits > 0 && p.control > 1 && p.queue.head == nil && p.pending.Len() == 0 && p.Busy == 0 && p.writes == 0 && p.unexpected == 0
}

func (p *peer) describe() Peer {
	s := Peer{Rank: p.rank, State: peerStates[p.state], Credits: p.credits, Control: p.control, Busy: p.Busy, Writes: p.writes, Held: p.unexpected}
	if p.VI != nil {
		s.VI = p.VI.Local().Port
	}
	for n := p.queue.head; n != nil; n = n.next {
		s.Queued++
	}
	if p.err != nil {
		s.Err = p.err.Error()
	}
	return s
}

// WriteTo writes the unfinished work as text, for a person who investigates why a job hangs. The
// order of lines and columns is stable. It implements io.WriterTo.
//
// To find ranks that wait for each other, follow the receives "for a message" from rank to rank,
// until one rank waits for nothing or the circle closes.
func (s Pending) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "rank %d of %d in job %q  ", s.Rank, s.Size, s.Job)
	switch {
	case s.Err != "":
		fmt.Fprintf(&b, "ended: %s\n", s.Err)
	case s.Leading:
		fmt.Fprintf(&b, "waits for the network, %d more goroutines with it\n", s.Following)
	case s.Following > 0:
		fmt.Fprintf(&b, "%d goroutines wait\n", s.Following)
	default:
		b.WriteString("computes: no goroutine waits\n")
	}
	fmt.Fprintf(&b, "  %d receives and %d sends not finished, %d messages that no receive has taken\n", s.NumReceives, s.NumSends, s.NumUnexpected)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s.writeOperations(t)
	s.writeMessages(t)
	s.writePeers(t)
	t.Flush()
	return b.WriteTo(w)
}

func (s *Pending) writeOperations(t *tabwriter.Writer) {
	if s.NumReceives+s.NumSends > 0 {
		fmt.Fprintln(t, "\n  OPERATION\tRANK\tTAG\tCOMMUNICATOR\tBYTES\tMOVED\tWAITS")
	}
	for _, list := range []struct {
		name  string
		all   []Operation
		count int
	}{{"receive", s.Receives, s.NumReceives}, {"send", s.Sends, s.NumSends}} {
		for _, o := range list.all {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%d\t%d\t%s\n", list.name, wild(o.Rank), wild(o.Tag), place(o.Communicator, o.Collective), o.Size, o.Moved, o.State)
		}
		more(t, list.count-len(list.all))
	}
	t.Flush()
}

func (s *Pending) writeMessages(t *tabwriter.Writer) {
	if s.NumUnexpected > 0 {
		fmt.Fprintln(t, "\n  UNEXPECTED\tRANK\tTAG\tCOMMUNICATOR\tBYTES")
	}
	for _, m := range s.Unexpected {
		kind := "message"
		if m.Announced {
			kind = "announcement"
		}
		if m.Matched {
			kind += ", matched"
		}
		fmt.Fprintf(t, "  %s\t%d\t%d\t%s\t%d\n", kind, m.Rank, m.Tag, place(m.Communicator, m.Collective), m.Size)
	}
	more(t, s.NumUnexpected-len(s.Unexpected))
	t.Flush()
}

func (s *Pending) writePeers(t *tabwriter.Writer) {
	if len(s.Peers) > 0 {
		fmt.Fprintln(t, "\n  WITH RANK\tSTATE\tVI\tCREDITS\tCONTROL\tQUEUED\tBUSY\tWRITES\tHELD\tWHY")
	}
	for _, p := range s.Peers {
		fmt.Fprintf(t, "  %d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", p.Rank, p.State, p.VI, p.Credits, p.Control, p.Queued, p.Busy, p.Writes, p.Held, orDash(p.Err))
	}
}

// wild returns a rank or tag, "any" if that is what it stands for.
func wild(n int) string {
	if n < 0 {
		return "any"
	}
	return strconv.Itoa(n)
}

// place names a communicator, and whether the operation belongs to a collective.
func place(communicator int, collective bool) string {
	if collective {
		return strconv.Itoa(communicator) + " collective"
	}
	return strconv.Itoa(communicator)
}

func more(t *tabwriter.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(t, "  and %d more\n", n)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Stats are the counters of a rank since Init, over all its communicators.
type Stats struct {
	EagerSent          uint64                 `metric:"bobnet_mplite_eager_sent_total" help:"Messages sent through bounce buffers."`
	EagerReceived      uint64                 `metric:"bobnet_mplite_eager_received_total" help:"Messages received through bounce buffers."`
	RendezvousSent     uint64                 `metric:"bobnet_mplite_rendezvous_sent_total" help:"Messages announced, and then written to the receiver's memory by RDMA or copied by the receiver."`
	RendezvousReceived uint64                 `metric:"bobnet_mplite_rendezvous_received_total" help:"Announced messages that senders wrote to this rank's memory by RDMA, or that this rank copied."`
	Pulled             uint64                 `metric:"bobnet_mplite_pulled_total" help:"Announced messages that this rank copied from the memory of another process of its host."`
	LandingSent        uint64                 `metric:"bobnet_mplite_landing_sent_total" help:"Messages written directly to landing memory that the receiver granted."`
	BytesSent          uint64                 `metric:"bobnet_mplite_sent_bytes_total" help:"Payload sent."`
	BytesReceived      uint64                 `metric:"bobnet_mplite_received_bytes_total" help:"Payload received."`
	SelfMessages       uint64                 `metric:"bobnet_mplite_self_messages_total" help:"Messages from the rank to itself."`
	Unexpected         int                    `metric:"bobnet_mplite_unexpected_messages" help:"Messages that wait for a receive."`
	UnexpectedMax      int                    `metric:"bobnet_mplite_unexpected_messages_maximum" help:"Largest number of messages that waited for a receive at the same time."`
	SpillBytes         int                    `metric:"bobnet_mplite_spill_bytes" help:"Memory of messages without a receive beyond the receive buffers."`
	CreditStalls       uint64                 `metric:"bobnet_mplite_credit_stalls_total" help:"Sends that had to wait for room at the receiver."`
	CreditMessages     uint64                 `metric:"bobnet_mplite_credit_messages_total" help:"Messages that only returned credits."`
	Strays             uint64                 `metric:"bobnet_mplite_stray_messages_total" help:"Control messages that matched no operation of this rank."`
	RanksFailed        uint64                 `metric:"bobnet_mplite_failed_ranks_total" help:"Ranks detected as dead."`
	Refused            uint64                 `metric:"bobnet_mplite_refused_requests_total" help:"Connection requests from processes outside the job."`
	Requests           int                    // operation records allocated; they are reused
	Collectives        [numCollectives]uint64 `metric:"bobnet_mplite_collectives_total"`
}

// Snapshot returns the rank's counters. They are the same for every communicator.
func (c *Comm) Snapshot() Stats {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Unexpected, s.UnexpectedMax = w.match.waiting, w.match.waitMax
	s.SpillBytes = w.spill.used
	s.Refused = w.job.Refused()
	if w.member != nil {
		s.Refused += w.member.Refused()
	}
	s.Requests = len(w.requests)
	return s
}
