package job

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// tree is the Links of a Member: a VI to each rank next to it in a tree (tree.go). Over each link a rank sends its Hello, one message of what it passes on (told.go) until
// the other rank has answered that, an answer to each such message of the other rank, and in the
// end its word that it leaves. So a few receives are enough.
type tree struct {
	mu     sync.Mutex
	kicked atomic.Bool // attend has been called, and nobody has handled what completed
	closed bool
	job    *Job
	cfg    Config
	params [2]uint32
	nic    *vipl.NIC
	own    bool // we opened nic
	cq     *seam.Queue
	peers  []*link // by rank; nil for this rank, and for a rank with which there was nothing to do
	near   []*link // those that have, or had, a VI
	err    error   // the first failure
	deaths int     // ranks that have failed
	marks  uint32  // of these, added up (mark)

	table   []place   // by rank
	places  []arrival // in the order in which they came to be known
	reports []Report  // in the order in which they came to be known

	up      int     // the rank above in the tree; -1 if there is none
	silent  int     // how many ranks to ask at once that may be above this one
	dialing []*link // attempts to connect since the job has come together

	leaving, parted bool // this rank leaves; all do
	ended           bool // End was called
	ending          bool // this rank leaves Meet without the others

	programs map[string]bool // that use the Member now
	events   events          // for the one that connects on first use
}

// link is the connection with another rank.
type link struct {
	channel.Channel
	rank   int
	state  State
	err    error // of a dead rank
	caller bool  // this rank asked for the connection

	reports int     // those before this one of tree.reports have been sent
	places  int     // and of tree.places
	bye     leavers // that were sent last
	open    bool
	owed    int // answers

	left  leavers // of the ranks below it, with itself
	tries int     // attempts to link that it has refused
	recvs []receive
}

type receive = channel.Receive[struct{}]

const (
	linkReceives = 4 // a Hello, the last goodbye, one message that is passed on, one answer
	linkSends    = 8
	messageSize  = 1 + placesMost*placeSize
)

// What the first byte of a message says is behind it.
const (
	sayHello  = 'h' // a Hello
	sayReport = 'r' // a Report
	sayPlaces = 'p' // where ranks are
	sayAnswer = 'a' // nothing: the last message that was passed on has been handled
	sayBye    = 'b' // how many ranks leave in order (leavers), or nothing: all do
)

func (t *tree) Lock()             { t.mu.Lock() }
func (t *tree) Params() [2]uint32 { return t.params }
func (t *tree) Err() error        { return t.err }

// Unlock implements Links.
func (t *tree) Unlock() {
	kick := t.events.due()
	t.mu.Unlock()
	t.seeTo()
	if kick != nil {
		kick()
	}
}

// peer returns the link with another rank, which may have no VI.
func (t *tree) peer(rank int) *link {
	if t.peers[rank] == nil {
		t.peers[rank] = &link{rank: rank}
	}
	return t.peers[rank]
}

// State implements Links. A rank that has no link with this one counts as Live when this one
// knows where it is.
func (t *tree) State(rank int) State {
	switch p := t.peers[rank]; {
	case p != nil && p.state != Absent:
		return p.state
	case t.linked(rank) || t.table[rank].addr.IsZero():
		return Absent
	}
	return Live
}

// Open implements Links.
func (t *tree) Open(rank int, connect time.Duration) (*vipl.VI, error) {
	p := t.peer(rank)
	p.recvs = make([]receive, linkReceives)
	t.near = append(t.near, p)
	err := channel.Open(&p.Channel, &channel.Config{
		NIC: t.nic, CQ: t.cq.CQ, Context: p, Size: messageSize, Sends: linkSends, Memory: make([]byte, (linkReceives+linkSends)*messageSize),
		Attributes: vipl.Attributes{PeerTimeout: t.cfg.PeerTimeout, ConnectTimeout: max(connect, 1)},
	}, p.recvs)
	return p.VI, err
}

// Reset implements Links.
func (t *tree) Reset(rank int) {
	if p := t.peers[rank]; p != nil {
		t.forgetLink(p)
		p.Close()
	}
	t.peers[rank] = nil
}

// say sends a message to p, if p is connected.
func (t *tree) say(p *link, kind byte, body []byte) {
	if p.VI == nil || p.state == Absent || p.state == Dead || !p.Room() {
		return
	}
	mem := p.Next()
	mem[0] = kind
	if err := p.Send(1 + copy(mem[1:], body)); err != nil {
		t.Fail(p.rank, err)
	}
}

// Greet implements Links. Where a launcher has told all ranks which run this is, two that
// connect know each other already, and neither says Hello.
func (t *tree) Greet(rank int) {
	p := t.peer(rank)
	if _, known := t.job.known[rank]; known {
		t.job.said[rank] = true
		if p.state == Absent {
			p.state = Live
		}
		t.pass(p)
		return
	}
	if p.state != Absent {
		return // its first message has ended it already
	}
	p.state = Greeting
	if t.job.Said(rank) {
		p.state = Live
	}
	t.say(p, sayHello, t.job.hello())
	t.pass(p)
}

// Tell implements Links.
func (t *tree) Tell(r Report) {
	t.reports = append(t.reports, r)
	t.passAll()
}

// Fail implements Links.
func (t *tree) Fail(rank int, cause error) error {
	p := t.peer(rank)
	if p.state >= Dead {
		return p.err
	}
	p.state = Dead
	p.err = &RankError{Rank: rank, Err: cause}
	t.deaths++
	t.marks += mark(rank)
	if t.err == nil {
		t.err = p.err
	}
	p.Disconnect()
	if !t.ending || told(cause) { // otherwise p may have ended the connection because this rank ends
		t.Tell(t.job.ReportOf(p.err))
	}
	t.events.died(rank, p.err)
	t.repair()
	t.part()
	return p.err
}

// End implements Links.
func (t *tree) End(err *DuplicateError) {
	if t.ended {
		return // the report is on its way already, and comes back from whom it went to
	}
	t.ended = true
	if t.err == nil {
		t.err = err
	}
	t.Tell(t.job.ReportOf(err))
}

// Unacked implements Links. Reports that wait for an answer to the last one count.
func (t *tree) Unacked() (n int) {
	for _, p := range t.near {
		if !p.Connected() {
			continue
		}
		if n += p.Busy; p.talks() {
			n += len(t.reports) - p.reports
		}
	}
	return n
}

// Step implements Links.
func (t *tree) Step(ctx context.Context) error {
	seen := t.cq.Seen()
	t.Unlock()
	err := t.cq.WaitSince(ctx, 0, seen)
	t.Lock()
	t.handle(t.cq.Reap())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// handle handles what has completed.
func (t *tree) handle(done []seam.Completion) {
	for i := range done {
		c := &done[i]
		if c.Request != nil {
			t.job.Requested(c.Request)
			continue
		}
		p := c.VI.Context.(*link)
		if p.VI != c.VI {
			continue // of an attempt that was taken back
		}
		if !c.Recv {
			p.Sent()
		}
		switch {
		case c.Descriptor.Status.Failed():
			t.Fail(p.rank, p.VI.Err())
		case c.Recv:
			t.arrived(p, c.Descriptor.Context.(*receive))
		}
		t.pass(p)
	}
	t.dialed()
	t.part()
}

// arrived handles a message, and posts its receive again.
func (t *tree) arrived(p *link, rx *receive) {
	vi := p.VI
	if t.dialed(); p.VI != vi { // p may have become connected with this, or has ended meanwhile
		return
	}
	kind := t.heard(p, rx.Data())
	if p.state >= Dead {
		return
	}
	if err := p.Repost(&rx.Buffer); err != nil {
		t.Fail(p.rank, err)
		return
	}
	if kind == sayReport || kind == sayPlaces || kind == sayBye {
		p.owed++
	}
}

// address returns where a rank listens; the zero address if that is not known.
func (t *tree) address(rank int) ethertype.Addr {
	return t.table[rank].addr
}
