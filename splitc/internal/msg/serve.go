package msg

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Serve executes a request of a rank. It builds the reply, if there is one, and returns its length.
// reply has room for the longest message of the channel. Serve returns false for a malformed
// request.
func (l *Layer) Serve(from, channel int, m, reply []byte) (n int, ok bool) {
	le := binary.LittleEndian
	if len(m) < HeaderSize {
		return 0, false
	}
	kind, data := m[0], m[HeaderSize:]
	if kind == Control {
		if len(data) > layer.MaxControl {
			return 0, false
		}
		l.Handler.Control(from, data)
		return 0, true
	}
	if kind == Stores {
		return 0, l.stores(data)
	}
	if HasReply(kind) {
		copy(reply[2:HeaderSize], m[2:])
		l.Did.Replies++
	}
	if kind == Call {
		if len(data) < 4 || len(data) > 4+layer.MaxCall || channel != Medium {
			return 0, false
		}
		reply[0] = Result
		n := l.Handler.Call(from, le.Uint32(data), data[4:], l.result[:])
		return HeaderSize + copy(reply[HeaderSize:], l.result[:n]), true
	}
	if len(data) < 8 {
		return 0, false
	}
	off, data := le.Uint64(data), data[8:]
	switch kind {
	case Get:
		if len(data) != 4 || int64(le.Uint32(data)) > int64(longest(channel)) {
			return 0, false
		}
		return l.read(reply, off, int(le.Uint32(data))), true
	case Put:
		return l.put(reply, off, data), true
	case Store:
		l.store(off, data)
		return 0, true
	}
	return 0, false
}

// read builds the reply to a get.
func (l *Layer) read(reply []byte, off uint64, n int) int {
	if !layer.Within(len(l.Memory), off, n) {
		return l.refuse(reply)
	}
	reply[0] = Got
	return HeaderSize + copy(reply[HeaderSize:], l.Memory[off:][:n])
}

// put performs a put and builds its reply.
func (l *Layer) put(reply []byte, off uint64, data []byte) int {
	if !layer.Within(len(l.Memory), off, len(data)) {
		return l.refuse(reply)
	}
	copy(l.Memory[off:], data)
	reply[0] = PutDone
	return HeaderSize
}

// refuse builds the reply to a request that is refused.
func (l *Layer) refuse(reply []byte) int {
	l.Did.Refused++
	reply[0] = Refused
	return HeaderSize
}

// Replied processes a reply to an operation of a channel. It returns false if m is not a reply to
// any of them. If the rank has refused the operation, Replied fails the rank.
func (l *Layer) Replied(c *Channel, m []byte) (ok bool) {
	id, data := binary.LittleEndian.Uint16(m[2:]), m[HeaderSize:]
	op := c.Pending.find(id)
	if op == nil {
		return false
	}
	switch m[0] {
	case Got:
		ok = op.kind == Get && len(data) == len(op.dst)
	case PutDone:
		ok = op.kind == Put && len(data) == 0
	case Result:
		ok = op.kind == Call && len(data) <= len(op.dst)
	case Refused:
		ok = op.kind != Call && len(data) == 0
	}
	if !ok {
		return false
	}
	if m[0] == Refused {
		l.Blame(&c.End, errRefused)
	}
	copy(op.dst, data)
	c.Pending.end(id)
	l.Count.Outstanding--
	l.Answered = true
	return true
}

// Pending are the operations of a channel that wait for replies: at most as many as there are
// credits.
type Pending struct {
	ops  []operation
	free []uint16
}

type operation struct {
	kind byte
	dst  []byte
}

// NewPending returns a Pending with room for n operations.
func NewPending(n int) Pending {
	p := Pending{ops: make([]operation, n), free: make([]uint16, 0, n)}
	for i := range n {
		p.free = append(p.free, uint16(i))
	}
	return p
}

// Count returns the number of operations.
func (p *Pending) Count() int { return len(p.ops) - len(p.free) }

// Any reports whether there is an operation.
func (p *Pending) Any() bool { return p.Count() > 0 }

// Room reports whether one more fits.
func (p *Pending) Room() bool { return len(p.free) > 0 }

func (p *Pending) begin(kind byte, dst []byte) uint16 {
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.ops[id] = operation{kind, dst}
	return id
}

func (p *Pending) find(id uint16) *operation {
	if int(id) >= len(p.ops) || p.ops[id].kind == 0 {
		return nil
	}
	return &p.ops[id]
}

func (p *Pending) end(id uint16) {
	p.ops[id] = operation{}
	p.free = append(p.free, id)
}
