package job

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/sparse"
	"github.com/bobnet-go/bobnet/vipl"
)

// tree is the Links of a Member: a VI to each neighbour in a tree (tree.go). Over each link a rank
// sends its hello, reports and places (told.go), and at the end its goodbye. It sends one such
// message at a time, and waits until the other rank has answered it. It answers each such message
// of the other rank. So a few receives are sufficient.
type tree struct {
	mu     sync.Mutex
	kicked atomic.Bool // the NIC has called attend's function, and no goroutine has handled the completions
	closed bool
	job    *membership
	cfg    Config
	params [2]uint32
	nic    *vipl.NIC
	own    bool // this member opened nic
	cq     *seam.Queue
	peers  sparse.Table[link] // by rank; nil for this rank, and for ranks that were never contacted
	near   []*link            // links that have or had a VI
	err    error              // the first failure
	deaths int                // ranks that have failed
	marks  uint32             // sum of their marks (mark)

	table   []place          // by rank
	places  []arrival        // known places, in the order of arrival
	reports []joining.Report // reports, in the order of arrival

	up      int     // the rank above in the tree; -1 if none
	silent  int     // how many possible ranks above to ask at once
	dialing []*link // connection attempts since the job has started

	leaving, parted bool // this rank leaves; all ranks leave
	ended           bool // End was called
	ending          bool // this rank leaves Meet without the others

	programs map[string]bool // programs that use the Member now
	events   events          // for the program that connects on first use
}

// link is the connection with another rank.
type link struct {
	channel.Channel
	rank   int
	state  joining.State
	err    error // of a dead rank
	caller bool  // this rank requested the connection

	reports  int     // number of tree.reports already sent
	places   int     // number of tree.places already processed
	placesAt int64   // when the last of these were sent
	bye      leavers // last value sent
	open     bool
	owed     int // answers to send

	left  leavers // ranks that leave: this one and those below it
	tries int     // connection attempts that it has refused
	recvs []receive
}

type receive = channel.Receive[struct{}]

const (
	linkReceives = 4 // a hello, the last goodbye, one forwarded message, one answer
	linkSends    = 8
	messageSize  = 1 + placesMost*placeSize
)

// The first byte of a message: its kind.
const (
	sayHello  = 'h' // a hello
	sayReport = 'r' // a Report
	sayPlaces = 'p' // places of ranks
	sayAnswer = 'a' // empty: the last forwarded message has been handled
	sayBye    = 'b' // the number of ranks that leave in order (leavers), or empty: all leave
)

func (t *tree) Lock()             { t.mu.Lock() }
func (t *tree) Params() [2]uint32 { return t.params }
func (t *tree) Err() error        { return t.err }

// Unlock implements joining.Links.
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
	p := t.peers.At(rank)
	if p == nil {
		p = &link{rank: rank}
		t.peers.Set(rank, p)
	}
	return p
}

// State implements joining.Links. A rank without a link to this one counts as Live if its address is known.
func (t *tree) State(rank int) joining.State {
	switch p := t.peers.At(rank); {
	case p != nil && p.state != joining.Absent:
		return p.state
	case t.linked(rank) || t.table[rank].addr.IsZero():
		return joining.Absent
	}
	return joining.Live
}

// Open implements joining.Links.
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

// Reset implements joining.Links.
func (t *tree) Reset(rank int) {
	if p := t.peers.At(rank); p != nil {
		t.forgetLink(p)
		p.Close()
	}
	t.peers.Set(rank, nil)
}

// say sends a message to p, if p is connected.
func (t *tree) say(p *link, kind byte, body []byte) {
	if p.VI == nil || p.state == joining.Absent || p.state == joining.Dead || !p.Room() {
		return
	}
	mem := p.Next()
	mem[0] = kind
	if err := p.Send(1 + copy(mem[1:], body)); err != nil {
		t.Fail(p.rank, err)
	}
}

// Greet implements joining.Links. If a launcher has told all ranks which run this is, two ranks that
// connect know each other already, and neither sends a hello.
func (t *tree) Greet(rank int) {
	p := t.peer(rank)
	if _, known := t.job.known[rank]; known {
		t.job.said[rank] = true
		if p.state == joining.Absent {
			p.state = joining.Live
		}
		t.pass(p)
		return
	}
	if p.state != joining.Absent {
		return // its first message has already ended it
	}
	p.state = joining.Greeting
	if t.job.Said(rank) {
		p.state = joining.Live
	}
	t.say(p, sayHello, t.job.Hello())
	t.pass(p)
}

// Tell implements joining.Links.
func (t *tree) Tell(r joining.Report) {
	t.reports = append(t.reports, r)
	t.passAll()
}

// Fail implements joining.Links.
func (t *tree) Fail(rank int, cause error) error {
	p := t.peer(rank)
	if p.state >= joining.Dead {
		return p.err
	}
	p.state = joining.Dead
	p.err = &RankError{Rank: rank, Err: cause}
	t.deaths++
	t.marks += mark(rank)
	if t.err == nil {
		t.err = p.err
	}
	p.Disconnect()
	if !t.ending || told(cause) { // otherwise p may have closed the connection because this rank ends
		t.Tell(t.job.ReportOf(p.err))
	}
	t.events.died(rank, p.err)
	t.repair()
	t.part()
	return p.err
}

// End implements joining.Links.
func (t *tree) End(err error) {
	if t.ended {
		return // the report has been sent, and has returned from its receiver
	}
	t.ended = true
	if t.err == nil {
		t.err = err
	}
	t.Tell(t.job.ReportOf(err))
}

// Unacked implements joining.Links. It also counts reports that wait for an answer to the previous one.
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

// Step implements joining.Links.
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

// handle handles completions.
func (t *tree) handle(done []seam.Completion) {
	for i := range done {
		c := &done[i]
		if c.Request != nil {
			t.job.Requested(c.Request)
			continue
		}
		p := c.VI.Context.(*link)
		if p.VI != c.VI {
			continue // from an attempt that was cancelled
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

// arrived handles a message, and reposts its receive.
func (t *tree) arrived(p *link, rx *receive) {
	vi := p.VI
	if t.dialed(); p.VI != vi { // dialed may have connected or closed p
		return
	}
	kind := t.heard(p, rx.Data())
	if p.state >= joining.Dead {
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

// address returns where a rank listens, or the zero address if unknown.
func (t *tree) address(rank int) ethertype.Addr {
	return t.table[rank].addr
}
