package conn

import (
	"sync/atomic"

	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Conn is one end of a connection: the part of a VI's state that depends on frames and time. Its
// input is Receive and the timers. Its output is frames in the batch, and completions in the
// queues. Its parts access each other through it.
type Conn struct {
	shared *Shared
	Owner  Owner
	terms  Terms

	Port      uint16         // of this side
	Remote    ethertype.Addr // of the peer
	LocalTag  uint32         // in the peer's frames
	RemoteTag uint32         // in frames to the peer
	flags     ethertype.Flags
	out       ethertype.Header // of the frame being built

	State    code.State
	Closed   bool
	Reliable bool
	marks    marks
	End      ending
	lending  atomic.Uint64 // the frames' Mark: not 0 while Connected
	heard    int64         // time of the last valid frame
	probes   int           // keep-alive probes since then

	SQ, RQ Queue
	tx     txHalf
	rx     rxHalf
	Path   Path
	reads  readTable
	serves serveTable
	loose  looseRx // for the unreliable level

	Stats Stats
}

// Terms are the attributes of a VI that apply to its connections.
type Terms struct {
	Reliability     reliability.Level
	Ptag            memory.Tag
	EnableRDMAWrite bool
	EnableRDMARead  bool
	ReadDepth       int
	PeerTimeout     time.Duration
}

// marks records in which lists of Shared a connection is.
type marks struct {
	touched, corked, timed, unsent bool
}

// ending records why a connection is in the Error state.
type ending struct {
	Err   error
	Why   code.Reason
	fault ethertype.Seq // the message for which the connection ended; see code.Reason.OfMessage
	Told  bool          // the peer knows, or cannot be reached
}

// txHalf is the sending half of a connection.
type txHalf struct {
	c      *Conn
	sender reliability.Sender
	cursor txCursor
	corked corkedFrames
}

// rxHalf is the receiving half of a connection.
type rxHalf struct {
	c         *Conn
	receiver  reliability.Receiver
	msgIn     rxCursor
	late      deferredAck
	predicted ethertype.Prefix // of frames for the fast path
	pieces    *reassembly      // of a frame in pieces; allocated for the first one
	last      lastWord         // of an RDMA write that is incomplete
}

// Path is the state of the path to the peer.
type Path struct {
	c         *Conn
	Data      int  // data bytes of a frame at the smaller MTU of both sides
	MaxData   int  // data bytes of a frame: Data, or those of a long frame
	Long      bool // both sides support long frames; MaxData tells whether the path carries them
	Cut       bool // the peer receives this side's long frames in segments
	sent      int  // long frames that were sent of late,
	lost      int  // and that were lost, on a path that cuts them
	switching bool // MaxData changes with the next message
	remoteMTU int
	joining   joining
	test      PathTest // during Connect Pending, and while frames are retransmitted
	hole      BlackHole
	need      longNeed
}

// Init initializes an idle connection at a port of owner. Completions of its queues go to the
// rings; each may be nil.
func (c *Conn) Init(sh *Shared, owner Owner, port uint16, sends, receives *Ring) {
	*c = Conn{shared: sh, Owner: owner, Port: port}
	c.SQ = Queue{cq: sends}
	c.RQ = Queue{cq: receives, recv: true}
	c.tx.c, c.rx.c, c.Path.c, c.reads.c, c.serves.c, c.loose.c = c, c, c, c, c, c
}

// SetTerms sets the terms, and the depth of each queue.
func (c *Conn) SetTerms(t Terms, depth int) {
	c.terms = t
	c.Reliable = t.Reliability.Reliable()
	c.SQ.depth, c.RQ.depth = depth, depth
	c.tx.sender.SetUserTimeout(int64(t.PeerTimeout))
}

// Local returns the connection's address.
func (c *Conn) Local() ethertype.Addr { return ethertype.Addr{MAC: c.shared.info.MAC, Port: c.Port} }

// EnterPending enters Connect Pending. The peer's frames must carry the tag.
func (c *Conn) EnterPending(tag uint32) {
	c.State, c.LocalTag, c.End.Err = code.StateConnectPending, tag, nil
	c.shared.Watch(c)
}

// Peer describes the peer of a connection.
type Peer struct {
	Remote   ethertype.Addr
	Tag      uint32 // in frames to it
	Seq      ethertype.Seq
	MTU      int
	Long     bool // it supports long frames
	WholeCRC bool // the CRC covers whole frames

	Incarnation uint64 // of its NIC
	More        bool   // it accepts several frames in an Ethernet frame
}

// AdoptPeer stores the peer's description. This side's sequence numbers begin with seq.
func (c *Conn) AdoptPeer(p *Peer, seq ethertype.Seq) {
	sh := c.shared
	c.Remote, c.RemoteTag = p.Remote, p.Tag
	c.Path.adoptPeer(p)
	c.flags = 0
	if p.WholeCRC {
		c.flags = ethertype.FlagWholeCRC
	}
	c.out = ethertype.Header{
		Dst: p.Remote.MAC, Src: sh.info.MAC, Type: sh.info.EtherType,
		DstPort: p.Remote.Port, SrcPort: c.Port, Tag: p.Tag, Ack: p.Seq,
	}
	limits := sh.hooks.Limits(p.Remote.MAC)
	c.tx.sender.Init(limits, seq)
	c.tx.sender.SetUserTimeout(int64(c.terms.PeerTimeout))
	c.rx.receiver.Init(limits, p.Seq)
}

// EnterConnected enters Connected. This side's sequence numbers begin with seq, the peer's with
// remote. The peer serves reads RDMA reads at a time.
func (c *Conn) EnterConnected(seq, remote ethertype.Seq, reads int) {
	c.State = code.StateConnected
	c.lending.Store(uint64(c.LocalTag)<<32 | uint64(c.RemoteTag)) // random
	c.heard, c.probes, c.End.fault = c.shared.now, 0, 0
	c.tx.cursor = txCursor{next: c.SQ.done} // sends posted during the handshake go first
	c.rx.reset(c.RQ.done)
	c.Path.hole, c.Path.need, c.Path.Cut = BlackHole{}, longNeed{}, false
	c.loose = looseRx{c: c, next: seq}
	c.loose.filter.Init(remote)
	c.reads.reset(reads)
	c.serves.reset()
	c.shared.touch(c)
	c.shared.Watch(c)
}

// Close stops reporting completions.
func (c *Conn) Close() {
	c.Closed = true
	c.SQ.Handlers, c.RQ.Handlers = 0, 0
}

// Idle completes everything that is posted with StatusFlushed, and returns to Idle.
func (c *Conn) Idle() {
	c.flushAll()
	c.State, c.End.Err = code.StateIdle, nil
	c.LocalTag, c.RemoteTag = 0, 0
}

// Forget removes all completed descriptors from the queues, because the program may post them
// elsewhere, and drops their completion entries.
func (c *Conn) Forget() {
	for _, q := range []*Queue{&c.SQ, &c.RQ} {
		for q.Dequeue() != nil {
		}
	}
	c.unlist()
}

// reset prepares for a new connection. The connection's first message goes to the receive
// with the number first.
func (r *rxHalf) reset(first ethertype.Seq) {
	r.predicted, r.msgIn, r.last.waits = ethertype.Prefix{}, rxCursor{base: first}, false
	if r.pieces != nil {
		r.pieces.Begun = false
	}
}

// adoptPeer stores what the peer has announced about its interface.
func (p *Path) adoptPeer(peer *Peer) {
	sh := p.c.shared
	p.remoteMTU = peer.MTU
	p.Data = min(sh.hooks.MTU(peer.Remote.MAC), peer.MTU) - ethertype.BaseSize
	p.MaxData = p.Data
	if p.joining = (joining{}); peer.More && p.c.Port/framing.PortBlock == sh.info.Ports.Lo/framing.PortBlock { // see framing.Beside
		p.joining.Peer = peer.Incarnation
	}
	p.Long, p.switching = peer.Long && p.MayUseLong() && p.Data+ethertype.BaseSize >= sh.info.MTU, false
}
