package mplite

import "github.com/bobnet-go/bobnet/internal/fifo"

// control is a control message that waits for a credit. Kind 0 stands for the
// RDMA write of req, which spends a control credit because its immediate data
// fills a receive.
type control struct {
	kind   kind
	tag    int32
	sendID uint32
	recvID uint32
	size   uint64
	target target
	req    *request

	context uint32
	body    []byte // of messages about collectives, and of a rank's failure
}

// controlQueue is what a peer is to be told as soon as there are credits. In it are at
// most a write for each request, word of each rank that has failed, an inquiry for each
// operation of a collective, word of each call that has failed, a withdrawal for each
// send that the program here has given up, and answers: as many as a congested peer has
// messages here, in receive buffers or spilled.
type controlQueue struct{ fifo.Queue[control] }

// withdraw puts word to the receiver that it will not be written to in the place
// of r's write, and reports whether that was still waiting.
func (q *controlQueue) withdraw(r *request) bool {
	for i := range q.Len() {
		if c := q.At(i); c.req == r {
			*c = control{kind: kindNack, recvID: r.remoteID}
			return true
		}
	}
	return false
}

// say sends a control message as soon as there is a credit for it. A rank that has left
// waits for this rank's goodbye, and for nothing else.
func (p *peer) say(c control) {
	if p.state >= peerDead && !(p.state == peerLeft && c.kind == kindBye) {
		return
	}
	p.pending.Push(c)
	p.pump()
}

// sendControl sends c, whose credit has been spent.
func (p *peer) sendControl(c control) {
	h := header{kind: c.kind, tag: c.tag, sendID: c.sendID, recvID: c.recvID, size: c.size, context: c.context}
	switch c.kind {
	case kindClear:
		var body [targetSize]byte
		c.target.put(body[:])
		p.post(&h, body[:])
	case kindHello:
		mine := p.w.hello()
		p.post(&h, mine[:])
	case kindFail:
		p.post(&h, c.body)
	default:
		p.post(&h, c.body[:min(len(c.body), p.eagerMax, p.w.cfg.EagerSize)])
	}
}
