package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/vipl"
)

// handleCompletion handles a completion.
func (l *Layer) handleCompletion(c *seam.Completion) {
	if s, sent := c.Descriptor.Context.(*slot); sent {
		l.sent(s, c.Err)
	} else if r, ok := c.Descriptor.Context.(*mesh.Recv); ok {
		l.received(c.VI.Context.(*peer), r, c.Err)
	}
}

// sent handles the end of a send.
func (l *Layer) sent(s *slot, err error) {
	p := s.p
	if err != nil {
		l.Broken(&p.End, err)
		if s.what != opTell && s.what != opAsk && s.what != opMessage {
			l.Lost(&p.End)
		}
	}
	switch s.what {
	case opGet:
		if err == nil && s.dst != nil {
			copy(s.dst, s.mem)
		}
		l.Count.Outstanding--
	case opPut:
		p.puts--
		l.Count.Outstanding--
	}
	l.release(s)
	l.tellCredits(p)
	for _, q := range l.peers {
		if q != nil && len(q.owed) > 0 {
			l.pay(q)
		}
	}
}

// received handles a message or a store, and posts the receive again.
func (l *Layer) received(p *peer, r *mesh.Recv, err error) {
	if err != nil {
		if l.Broken(&p.End, err); l.Count.Outstanding > 0 && l.calls.of(p) {
			l.Lost(&p.End)
		}
		return
	}
	if l.Closed {
		return
	}
	d := &r.Desc
	if d.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
		p.taken++
		if uint64(d.Immediate) > uint64(len(l.Memory)) {
			l.Garbled(&p.End)
		} else {
			l.Count.Stored += uint64(d.Immediate)
		}
	} else if !l.heard(p, r.Data()) {
		l.Garbled(&p.End)
	}
	l.Repost(&p.End, r)
	l.tellCredits(p)
	l.pay(p)
}

// of reports whether a call to a rank is in progress.
func (c *calls) of(p *peer) bool {
	for i := range c.all {
		if c.all[i].p == p {
			return true
		}
	}
	return false
}

// heard handles a message, and reports whether it is valid.
func (l *Layer) heard(p *peer, b []byte) bool {
	if len(b) < headerSize {
		return false
	}
	le := binary.LittleEndian
	h := header{kind: b[0], a: le.Uint64(b[8:]), b: le.Uint64(b[16:]), c: le.Uint64(b[24:])}
	back, data := int(le.Uint16(b[2:])), b[headerSize:]
	if p.credit+back > credits || h.kind != kindHello && p.size == 0 {
		return false
	}
	p.credit += back
	if h.kind == kindCredits {
		return len(data) == 0
	}
	p.taken++
	switch h.kind {
	case kindHello:
		if p.size != 0 || len(data) != 0 {
			return false
		}
		if h.c != uint64(len(l.Memory)) {
			l.Blame(&p.End, fmt.Errorf("%w: its heap has %d bytes, this rank's %d", layer.ErrUnequal, h.c, len(l.Memory)))
			return false
		}
		p.handle, p.base, p.size = vipl.MemHandle(h.a), h.b, h.c
		l.greets--
		return true
	case kindCall:
		return l.run(p, &h, data)
	case kindResult:
		return l.result(p, &h, data)
	case kindControl:
		l.Handler.Control(p.Rank, data)
		return true
	}
	return false
}

// run runs a procedure for a rank.
func (l *Layer) run(p *peer, h *header, args []byte) bool {
	if len(args) > layer.MaxCall || h.b > 1<<32-1 || len(p.owed) >= maxOwed {
		return false
	}
	n := l.Handler.Call(p.Rank, uint32(h.b), args, l.ran[:])
	l.answer(p, header{kind: kindResult, a: h.a}, l.ran[:n])
	return true
}

// result processes the result of a procedure.
func (l *Layer) result(p *peer, h *header, data []byte) bool {
	c := l.calls.find(p, h.a)
	if c == nil || len(data) > len(c.result) {
		return false
	}
	copy(c.result, data)
	l.calls.end(h.a)
	l.Count.Outstanding--
	return true
}
