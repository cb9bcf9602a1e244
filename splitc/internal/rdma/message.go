package rdma

import (
	"context"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/vipl"
)

// Kinds of messages.
const (
	kindHello   = 1 + iota // a: handle of the heap, b: its address, c: its size
	kindCredits            // empty
	kindCall               // a: number of the call, b: procedure; arguments
	kindResult             // a: number of the call; result
	kindControl            // a control message of the upper side
)

// header is the beginning of a message:
//
//	offset  size  field
//	     0     1  kind
//	     1     1  0
//	     2     2  messages and stores of the receiver that the sender has processed
//	     4     4  0
//	     8     8  a
//	    16     8  b
//	    24     8  c
type header struct {
	kind    uint8
	a, b, c uint64
}

const headerSize = 32

func (h *header) put(b []byte, taken int) {
	le := binary.LittleEndian
	clear(b[:8])
	b[0] = h.kind
	le.PutUint16(b[2:], uint16(taken))
	le.PutUint64(b[8:], h.a)
	le.PutUint64(b[16:], h.b)
	le.PutUint64(b[24:], h.c)
}

// say sends a message. It waits for a credit and a slot.
func (l *Layer) say(ctx context.Context, p *peer, h header, data []byte) error {
	s, err := l.acquire(ctx, p, opMessage, true)
	if err != nil {
		return err
	}
	l.build(s, &h, data)
	return l.postOperation(s, 1)
}

// build builds a message in a slot with a copy of its data, and returns its length. The caller must
// have taken a credit.
func (l *Layer) build(s *slot, h *header, data []byte) int {
	p := s.p
	h.put(s.mem, p.taken)
	p.taken = 0
	n := headerSize + copy(s.mem[headerSize:], data)
	s.segs[0] = vipl.Segment{Data: s.mem[:n], Handle: s.home}
	s.desc = vipl.Descriptor{Op: vipl.OpSend, Context: s}
	return n
}

// append adds data to the message of n bytes in a slot, and returns the number of segments that it
// then has. Long data in the heap get a segment of their own; others are copied.
func (l *Layer) append(s *slot, n int, data []byte) (segs int) {
	if len(data) >= gather && l.InHeap(data) {
		s.segs[1] = vipl.Segment{Data: data, Handle: l.handle}
		return 2
	}
	s.segs[0].Data = s.mem[:n+copy(s.mem[n:], data)]
	return 1
}

// Call starts to run a procedure.
func (l *Layer) Call(ctx context.Context, proc int, fn uint32, args, result []byte) error {
	p := l.peers[proc]
	s, err := l.acquire(ctx, p, opMessage, true)
	if err != nil {
		return err
	}
	number := l.calls.begin(p, result)
	l.Count.Outstanding++
	l.Did.Requests++
	l.build(s, &header{kind: kindCall, a: number, b: uint64(fn)}, args)
	if err := l.postOperation(s, 1); err != nil {
		l.calls.end(number)
		l.Count.Outstanding--
		return err
	}
	return nil
}

// Control sends a control message.
func (l *Layer) Control(ctx context.Context, proc int, msg []byte) error {
	l.Did.Requests++
	return l.say(ctx, l.peers[proc], header{kind: kindControl}, msg)
}

// Gather implements layer.Gatherer.
func (l *Layer) Gather(ctx context.Context, proc int, msg, data []byte) error {
	s, err := l.acquire(ctx, l.peers[proc], opMessage, true)
	if err != nil {
		return err
	}
	l.Did.Requests++
	n := l.build(s, &header{kind: kindControl}, msg)
	return l.postOperation(s, l.append(s, n, data))
}

// tellCredits returns credits to a rank if many are due. It does not if so many results wait for a
// slot that the rank should rather not call again. It needs no credit.
func (l *Layer) tellCredits(p *peer) {
	if p.taken < due || p.telling || p.Gone != nil || p.credit > 0 && len(p.owed) >= due {
		return
	}
	p.telling = true
	h := header{kind: kindCredits}
	h.put(p.tell.mem, p.taken)
	p.taken = 0
	l.Did.Acknowledgments++
	p.tell.segs[0] = vipl.Segment{Data: p.tell.mem, Handle: p.tell.home}
	p.tell.desc = vipl.Descriptor{Op: vipl.OpSend, Context: &p.tell}
	l.post(&p.tell, 1)
}

// answer sends a result, at once or when there is room.
func (l *Layer) answer(p *peer, h header, data []byte) {
	l.Did.Replies++
	if len(p.owed) > 0 || p.credit == 0 || len(l.free) == 0 {
		p.owed = append(p.owed, reply{h, append([]byte(nil), data...)})
		return
	}
	l.reply(p, &h, data)
}

// reply sends a result, unless its rank has gone. There must be a slot and a credit.
func (l *Layer) reply(p *peer, h *header, data []byte) {
	if p.Gone != nil {
		return
	}
	if s, err := l.acquire(context.Background(), p, opMessage, true); err == nil {
		l.build(s, h, data)
		l.post(s, 1)
	}
}

// pay sends waiting results, as far as there is room.
func (l *Layer) pay(p *peer) {
	for len(p.owed) > 0 && p.credit > 0 && len(l.free) > 0 && p.Gone == nil && l.Err == nil {
		r := p.owed[0]
		p.owed = p.owed[1:]
		l.reply(p, &r.h, r.data)
		l.tellCredits(p)
	}
}

// calls are the procedures whose results this rank waits for. A call is identified by its place and
// the number of uses of the place, so that a late result is recognized.
type calls struct {
	all  []call
	free []uint32
}

type call struct {
	p      *peer
	result []byte
	use    uint32
}

func (c *calls) begin(p *peer, result []byte) uint64 {
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.all)))
		c.all = append(c.all, call{})
	}
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.all[i].p, c.all[i].result = p, result
	c.all[i].use++
	return uint64(i) | uint64(c.all[i].use)<<32
}

// find returns the call that a rank's result belongs to, or nil.
func (c *calls) find(p *peer, number uint64) *call {
	i := uint32(number)
	if int64(i) >= int64(len(c.all)) {
		return nil
	}
	if k := &c.all[i]; k.p == p && k.use == uint32(number>>32) {
		return k
	}
	return nil
}

func (c *calls) end(number uint64) {
	i := uint32(number)
	c.all[i].p, c.all[i].result = nil, nil
	c.free = append(c.free, i)
}

var _ layer.Gatherer = (*Layer)(nil)
