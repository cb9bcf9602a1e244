package stream

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

// Conn is one end of a stream, a net.Conn. Goroutines may share it: reads take turns, and
// so do writes.
type Conn struct {
	host          *Host
	nic           *vipl.NIC
	local, remote Addr

	reading, writing sync.Mutex // held by one Read, one Write; taken before mu

	// kicked says that completions wait which nobody has seen to. It is set by who finds mu
	// taken, and looked at by who releases it.
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
	attended bool  // somebody is called when there are completions
	closed   bool  // by the user
	torn     bool  // the VI is closed; memory goes when nobody holds it
	holds    int   // goroutines that use memory of the connection without mu
	err      error // why the connection has ended
}

// rxSide is the ring that the other end writes to, and the receives that its messages take.
type rxSide struct {
	flow.Receiver
	ring   []byte
	handle vipl.MemHandle
	recvs  []vipl.Descriptor
	writes uint64 // of the stream, when a Read last returned
	last   int    // what that returned
}

// txSide is what goes to the other end.
type txSide struct {
	flow.Sender
	stage     flow.Stage
	buf       []byte // the stage's
	greeting  []byte // this end's, and the other's behind
	handle    vipl.MemHandle
	tag       vipl.Ptag // of the VI and of all memory of the connection
	peer      vipl.RemoteSegment
	free      []*txDesc
	busy      int  // posted and not completed
	messages  int  // of these, with data
	direct    int  // of these, from the memory of a Write
	ending    bool // the end is to be told once all is posted
	coalesced int  // writes since something has been kept back to be sent with more
	rapid     bool // the last writes that were sent together were many
}

// txDesc is a send descriptor, and what is given back when it has completed.
type txDesc struct {
	vipl.Descriptor
	segs   [1]vipl.Segment
	staged int // bytes of the stage
	data   bool
	direct bool
}

const (
	reapBatch = 32
	// txDescs is how many messages of a stream are on the send queue at the most, of which
	// dataDescs may have data.
	txDescs   = 32
	dataDescs = txDescs - flow.Reserve
)

var _ net.Conn = (*Conn)(nil)

// LocalAddr returns the address of this end, an Addr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end, an Addr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// lock takes mu.
func (c *Conn) lock() { c.mu.Lock() }

// unlock releases mu, and sees to completions that have come meanwhile to who found it
// taken.
func (c *Conn) unlock() {
	c.mu.Unlock()
	for c.kicked.Load() && c.mu.TryLock() {
		c.attend()
		c.mu.Unlock()
	}
}

// completed is called by the engine when there are completions and nobody may be there who
// waits for them. The goroutine may be one that holds mu.
func (c *Conn) completed() {
	c.kicked.Store(true)
	if c.mu.TryLock() {
		c.attend()
		c.unlock()
	}
}

// attend sees to what was put off until completions come.
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

// leave is called when a call of the user is about to return: what it leaves behind goes when
// completions come.
func (c *Conn) leave() {
	if c.owes() && !c.attended && !c.torn && c.err == nil {
		c.attended = true
		c.cq.Attend(c.kick)
	}
}

// owes reports whether there is anything to be sent that could not go yet.
func (c *Conn) owes() bool {
	return c.tx.stage.Unposted() > 0 || c.tx.ending && !c.tx.Ended() || c.rx.Due()
}

// fail ends the connection because of err.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = brokenBy(err)
	}
}
