package unreliable

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/vipl"
)

// headSize is the length of what comes before the message in a frame.
const headSize = 12

// channel is a VI to another rank, with its window and its buffers.
type channel struct {
	mesh.End
	kind    int
	w       window
	pending msg.Pending

	slab    vipl.MemHandle
	buffers []byte                // the memory to send from
	size    int                   // of each buffer
	send    []send                // those of requests by number, those of replies, that of no-op replies
	held    [classes][]*mesh.Recv // what has come and is not processed, by number

	posted int // sends whose completion was not taken
}

// send is a buffer to send from, which keeps its message until that is acknowledged.
type send struct {
	number uint32
	size   uint16
	posted bool
}

// bufferSize returns how long the buffers of a kind of channel are.
func bufferSize(kind int) int { return (headSize + msg.Size(kind) + 7) &^ 7 }

// slabSize returns how long those of a channel are together.
func slabSize(kind int) int { return (4*credits[kind] + spare + 1) * bufferSize(kind) }

// makeChannel makes the VI of a kind that is to be connected with a rank, and posts its
// receives.
func (l *Layer) makeChannel(rank, kind int) (*vipl.VI, error) {
	n := credits[kind]
	c := &channel{End: mesh.End{Rank: rank}, kind: kind, w: newWindow(n), pending: msg.NewPending(n)}
	if l.peers[rank] == nil {
		l.peers[rank] = new(peer)
	}
	l.peers[rank][kind] = c
	vi, err := l.NIC.CreateVI(&vipl.Attributes{Reliability: reliability.Unreliable, Ptag: l.ptag, QueueDepth: 2*n + spare,
		PeerTimeout: l.PeerTimeout, ConnectTimeout: l.Timeout}, l.CQ, l.CQ)
	if err != nil {
		return nil, err
	}
	c.VI, vi.Context = vi, c
	c.size = bufferSize(kind)
	c.send = make([]send, classes*n+1)
	receives := make([]mesh.Recv, 2*n+spare)
	slab := l.slabs.Of(rank, kind)
	if c.slab, err = l.NIC.RegisterMem(slab, &vipl.MemAttributes{Ptag: l.ptag}); err != nil {
		return nil, err
	}
	for i := range receives {
		receives[i].Init(slab[i*c.size:][:c.size:c.size], c.slab)
		if err := receives[i].Post(vi); err != nil {
			return nil, err
		}
	}
	c.buffers = slab[len(receives)*c.size:]
	for class := range classes {
		c.held[class] = make([]*mesh.Recv, n)
	}
	return vi, nil
}

// close gives back what makeChannel took.
func (c *channel) close(nic *vipl.NIC) {
	if c.VI != nil {
		c.VI.Close()
	}
	if c.slab != 0 {
		nic.DeregisterMem(c.slab)
	}
}

// buffer returns the buffer of a message of a class.
func (c *channel) buffer(class int, number uint32) int {
	return class*int(c.w.size) + c.w.place(number)
}

// next returns the buffer for the next message of a class.
func (c *channel) next(class int) int { return c.buffer(class, c.w.out[class].next) }

// noOp returns the buffer for no-op replies.
func (c *channel) noOp() int { return len(c.send) - 1 }

// mem returns the memory of a buffer.
func (c *channel) mem(buffer int) []byte { return c.buffers[buffer*c.size:][:c.size:c.size] }

// free reports whether the next message of a class may be sent.
func (c *channel) free(class int) bool { return !c.w.full(class) && !c.send[c.next(class)].posted }

// room reports whether a request may be sent, and have a reply.
func (c *channel) room() bool { return c.free(request) && c.pending.Room() }

// post sends what a buffer has, for the first time or again, with what is processed by now. If the
// connection has ended, the channel says so, and who asks this rank next hears of it.
//
// Messages that are posted faster than this rank polls wait for each other, so that they
// share frames: the first two go at once, and then those that are a share of the window. So do
// those that are for later.
func (l *Layer) post(c *channel, buffer int, later bool) {
	le, s := binary.LittleEndian, &c.send[buffer]
	mem := c.mem(buffer)[:s.size]
	ofRequests, ofReplies := c.w.acks()
	le.PutUint32(mem, s.number)
	le.PutUint32(mem[4:], ofRequests)
	le.PutUint32(mem[8:], ofReplies)
	mem[headSize+1] = 0
	if err := l.PostSend(c.VI, buffer, later || c.posted >= 2 && (c.posted+1)%share != 0, vipl.Segment{Data: mem, Handle: c.slab}); err != nil {
		l.Broken(&c.End, err)
		return
	}
	s.posted = true
	c.posted++
}

// first sends the next message of a class, of n bytes behind its head, for the first time.
func (l *Layer) first(c *channel, class, n int, now int64) {
	buffer := c.next(class)
	s := &c.send[buffer]
	s.number, s.size = c.w.add(class, now), uint16(headSize+n)
	l.post(c, buffer, class == reply && l.GoesOn())
}

// share is how many messages that are posted together go together.
const share = 16

// service sends again what is due, and the no-op reply.
func (l *Layer) service(c *channel, now int64) {
	l.advance(c)
	for class := range classes {
		for n, ok := c.w.overdue(class, c.w.out[class].first, now); ok && c.Gone == nil; n, ok = c.w.overdue(class, n+1, now) {
			l.again(c, class, n)
		}
	}
	l.speak(c, now)
}

// again sends a message again.
func (l *Layer) again(c *channel, class int, n uint32) {
	if buffer := c.buffer(class, n); !c.send[buffer].posted {
		l.Did.Retransmissions++
		l.post(c, buffer, false)
	}
}

// A no-op reply has behind its head which messages its sender holds, those of each class as a
// word: bit i is of the message i after the one that is acknowledged.
const (
	heldAt   = headSize + msg.HeaderSize
	noOpSize = heldAt + 8*classes
)

// speak sends the no-op reply, if it is due.
func (l *Layer) speak(c *channel, now int64) {
	s := &c.send[c.noOp()]
	if s.posted || c.Gone != nil || !c.w.speaks(now) {
		return
	}
	l.Did.NoOps++
	m := c.mem(c.noOp())
	clear(m[headSize:heldAt])
	m[headSize] = msg.NoOp
	for class, held := range c.w.holds(now) {
		binary.LittleEndian.PutUint64(m[heldAt+8*class:], held)
	}
	s.size = noOpSize
	l.post(c, c.noOp(), false)
}

// repair sends again what a no-op reply, which may be anything, says to be missing.
func (l *Layer) repair(c *channel, m []byte) {
	if len(m) < noOpSize {
		return
	}
	le := binary.LittleEndian
	for class := range classes {
		base, held := le.Uint32(m[4+4*class:]), le.Uint64(m[heldAt+8*class:])
		for n, ok := c.w.missing(class, base, held, base, l.Clock); ok && c.Gone == nil; n, ok = c.w.missing(class, base, held, n+1, l.Clock) {
			l.again(c, class, n)
		}
	}
}
