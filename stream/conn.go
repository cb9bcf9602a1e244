package stream

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

// Conn is one end of a stream, a net.Conn. Goroutines may share it. Concurrent reads run one after
// the other, and so do concurrent writes.
type Conn struct {
	host          *Host
	nic           *vipl.NIC
	local, remote Addr

	reading, writing sync.Mutex // held by one Read, one Write; taken before mu

	// kicked means that completions wait to be processed. A goroutine that finds mu locked sets it,
	// and the goroutine that unlocks mu checks it.
	kicked atomic.Bool
	kick   func() // of Attend, made once

	mu sync.Mutex // guards what follows, and all memory of the connection
	vi *vipl.VI
	cq *seam.Queue

	rx    rxSide
	tx    txSide
	stats Stats

	readLimit, writeLimit int64 // deadlines, on the NIC's clock; 0 for none

	greeted  bool  // the other end's ring is known
	attended bool  // a function is called when there are completions
	closed   bool  // by the user
	torn     bool  // the VI is closed; the memory is freed when no goroutine uses it
	holds    int   // goroutines that use memory of the connection without mu
	err      error // why the connection has ended
}

// rxSide is the ring that the other end writes to, with the posted receives for its messages.
type rxSide struct {
	flow.Receiver
	ring   []byte
	handle vipl.MemHandle
	recvs  []vipl.Descriptor
	writes uint64 // value of the stream's Writes when the last Read returned
	recent int    // its result, or half of this value before it if that is more
}

// txSide is the sending side of the stream.
type txSide struct {
	flow.Sender
	stage     flow.Stage
	buf       []byte // the stage's
	greeting  []byte // this end's, followed by the other end's
	handle    vipl.MemHandle
	tag       vipl.Ptag // of the VI and of all memory of the connection
	peer      vipl.RemoteSegment
	free      []*txDesc
	busy      int  // posted and not completed
	messages  int  // of these, with data
	direct    int  // of these, from the memory of a Write
	ending    bool // send the end of the stream once all is posted
	coalesced int  // writes since data were last held back to be sent together
	rapid     bool // the last coalesced message combined many writes
}

// txDesc is a send descriptor, and what its completion releases.
type txDesc struct {
	vipl.Descriptor
	segs   [1]vipl.Segment
	staged int // bytes of the stage that it sends
	data   bool
	direct bool
}

const (
	reapBatch = 32
	// txDescs limits the messages of a stream on the send queue, and dataDescs those with data.
	txDescs   = 32
	dataDescs = txDescs - flow.Reserve
)

var _ net.Conn = (*Conn)(nil)

// LocalAddr returns the address of this end, an Addr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end, an Addr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// lock locks mu.
func (c *Conn) lock() { c.mu.Lock() }

// unlock unlocks mu. It then processes completions for goroutines that found mu locked.
func (c *Conn) unlock() {
	c.mu.Unlock()
	for c.kicked.Load() && c.mu.TryLock() {
		c.attend()
		c.mu.Unlock()
	}
}

// completed is called by the engine when there are completions that no goroutine may be waiting
// for. The calling goroutine may already hold mu.
func (c *Conn) completed() {
	c.kicked.Store(true)
	if c.mu.TryLock() {
		c.attend()
		c.unlock()
	}
}

// attend handles completions, and sends what was deferred until they arrived.
func (c *Conn) attend() {
	c.kicked.Store(false)
	if c.torn {
		return
	}
	c.reap()
	if c.attended && !c.owes() {
		c.attended = false
		c.cq.Attend(nil)
	}
}

// leave is called before a call of the user returns. It arranges that completions trigger the
// sending of deferred data and credit.
func (c *Conn) leave() {
	if c.owes() && !c.attended && !c.torn && c.err == nil {
		c.attended = true
		c.cq.Attend(c.kick)
	}
}

// owes reports whether the stream has data or credit that could not be sent yet.
func (c *Conn) owes() bool {
	return c.tx.stage.Unposted() > 0 || c.tx.ending && !c.tx.Ended() || c.rx.Due()
}

// fail ends the connection with the error err.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = brokenBy(err)
	}
}
