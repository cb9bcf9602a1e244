// Package channel is one end of a connection that carries messages: a VI, the buffers that its
// receives take, the buffers that its sends go from, and their memory. What connects the VI, what
// the messages say, and what a failure means is left to the owner. An owner may open a channel when
// it is first used: until then, and after a failed Open, it has no Room, and Disconnect and Close
// do what is left to do.
//
// The owner also counts credits, since a message that finds no receive ends a reliable connection.
// The owners do so in different ways, which no common code would make shorter:
//
//   - job sends three messages at most over a connection, and posts as many receives once.
//   - mplite returns credits with any message, from two pools, and withholds them from a rank
//     that it owes answers.
//   - the layers of splitc over VIs count requests, and a reply returns the credit.
//
// Other packages make their VIs themselves, because they need something else:
//
//   - stream writes into the reader's ring. Its receives have no memory, its sends have that of
//     the stage or of the caller, and memory outlives the VI while a Read or Write uses it. Its
//     credits are those of the ring (stream/internal/flow).
//   - endpoint/internal/vi has buffers of several sizes, which follow from the shape of the
//     connection. A send may run on into the buffers behind its own, and sends complete a buffer
//     that their caller has chosen.
//   - vmmc/internal/via gives up a VI when both sides have asked for a connection, and makes
//     another one over the same memory, which writes that wait refer to.
//   - vmmc/daemon sends or receives one message over a connection, without a completion queue.
package channel

import (
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// Buffer is the memory of one message, and its descriptor.
type Buffer struct {
	Desc vipl.Descriptor
	segs [1]vipl.Segment
}

// Init gives b its memory. Open does so for the buffers of a channel.
func (b *Buffer) Init(mem []byte, handle vipl.MemHandle, context any) {
	b.segs[0] = vipl.Segment{Data: mem, Handle: handle}
	b.Desc = vipl.Descriptor{Segs: b.segs[:], Context: context}
}

// Data returns the message that has come. It is there until the receive is posted again.
func (b *Buffer) Data() []byte { return b.segs[0].Data[:b.Desc.Length] }

// Receive is the buffer of a receive, and what its owner keeps with a message. The Receive is the
// Context of its descriptor.
type Receive[T any] struct {
	Buffer
	With T
}

// Channel is one end of a connection. Its methods must not be called at the same time. The zero
// Channel has not been opened.
type Channel struct {
	VI   *vipl.VI       // nil until Open
	Tag  vipl.Ptag      // of the VI and of all memory that goes through it
	Mem  vipl.MemHandle // of the memory of its buffers
	Busy int            // sends that are not acknowledged

	nic     *vipl.NIC
	private bool // Tag is this channel's own
	sends   []Buffer
	next    int    // of sends
	spare   []byte // memory for receives of Add
}

// Config says what Open makes.
type Config struct {
	NIC        *vipl.NIC
	CQ         *vipl.CQ // of sends and receives
	Attributes vipl.Attributes
	Context    any    // of the VI
	Private    bool   // a tag of its own, so that no other peer can write to memory of this one
	Size       int    // of a buffer, in bytes
	Sends      int    // buffers of sends
	More       int    // receives that Add can add
	Memory     []byte // of the buffers; nil: pages of its own
	Sparse     bool   // its own memory uses no huge pages: for many channels of which most carry little
}

// Open makes a channel, and posts its receives. Close gives back what Open has made, even if
// Open has failed.
func Open[T any](c *Channel, cfg *Config, receives []Receive[T]) (err error) {
	c.nic, c.private = cfg.NIC, cfg.Private
	attr := cfg.Attributes
	if c.private {
		if attr.Ptag, err = c.nic.CreatePtag(); err != nil {
			return err
		}
	}
	c.Tag = attr.Ptag
	vi, err := c.nic.CreateVI(&attr, cfg.CQ, cfg.CQ)
	if err != nil {
		return err
	}
	vi.Context = cfg.Context
	c.VI = vi
	mem := cfg.Memory
	if mem == nil {
		mem, c.Mem, err = c.nic.AllocMem((len(receives)+cfg.Sends+cfg.More)*cfg.Size, &vipl.MemAttributes{Ptag: c.Tag})
		if cfg.Sparse && err == nil {
			_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE) // fails on a kernel without huge pages
		}
	} else {
		c.Mem, err = c.nic.RegisterMem(mem, &vipl.MemAttributes{Ptag: c.Tag})
	}
	if err != nil {
		return err
	}
	c.sends = make([]Buffer, cfg.Sends)
	for i := range c.sends {
		c.sends[i].Init(mem[:cfg.Size:cfg.Size], c.Mem, nil)
		mem = mem[cfg.Size:]
	}
	c.spare = mem
	return Add(c, receives, cfg.Size)
}

// Add posts further receives of an open channel, whose buffers have size bytes. Config.More is how many there may be.
func Add[T any](c *Channel, receives []Receive[T], size int) error {
	for i := range receives {
		receives[i].Init(c.spare[:size:size], c.Mem, &receives[i])
		c.spare = c.spare[size:]
		if err := c.Repost(&receives[i].Buffer); err != nil {
			return err
		}
	}
	return nil
}

// Repost posts a receive of the channel again.
func (c *Channel) Repost(b *Buffer) error { return c.VI.PostRecv(&b.Desc) }

// Room reports whether a buffer for a send is free.
func (c *Channel) Room() bool { return c.Busy < len(c.sends) }

// Next returns the memory of the next send. There is Room.
func (c *Channel) Next() []byte {
	mem := c.sends[c.next].segs[0].Data
	return mem[:cap(mem)]
}

// Send sends the first n bytes of Next. The owner calls Sent when the send has completed.
func (c *Channel) Send(n int) error {
	b := &c.sends[c.next]
	b.segs[0].Data = b.segs[0].Data[:n]
	if err := c.VI.PostSend(&b.Desc); err != nil {
		return err
	}
	if c.next++; c.next == len(c.sends) {
		c.next = 0
	}
	c.Busy++
	return nil
}

// Sent takes back the buffer of the oldest send: sends complete in order. When none is under way,
// the first buffer is next, so that a connection which carries little uses memory of few.
func (c *Channel) Sent() {
	if c.Busy--; c.Busy == 0 {
		c.next = 0
	}
}

// Connected reports whether the VI is connected.
func (c *Channel) Connected() bool { return c.VI != nil && c.VI.State() == vipl.StateConnected }

// Disconnect ends the connection if there is a VI. Posted descriptors complete flushed.
func (c *Channel) Disconnect() {
	if c.VI != nil {
		c.VI.Disconnect()
	}
}

// Close ends the connection and frees all memory.
func (c *Channel) Close() {
	if c.VI != nil {
		c.VI.Close()
	}
	if c.Mem != 0 {
		c.nic.DeregisterMem(c.Mem)
	}
	if c.private && c.Tag != 0 {
		c.nic.DestroyPtag(c.Tag)
	}
}
