package reliable

import (
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/vipl"
)

// channel is a VI to another rank, with its buffers.
type channel struct {
	mesh.End
	kind    int
	total   int // credits there are
	credit  int // requests that may be sent now
	done    int // requests without a reply that were done, of which the rank has not been told
	telling bool
	sending int // sends under way
	pending msg.Pending

	slab     vipl.MemHandle
	buffers  []byte       // to send from: total for requests, total for replies, one for special acknowledgements
	size     int          // of each
	requests []uint8      // buffers that are free
	replies  []uint8      // buffers that are free
	waiting  []*mesh.Recv // requests for whose replies there is no buffer free
}

// buffer returns the memory of a buffer.
func (c *channel) buffer(i uint8) []byte { return c.buffers[int(i)*c.size:][:c.size:c.size] }

// special returns the buffer for special acknowledgements.
func (c *channel) special() uint8 { return uint8(2 * c.total) }

// last returns the buffer that was freed last; there is one.
func last(free []uint8) uint8 { return free[len(free)-1] }

// bufferSize returns how long the buffers of a kind of channel are.
func bufferSize(kind int) int { return (msg.Size(kind) + 7) &^ 7 }

// slabSize returns how long those of a channel are together.
func slabSize(kind int) int { return (4*credits[kind] + specials + 1) * bufferSize(kind) }

// makeChannel makes the VI of a kind that is to be connected with a rank, and posts its
// receives.
func (l *Layer) makeChannel(rank, kind int) (*vipl.VI, error) {
	nic, n := l.NIC, credits[kind]
	c := &channel{End: mesh.End{Rank: rank}, kind: kind, total: n, credit: n, pending: msg.NewPending(n)}
	if l.peers[rank] == nil {
		l.peers[rank] = new(peer)
	}
	l.peers[rank][kind] = c
	vi, err := nic.CreateVI(&vipl.Attributes{Ptag: l.ptag, QueueDepth: 2*n + specials,
		PeerTimeout: l.PeerTimeout, ConnectTimeout: l.Timeout}, l.CQ, l.CQ)
	if err != nil {
		return nil, err
	}
	c.VI, vi.Context = vi, c
	c.size = bufferSize(kind)
	receives := make([]mesh.Recv, 2*n+specials)
	slab := l.slabs.Of(rank, kind)
	if c.slab, err = nic.RegisterMem(slab, &vipl.MemAttributes{Ptag: l.ptag}); err != nil {
		return nil, err
	}
	for i := range receives {
		receives[i].Init(slab[i*c.size:][:c.size:c.size], c.slab)
		if err := receives[i].Post(vi); err != nil {
			return nil, err
		}
	}
	c.buffers = slab[len(receives)*c.size:]
	free := make([]uint8, 2*n)
	for i := range free {
		free[i] = uint8(i)
	}
	c.requests, c.replies = free[:n:n], free[n:]
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

// post sends the first n bytes of a buffer, which say how many requests without replies are
// done, and behind them data that lie in the heap. Later leaves it to whoever polls next. If the
// connection has ended, the channel says so, and who asks this rank next hears of it.
func (l *Layer) post(c *channel, buffer uint8, n int, data []byte, later bool) {
	mem := c.buffer(buffer)
	mem[1] = byte(c.done)
	c.done = 0
	head := vipl.Segment{Data: mem[:n], Handle: c.slab}
	var err error
	if len(data) == 0 {
		err = l.PostSend(c.VI, int(buffer), later, head)
	} else if err = l.PostSend(c.VI, int(buffer), later, head, vipl.Segment{Data: data, Handle: l.heap}); err == nil {
		l.Count.Sources++
	}
	if err != nil {
		l.Broken(&c.End, err)
		c.release(buffer)
		return
	}
	c.sending++
}

// unheard returns how many requests without replies the rank has not said to be done: the
// others for which there is no credit wait for their replies.
func (c *channel) unheard() int { return c.total - c.credit - c.pending.Count() }

// release frees a buffer.
func (c *channel) release(buffer uint8) {
	switch {
	case buffer == c.special():
		c.telling = false
	case int(buffer) < c.total:
		c.requests = append(c.requests, buffer)
	default:
		c.replies = append(c.replies, buffer)
	}
}

// tell sends the special acknowledgement, if it is due.
func (l *Layer) tell(c *channel) {
	if c.done < c.total/4 || c.telling || c.Gone != nil {
		return
	}
	c.telling = true
	l.Did.Acknowledgments++
	mem := c.buffer(c.special())
	clear(mem[:msg.HeaderSize])
	mem[0] = msg.NoOp
	l.post(c, c.special(), msg.HeaderSize, nil, false)
}
