package msg

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/vipl"
)

// Scheme configures a layer with two VIs for each pair of ranks, for short and for medium messages.
type Scheme struct {
	Name        string
	Reliability reliability.Level // of the VIs
	Credits     [Channels]int     // requests in flight to a rank, and as many replies
	Spare       int               // receives for messages that need no credit
	Head        int               // bytes in front of each message that belong to the flow
	Gather      bool              // send data in the heap in place
	Flow        func(l *Layer, c *Channel) Flow
}

// Flow controls when messages are sent over a channel, and handles received ones. Layers differ in
// their Flow.
type Flow interface {
	// Room reports whether a request may be sent now, and may get a reply.
	Room() bool
	// Request returns the memory for the next request. Room must have returned true.
	Request() []byte
	// Send sends the first n bytes of the result of Request, followed by data. While it needs data
	// in place, they count in Counters.Sources.
	Send(n int, data []byte)
	// Sent handles the completion of a send from a buffer.
	Sent(buffer int, err error)
	// Received handles a message. The receive belongs to the flow until the flow posts it again.
	Received(r *mesh.Recv)
	// Quiet reports whether nothing is in flight that Close should wait for.
	Quiet() bool
}

// Channel is a VI to another rank with its buffers: two for each credit, and one more.
type Channel struct {
	mesh.End
	Kind    int     // Short or Medium
	Sending int     // sends whose completions have not been processed
	Pending Pending // operations that wait for replies
	flow    Flow
	buffers []byte
	size    int // of a buffer
}

// Buffer returns the memory of a buffer.
func (c *Channel) Buffer(i int) []byte { return c.buffers[i*c.size:][:c.size:c.size] }

// bufferSize returns the size of the buffers of a kind of channel.
func (s *Scheme) bufferSize(kind int) int { return (s.Head + Size(kind) + 7) &^ 7 }

// receives returns the number of receives of a kind of channel, and buffers the number of buffers.
func (s *Scheme) receives(kind int) int { return 2*s.Credits[kind] + s.Spare }
func (s *Scheme) buffers(kind int) int  { return 2*s.Credits[kind] + 1 }

// New returns a layer that is not connected. The caller must close it.
func New(cfg layer.Config, scheme *Scheme) (l *Layer, err error) {
	l = &Layer{Base: mesh.Base{Config: cfg, Name: scheme.Name}, scheme: scheme, channels: make([][Channels]*Channel, cfg.Procs),
		corks: make([]cork, cfg.Procs), corked: make([]int, 0, cfg.Procs)}
	l.Take, l.Service = l.handleCompletion, l.SendHeld
	entries := 0
	var slabs [Channels]int
	for kind := range Channels {
		n := scheme.receives(kind) + scheme.buffers(kind)
		entries += (cfg.Procs - 1) * n
		slabs[kind] = n * scheme.bufferSize(kind)
	}
	l.slabs = mesh.NewSlabs(cfg.Procs, slabs[:]...)
	if err = l.Begin(entries); err != nil {
		return l, err
	}
	if l.ptag, err = l.NIC.CreatePtag(); err == nil && scheme.Gather {
		l.heap, err = l.NIC.RegisterMem(l.Memory, &vipl.MemAttributes{Ptag: l.ptag})
	}
	return l, err
}

// Open returns a layer that is connected with all ranks.
func Open(ctx context.Context, cfg layer.Config, scheme *Scheme) (*Layer, error) {
	l, err := New(cfg, scheme)
	if err == nil {
		_, l.Did.Strays, err = mesh.Connect(ctx, mesh.Config{Config: cfg, Name: scheme.Name, Kinds: Channels, Make: l.MakeChannel})
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// MakeChannel creates the VI of a kind for a rank, and posts its receives.
func (l *Layer) MakeChannel(rank, kind int) (*vipl.VI, error) {
	s, receives := l.scheme, make([]mesh.Recv, l.scheme.receives(kind))
	c := &Channel{End: mesh.End{Rank: rank}, Kind: kind, Pending: NewPending(s.Credits[kind]), size: s.bufferSize(kind)}
	c.flow = s.Flow(l, c)
	l.channels[rank][kind] = c
	slab := l.slabs.Of(rank, kind)
	c.buffers = slab[len(receives)*c.size:]
	err := l.OpenEnd(&c.End, c, vipl.Attributes{Reliability: s.Reliability, Ptag: l.ptag, QueueDepth: len(receives)}, slab, receives, c.size)
	return c.VI, err
}

// Close waits a short time until the last messages have left, and releases everything.
func (l *Layer) Close() {
	l.Leave(l.Quiet)
	for _, channels := range l.channels {
		for _, c := range channels {
			if c != nil {
				c.End.Close()
			}
		}
	}
	if l.heap != 0 {
		l.NIC.DeregisterMem(l.heap)
	}
	if l.ptag != 0 {
		l.NIC.DestroyPtag(l.ptag)
	}
	l.Free()
}

// Quiet reports whether all live channels are quiet.
func (l *Layer) Quiet() bool {
	for _, channels := range l.channels {
		for _, c := range channels {
			if c != nil && c.Gone == nil && !c.flow.Quiet() {
				return false
			}
		}
	}
	return true
}

// room waits until a request may be sent to a rank over a channel. It returns the channel, and
// Size(kind) bytes of memory to build the request in.
func (l *Layer) room(ctx context.Context, proc, kind int) ([]byte, *Channel, error) {
	c := l.channels[proc][kind]
	if !c.flow.Room() {
		if err := l.Await(ctx, &c.End, c.flow.Room); err != nil {
			return nil, nil, err
		}
	}
	if l.Err != nil {
		return nil, nil, l.Err
	}
	if c.Gone != nil {
		return nil, nil, l.Lost(&c.End)
	}
	return c.flow.Request(), c, nil
}

// send sends a request: the first n bytes of the result of room, followed by data.
func (l *Layer) send(c *Channel, n int, data []byte) error {
	l.Did.Requests++
	if c.flow.Send(n, data); c.Gone != nil {
		return l.Lost(&c.End)
	}
	return nil
}

// Post sends the first n bytes of a buffer, followed by data that lie in the heap. If later is set,
// the message may wait for the next poll. Post returns false if the connection has ended; the next
// call that needs the rank returns the error.
func (l *Layer) Post(c *Channel, buffer, n int, data []byte, later bool) bool {
	head := vipl.Segment{Data: c.Buffer(buffer)[:n], Handle: c.Mem}
	var err error
	if len(data) == 0 {
		err = l.PostSend(c.VI, buffer, later, head)
	} else if err = l.PostSend(c.VI, buffer, later, head, vipl.Segment{Data: data, Handle: l.heap}); err == nil {
		l.Count.Sources++
	}
	if err != nil {
		l.Broken(&c.End, err)
		return false
	}
	c.Sending++
	return true
}

// handleCompletion handles a completion.
func (l *Layer) handleCompletion(done *seam.Completion) {
	c, ok := done.VI.Context.(*Channel)
	if !ok {
		return
	}
	if done.Err != nil {
		if l.Broken(&c.End, done.Err); c.Pending.Any() {
			l.Lost(&c.End)
		}
	}
	if s, sent := done.Descriptor.Context.(*mesh.Send); sent {
		c.Sending--
		if s.Gathered() {
			l.Count.Sources--
		}
		c.flow.Sent(l.Sent(s), done.Err)
	} else if done.Err == nil {
		c.flow.Received(done.Descriptor.Context.(*mesh.Recv))
	}
}
