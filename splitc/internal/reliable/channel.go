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
	requests []*send // that are free
	replies  []*send // that are free
	special  *send   // for special acknowledgements
	waiting  []*recv // requests for whose replies there is no buffer free
}

// send is a buffer to send from.
type send struct {
	mem  []byte
	segs [1]vipl.Segment
	desc vipl.Descriptor
	home *[]*send // where it belongs when it is free; nil for a special acknowledgement
}

// recv is a posted receive.
type recv struct {
	mem  []byte
	segs [1]vipl.Segment
	desc vipl.Descriptor
}

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
	size := (msg.Size(kind) + 7) &^ 7
	slab := make([]byte, (4*n+specials+1)*size)
	if c.slab, err = nic.RegisterMem(slab, &vipl.MemAttributes{Ptag: l.ptag}); err != nil {
		return nil, err
	}
	cut := func() (mem []byte) {
		mem, slab = slab[:size:size], slab[size:]
		return mem
	}
	for range 2*n + specials {
		r := &recv{mem: cut()}
		r.segs[0] = vipl.Segment{Data: r.mem, Handle: c.slab}
		r.desc = vipl.Descriptor{Segs: r.segs[:], Context: r}
		if err := vi.PostRecv(&r.desc); err != nil {
			return nil, err
		}
	}
	for range n {
		c.requests = append(c.requests, &send{mem: cut(), home: &c.requests})
		c.replies = append(c.replies, &send{mem: cut(), home: &c.replies})
	}
	c.special = &send{mem: cut()}
	c.waiting = make([]*recv, 0, n)
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

// post sends a message of n bytes, which says how many requests without replies are done.
// If the connection has ended, the channel says so, and who asks this rank next hears of it.
func (l *Layer) post(c *channel, s *send, n int) {
	s.mem[1] = byte(c.done)
	c.done = 0
	s.segs[0] = vipl.Segment{Data: s.mem[:n], Handle: c.slab}
	s.desc = vipl.Descriptor{Segs: s.segs[:], Op: vipl.OpSend, Context: s}
	if err := c.VI.PostSend(&s.desc); err != nil {
		l.Broken(&c.End, err)
		c.release(s)
		return
	}
	c.sending++
}

// unheard returns how many requests without replies the rank has not said to be done: the
// others for which there is no credit wait for their replies.
func (c *channel) unheard() int { return c.total - c.credit - c.pending.Count() }

// release frees a buffer.
func (c *channel) release(s *send) {
	if s.home == nil {
		c.telling = false
		return
	}
	*s.home = append(*s.home, s)
}

// tell sends the special acknowledgement, if it is due.
func (l *Layer) tell(c *channel) {
	if c.done < c.total/4 || c.telling || c.Gone != nil {
		return
	}
	c.telling = true
	l.Did.Acknowledgments++
	clear(c.special.mem[:msg.HeaderSize])
	c.special.mem[0] = msg.NoOp
	l.post(c, c.special, msg.HeaderSize)
}
