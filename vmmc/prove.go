package vmmc

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// proofs holds requests for exports that only some users may import, until the directory has
// reported the asker's user. That takes seconds if no daemon knows the ticket. So the number of
// open questions of a node is limited, and nodes take turns: a node that shows invalid tickets
// delays only its own requests.
type proofs struct {
	nodes   map[ethertype.MAC]*nodeProofs
	turns   fifo.Queue[*nodeProofs] // nodes with waiting requests that may be asked about now
	waiting int                     // requests of all nodes
	open    int                     // questions without an answer
	asking  bool                    // a goroutine puts them
}

// nodeProofs is one node's part of proofs.
type nodeProofs struct {
	waiting fifo.Queue[unproven]
	open    int
	queued  bool // in turns
}

type unproven struct {
	r *provider.Request
	e *Export
}

const (
	maxProving     = 128 // questions at a time
	maxNodeProving = 16  // of one node's processes
)

// prove asks the directory for the asker's user, without the lock.
func (p *Process) prove(r *provider.Request, e *Export) {
	switch {
	case p.virtual: // virtual time has no other goroutines
		p.decide(r, e, 0, false)
		return
	case p.proofs.waiting >= maxAsked:
		p.via.Deny(r, provider.ReasonResource)
		return
	}
	p.proofs.push(unproven{r, e})
	p.proveMore()
}

// proveMore starts a goroutine that asks the permitted questions. The caller must hold the lock.
func (p *Process) proveMore() {
	if q := &p.proofs; !q.asking && !p.closed && q.ready() {
		q.asking = true
		go p.putQuestions()
	}
}

// putQuestions asks questions while any is permitted.
func (p *Process) putQuestions() {
	p.mu.Lock()
	for !p.closed && p.proofs.ready() {
		u, n := p.proofs.pop()
		if u.r.Gone {
			p.proofs.done(n, u.r.From.Addr.MAC)
			continue
		}
		p.unlock()
		p.dir.Prove(u.r.Ticket, u.r.From, func(uid uint32, proven bool) {
			p.mu.Lock()
			p.proofs.done(n, u.r.From.Addr.MAC)
			if !p.closed {
				p.decide(u.r, u.e, uid, proven)
			}
			p.proveMore()
			p.unlock()
		})
		p.mu.Lock()
	}
	p.proofs.asking = false
	p.unlock()
}

// push queues a request.
func (q *proofs) push(u unproven) {
	node := u.r.From.Addr.MAC
	n := q.nodes[node]
	if n == nil {
		if q.nodes == nil {
			q.nodes = map[ethertype.MAC]*nodeProofs{}
		}
		n = &nodeProofs{}
		q.nodes[node] = n
	}
	n.waiting.Push(u)
	q.waiting++
	q.queue(n)
}

// queue gives a node a turn, if permitted.
func (q *proofs) queue(n *nodeProofs) {
	if !n.queued && n.waiting.Len() > 0 && n.open < maxNodeProving {
		n.queued = true
		q.turns.Push(n)
	}
}

// ready reports whether a question may be asked.
func (q *proofs) ready() bool { return q.open < maxProving && q.turns.Len() > 0 }

// pop returns the next request. It is open until done.
func (q *proofs) pop() (unproven, *nodeProofs) {
	n := q.turns.Pop()
	n.queued = false
	u := n.waiting.Pop()
	q.waiting--
	q.open++
	n.open++
	q.queue(n)
	return u, n
}

// done ends a question of a node.
func (q *proofs) done(n *nodeProofs, node ethertype.MAC) {
	q.open--
	n.open--
	q.queue(n)
	if n.open == 0 && n.waiting.Len() == 0 {
		delete(q.nodes, node)
	}
}
