package mplite

import "slices"

// Pending is what a rank waits for, over all its communicators: every
// operation and message that is not finished. Ranks in it are those of the
// job's first communicator. Of each list it has the oldest entries, 256
// at the most; the counts beside them are complete.
type Pending struct {
	Job           string
	Rank, Size    int
	Receives      []Operation // posted receives, in the order of posting
	Sends         []Operation
	Unexpected    []Message // messages that have come and that no receive has taken, in order of arrival
	Peers         []Peer    // the ranks with which something is open, and those that are not live
	NumReceives   int       `metric:"bobnet_mplite_pending_receives" help:"Receives that have begun and not ended."`
	NumSends      int       `metric:"bobnet_mplite_pending_sends" help:"Sends that have begun and not ended."`
	NumUnexpected int
	Leading       bool   // a goroutine waits for the network
	Following     int    // goroutines that wait for that one
	Err           string // what has ended the job for this rank; empty if nothing has
}

// pendingMax is the most entries in each list of a Pending.
const pendingMax = 256

// Operation is a send or receive that has begun and not ended.
type Operation struct {
	Rank         int    // the other rank; AnySource if not known yet
	Tag          int    // AnyTag if any; in a collective the number of its call
	Communicator int    // 0 is the job's first, the others are numbered in order of making
	Collective   bool   // part of a collective
	Size         int    // bytes of the message, or of the buffer if that is not known yet
	Moved        int    // bytes that the sender has given to the network, in a rendezvous
	State        string // what it waits for
}

// Message is a message, or the announcement of one, that waits for its receive.
type Message struct {
	Rank         int
	Tag          int
	Communicator int
	Collective   bool
	Size         int
	Announced    bool // it is still at its sender, which waits
	Matched      bool // a matched probe has it
}

// Peer is another rank as this rank sees it.
type Peer struct {
	Rank    int
	State   string // "absent", "greeting", "live", "dead" or "left"
	VI      uint16 // this rank's port for it: a VI of the NIC
	Credits int    // messages that it has room for
	Control int    // control messages that it has room for
	Queued  int    // sends that wait for credits
	Busy    int    // bounce buffers whose messages it has not acknowledged
	Writes  int    // RDMA writes under way to it
	Held    int    // receive buffers that hold messages no receive has taken
	Err     string // why it is dead
}

var stateWaits = [...]string{
	sendQueued: "for credits", sendSync: "to be received", sendReady: "announced, for its receive",
	sendWriting: "to be written", sendSelf: "for this rank's own receive",
	recvPosted: "for a message", recvClear: "to be written to",
}

var peerStates = [...]string{
	peerAbsent: "absent", peerGreeting: "greeting", peerLive: "live", peerDead: "dead", peerLeft: "left",
}

// Pending returns what the rank waits for. It is the same for every
// communicator, and may be called at any time by any goroutine.
func (c *Comm) Pending() Pending {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Pending{Job: w.job.Identity.Job, Rank: w.rank, Size: w.size, NumUnexpected: w.match.waiting, Following: w.waiting}
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
	for _, p := range w.peers {
		if p != nil && !p.quiet() {
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
		case recvPosted, recvClear:
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
	case r.state == recvClear:
		o.Rank, o.Tag, o.Size = r.peer.rank, r.status.Tag, r.accepted
	case r.state == recvPosted:
	case r.peer != nil:
		o.Rank = r.peer.rank
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

// quiet reports whether there is nothing to say of p.
func (p *peer) quiet() bool {
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
