// Package channel implements one end of a connection that carries messages: a VI, its receive and
// send buffers, and their memory. The owner connects the VI, defines the messages, and handles
// failures. An owner may open a channel at its first use. Until then, and after a failed Open, the
// channel has no Room, and Disconnect and Close may be called.
//
// The owner also counts credits, because a message without a posted receive ends a reliable
// connection. The owners count them in different ways, so common code would not be shorter:
//
//   - job sends at most three messages over a connection, and posts three receives once.
//   - mplite returns credits with any message, from two pools. It withholds credits from a rank
//     while many answers to that rank are queued.
//   - The layers of splitc over VIs count requests, and a reply returns the credit.
//
// Other packages create their VIs themselves, because their requirements differ:
//
//   - stream writes into the reader's ring. Its receives have no memory, and its sends use the
//     memory of the stage or of the caller. This memory outlives the VI while a Read or Write uses
//     it. Its credits count bytes of the ring (stream/internal/flow).
//   - endpoint/internal/vi has buffers of several sizes, which depend on the shape of the
//     connection. A send may extend into the buffers after its own, and the caller chooses the
//     buffer of a send.
//   - vmmc/internal/via closes a VI if both sides have requested a connection, and creates another
//     VI over the same memory, to which waiting writes refer.
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

// Data returns the received message. It is valid until the receive is posted again.
func (b *Buffer) Data() []byte { return b.segs[0].Data[:b.Desc.Length] }

// Receive is the buffer of a receive, with data of the owner for its message. The Receive is the
// Context of its descriptor.
type Receive[T any] struct {
	Buffer
	With T
}

// Channel is one end of a connection. Its methods must not be called at the same time. The zero
// Channel has not been opened.
type Channel struct {
	VI   *vipl.VI       // nil until Open
	Tag  vipl.Ptag      // protection tag of the VI and of all memory that it transfers
	Mem  vipl.MemHandle // handle of the memory of the buffers
	Busy int            // number of sends that have not completed

	nic     *vipl.NIC
	private bool // Tag is this channel's own
	sends   []Buffer
	next    int    // index of the next send in sends
	spare   []byte // memory for the receives of Add
}

// Config describes the channel that Open creates.
type Config struct {
	NIC        *vipl.NIC
	CQ         *vipl.CQ // completion queue of sends and receives
	Attributes vipl.Attributes
	Context    any    // VI.Context
	Private    bool   // the channel gets a separate tag, so that no other peer can write to its memory
	Size       int    // size of a buffer in bytes
	Sends      int    // number of send buffers
	More       int    // number of receives that Add can add
	Memory     []byte // memory of the buffers, receives first; nil: Open allocates it
	Sparse     bool   // allocate no huge pages: for many channels with little traffic each
}

// Open creates a channel and posts its receives. Close releases everything that Open has created,
// even if Open has failed.
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

// Next returns the memory of the next send. The channel must have Room.
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

// Sent frees the buffer of the oldest send: sends complete in order. If no send is in progress, the
// first buffer is used next, so that a connection with little traffic uses the memory of few
// buffers.
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
