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

	slab vipl.MemHandle
	send [classes][]*send // by number
	held [classes][]*recv // what has come and is not processed, by number
	noOp *send

	posted int // sends whose completion was not taken
}

// send is a buffer to send from, which keeps its message until that is acknowledged.
type send struct {
	mem    []byte
	number uint32
	size   int
	posted bool
	segs   [1]vipl.Segment
	desc   vipl.Descriptor
}

// recv is a receive.
type recv struct {
	mem  []byte
	size int
	segs [1]vipl.Segment
	desc vipl.Descriptor
}

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
	size := (headSize + msg.Size(kind) + 7) &^ 7
	slab := make([]byte, (4*n+spare+1)*size)
	if c.slab, err = l.NIC.RegisterMem(slab, &vipl.MemAttributes{Ptag: l.ptag}); err != nil {
		return nil, err
	}
	cut := func() (mem []byte) {
		mem, slab = slab[:size:size], slab[size:]
		return mem
	}
	for class := range classes {
		for range n {
			c.send[class] = append(c.send[class], &send{mem: cut()})
		}
		c.held[class] = make([]*recv, n)
	}
	c.noOp = &send{mem: cut()}
	for range 2*n + spare {
		r := &recv{mem: cut()}
		r.segs[0] = vipl.Segment{Data: r.mem, Handle: c.slab}
		r.desc = vipl.Descriptor{Segs: r.segs[:], Context: r}
		if err := vi.PostRecv(&r.desc); err != nil {
			return nil, err
		}
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

// buffer returns the buffer for the next message of a class.
func (c *channel) buffer(class int) *send { return c.send[class][c.w.place(c.w.out[class].next)] }

// free reports whether the next message of a class may be sent.
func (c *channel) free(class int) bool { return !c.w.full(class) && !c.buffer(class).posted }

// room reports whether a request may be sent, and have a reply.
func (c *channel) room() bool { return c.free(request) && c.pending.Room() }

// post sends a message, for the first time or again, with what is processed by now. If the
// connection has ended, the channel says so, and who asks this rank next hears of it.
//
// Messages that are posted faster than this rank polls wait for each other, so that they
// share frames: the first two go at once, and then those that are a share of the window.
func (l *Layer) post(c *channel, s *send) {
	le := binary.LittleEndian
	ofRequests, ofReplies := c.w.acks()
	le.PutUint32(s.mem, s.number)
	le.PutUint32(s.mem[4:], ofRequests)
	le.PutUint32(s.mem[8:], ofReplies)
	s.mem[headSize+1] = 0
	s.segs[0] = vipl.Segment{Data: s.mem[:s.size], Handle: c.slab}
	s.desc = vipl.Descriptor{Segs: s.segs[:], Op: vipl.OpSend, Context: s, Later: c.posted >= 2 && (c.posted+1)%share != 0}
	if err := c.VI.PostSend(&s.desc); err != nil {
		l.Broken(&c.End, err)
		return
	}
	s.posted = true
	c.posted++
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
	if s := c.send[class][c.w.place(n)]; !s.posted {
		l.Did.Retransmissions++
		l.post(c, s)
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
	if c.noOp.posted || c.Gone != nil || !c.w.speaks(now) {
		return
	}
	l.Did.NoOps++
	m := c.noOp.mem
	clear(m[headSize:heldAt])
	m[headSize] = msg.NoOp
	for class, held := range c.w.holds(now) {
		binary.LittleEndian.PutUint64(m[heldAt+8*class:], held)
	}
	c.noOp.size = noOpSize
	l.post(c, c.noOp)
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
