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

// links are the Links of a Member: a VI to each other rank, or to those next to it in a tree
// (tree.go). A rank sends three messages at the most over each, so that receives posted once
// are enough: its Hello, one Report, and its word that it leaves.
type links struct {
	mu     sync.Mutex
	kicked atomic.Bool // attend has been told of what nobody has seen to yet
	closed bool
	job    *Job
	cfg    Config
	params [2]uint32
	nic    *vipl.NIC
	own    bool // we opened nic
	cq     *seam.Queue
	peers  []*link // by rank, nil for this rank
	err    error   // the first failure

	programs map[string]bool // that use the Member now
}

// link is the connection with another rank.
type link struct {
	channel.Channel
	rank   int
	state  State
	err    error // of a dead rank
	params [2]uint32
	addr   ethertype.Addr // of one without a VI, once it is known
	told   bool           // a Report has been sent
	sent   int            // messages
	recvs  [maxSends]receive
}

type receive = channel.Receive[struct{}]

const (
	maxSends    = 3
	messageSize = 1 + ReportMax
)

// What the first byte of a message says is behind it.
const (
	sayHello  = 'h' // a Hello
	sayReport = 'r' // a Report
	sayBye    = 'b' // nothing: the rank leaves in order
)

func (l *links) Lock()             { l.mu.Lock() }
func (l *links) Params() [2]uint32 { return l.params }
func (l *links) Err() error        { return l.err }

// Unlock implements Links.
func (l *links) Unlock() {
	l.mu.Unlock()
	l.seeTo()
}

// State implements Links. A rank that has no link with this one has come to the launcher's
// barrier, and this one waits for nothing from it.
func (l *links) State(rank int) State {
	if p := l.peers[rank]; p.state != Absent || l.linked(rank) {
		return p.state
	}
	return Live
}

// Open implements Links.
func (l *links) Open(rank int, connect time.Duration) (*vipl.VI, error) {
	p := l.peers[rank]
	err := channel.Open(&p.Channel, &channel.Config{
		NIC: l.nic, CQ: l.cq.CQ, Context: p, Size: messageSize, Sends: maxSends, Memory: make([]byte, 2*maxSends*messageSize),
		Attributes: vipl.Attributes{PeerTimeout: l.cfg.PeerTimeout, ConnectTimeout: max(connect, 1)},
	}, p.recvs[:])
	return p.VI, err
}

// Reset implements Links.
func (l *links) Reset(rank int) {
	l.peers[rank].Close()
	l.peers[rank] = &link{rank: rank}
}

// say sends a message to p, if p is connected.
func (l *links) say(p *link, kind byte, body []byte) {
	if p.VI == nil || p.state == Absent || p.state == Dead || p.sent == maxSends {
		return
	}
	p.sent++
	mem := p.Next()
	mem[0] = kind
	if err := p.Send(1 + copy(mem[1:], body)); err != nil {
		l.Fail(p.rank, err)
	}
}

// Greet implements Links. Where a launcher has told all ranks which run this is, two that
// connect know each other already, and neither says Hello.
func (l *links) Greet(rank int) {
	p := l.peers[rank]
	params, known := l.job.known[rank]
	if known {
		p.params, l.job.said[rank] = params, true
		if p.state == Absent {
			p.state = Live
		}
		return
	}
	if p.state != Absent {
		return // its first message has ended it already
	}
	p.state = Greeting
	if l.job.Said(rank) {
		p.state = Live
	}
	l.say(p, sayHello, l.job.hello())
}

// Tell implements Links. Each rank is told the first thing only.
func (l *links) Tell(r Report) {
	for _, p := range l.peers {
		if p != nil && p.state != Absent && !p.told && (p.rank != r.Rank || r.Twice()) {
			p.told = true
			l.say(p, sayReport, []byte(r.String()))
		}
	}
}

// Fail implements Links.
func (l *links) Fail(rank int, cause error) error {
	p := l.peers[rank]
	if p.state >= Dead {
		return p.err
	}
	p.state = Dead
	p.err = &RankError{Rank: rank, Err: cause}
	if l.err == nil {
		l.err = p.err
	}
	p.Disconnect()
	l.Tell(l.job.ReportOf(p.err))
	return p.err
}

// End implements Links.
func (l *links) End(err *DuplicateError) {
	if l.err == nil {
		l.err = err
	}
	l.Tell(l.job.ReportOf(err))
}

// Unacked implements Links.
func (l *links) Unacked() (n int) {
	for _, p := range l.peers {
		if p != nil && p.Busy > 0 && p.Connected() {
			n += p.Busy
		}
	}
	return n
}

// Step implements Links.
func (l *links) Step(ctx context.Context) error {
	seen := l.cq.Seen()
	l.Unlock()
	err := l.cq.WaitSince(ctx, 0, seen)
	l.Lock()
	l.handle(l.cq.Reap())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// handle sees to what has completed.
func (l *links) handle(done []seam.Completion) {
	for i := range done {
		c := &done[i]
		if c.Request != nil {
			l.job.Requested(c.Request)
			continue
		}
		p := c.VI.Context.(*link)
		if !c.Recv {
			p.Sent()
		}
		switch {
		case c.Descriptor.Status.Failed():
			l.Fail(p.rank, p.VI.Err())
		case c.Recv:
			l.heard(p, c.Descriptor.Context.(*receive).Data())
		}
	}
}
