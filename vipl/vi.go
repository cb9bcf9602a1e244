package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/reliability"
)

// VI is a virtual interface (VIP_VI_HANDLE): one end of a connection, with a
// send and a receive queue. It may be shared between goroutines.
type VI struct {
	// Context is the caller's own; the provider never looks at it.
	Context any

	nic      *NIC
	attr     Attributes
	port     uint16
	state    State
	closed   bool
	left     bool // Disconnect has ended the last connection
	reliable bool
	touched  bool // is in nic.touched
	held     bool // is in nic.held
	timed    bool // is in nic.timers
	txQueued bool // is in nic.tx.unsent
	err      *ConnError
	farewell reason        // why, in the Error state
	fault    ethertype.Seq // message for which the connection ended; see reason.ofMessage
	told     bool          // the peer knows that, or nothing reaches it
	lastErr  error         // outcome of the last connection attempt that failed

	// The connection, valid from Connect Pending on.
	remote      ethertype.Addr
	localTag    uint32 // frames to us carry it
	remoteTag   uint32 // frames from us carry it
	incarnation uint64 // the peer NIC's
	remoteAttr  Attributes
	pathData    int  // data bytes that a frame holds by the smaller MTU of both sides
	maxData     int  // data bytes per frame: pathData, or those of long frames
	long        bool // both sides have long frames; whether the path has is seen from maxData
	proven      bool // that changes with the next message
	flags       ethertype.Flags
	out         ethertype.Header // of the frame being built
	hs          *handshake       // while Connect Pending
	heard       int64            // when a valid frame last came
	probes      int              // keepalive probes since then

	sq, rq   queue
	tx       reliability.Sender
	rx       reliability.Receiver
	cursor   txCursor
	gathered gathered
	msgIn    rxCursor
	usual    ethertype.Prefix // of the frames that may go the short way
	reads    readTable
	serves   serveTable
	loose    looseRx // the unreliable level's

	stats VIStats
	gate  progress.Gate // connection events

	// Of the connection, what is seldom looked at.
	remoteMTU int
	path      pathTest // while Connect Pending, and when frames are sent in vain
	hole      longPath
	pieces    *pieces // of a frame that comes in pieces; made for the first one
}

// CreateVI makes an idle VI (VipCreateVi). Nil attributes mean
// DefaultAttributes. Each queue may be bound to a completion queue of the
// same NIC, the same or different ones, or to none.
func (n *NIC) CreateVI(attr *Attributes, sendCQ, recvCQ *CQ) (*VI, error) {
	if attr == nil {
		attr = DefaultAttributes()
	}
	a := attr.withDefaults()
	if err := a.validate("create VI"); err != nil {
		return nil, err
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	switch {
	case n.closed:
		return nil, ErrClosed
	case !n.mem.HasTag(a.Ptag):
		return nil, opError("create VI", ErrInvalidPtag, "tag %d does not exist on this NIC", a.Ptag)
	case sendCQ != nil && (sendCQ.nic != n || sendCQ.closed), recvCQ != nil && (recvCQ.nic != n || recvCQ.closed):
		return nil, opError("create VI", ErrInvalidParameter, "the completion queue is closed or belongs to another NIC")
	}
	port, ok := n.freePort()
	if !ok || n.numVIs >= MaxVIs {
		return nil, opError("create VI", ErrResource, "%d VIs exist and no port in %d..%d is free; open the NIC with a wider Config.Ports",
			n.numVIs, n.info.Ports.Lo, n.info.Ports.Hi)
	}
	v := &VI{nic: n, attr: a, port: port, reliable: a.Reliability.Reliable()}
	v.sq = queue{depth: a.QueueDepth, cq: sendCQ}
	v.rq = queue{depth: a.QueueDepth, cq: recvCQ, recv: true}
	n.vis[port-n.info.Ports.Lo] = v
	n.numVIs++
	n.mem.UseTag(a.Ptag, 1)
	for _, q := range []*CQ{sendCQ, recvCQ} {
		if q != nil {
			q.users++
		}
	}
	return v, nil
}

// freePort picks the next port that no VI and no listener has, cyclically, so
// that a port is not used again soon.
func (n *NIC) freePort() (uint16, bool) {
	size := n.info.Ports.Len()
	for range size {
		n.nextPort = uint16((int(n.nextPort) + 1) % size)
		port := n.info.Ports.Lo + n.nextPort
		if n.nextPort != 0 && n.vis[n.nextPort] == nil && n.listeners[port] == nil {
			return port, true
		}
	}
	return 0, false
}

// Close destroys the VI (VipDestroyVi). A connected one is disconnected first;
// descriptors that are still posted or not taken are flushed and forgotten,
// handlers that wait are cancelled.
// Closing twice does nothing.
func (v *VI) Close() error {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if v.closed || n.closed {
		v.closed = true
		v.forget() // what NIC.Close has left to be taken
		v.unlist()
		return nil
	}
	v.closed = true
	v.sq.handlers.Clear()
	v.rq.handlers.Clear()
	n.cancelCalls(v, nil)
	v.leave()
	v.forget()
	n.tx.flush(n)
	v.unlist()
	for _, q := range []*CQ{v.sq.cq, v.rq.cq} {
		if q != nil {
			q.users--
		}
	}
	n.vis[v.port-n.info.Ports.Lo] = nil
	n.numVIs--
	n.mem.UseTag(v.attr.Ptag, -1)
	n.stats.Closed.add(&v.stats)
	v.gate.Open(&n.eng)
	return nil
}

// Disconnect ends the connection, or the attempt to make one, and returns the
// VI to Idle (VipDisconnect). The peer sees ErrDisconnected. Posted
// descriptors complete with StatusFlushed; sends that must arrive should be
// waited for first.
func (v *VI) Disconnect() error {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := v.isClosed(); err != nil {
		return err
	}
	v.leave()
	n.tx.flush(n)
	return nil
}

// leave tells the peer and returns to Idle.
func (v *VI) leave() {
	n := v.nic
	n.catchUp()
	switch v.state {
	case StateConnected:
		v.left = true
		v.sendDisconnect(reasonLeft)
		n.ghosts.remember(v, reasonLeft, false)
	case StateError:
		v.left = true
		if v.farewell != reasonLeft { // a peer that has left sends nothing more
			n.ghosts.remember(v, v.farewell, v.told)
		}
	case StateConnectPending:
		v.hs.abandon(v)
	}
	v.flushAll()
	v.state = StateIdle
	v.err = nil
	v.localTag, v.remoteTag = 0, 0
	v.endHandshake()
	v.gate.Open(&n.eng)
}

// forget gives the descriptors that nobody has taken back to the caller. They
// leave the queues, because the caller may post them elsewhere.
func (v *VI) forget() {
	for _, q := range []*queue{&v.sq, &v.rq} {
		for q.take() != nil {
		}
	}
}

// start enters Connected: both sides have agreed and the MTU is proven.
func (v *VI) start() {
	hs := v.hs
	v.state = StateConnected
	v.usual = ethertype.Prefix{}
	v.endHandshake()
	v.heard, v.probes, v.fault = v.nic.now, 0, 0
	v.loose = looseRx{next: hs.localSeq}
	v.loose.filter.Init(hs.remoteSeq)
	v.cursor = txCursor{next: v.sq.done} // sends posted during the handshake go first
	v.msgIn = rxCursor{base: v.rq.done}
	v.hole = longPath{}
	if v.pieces != nil {
		v.pieces.begun = false
	}
	v.startReads(hs.reads)
	v.nic.touch(v)
	v.gate.Open(&v.nic.eng)
	v.nic.timers.watch(v)
	v.nic.log.Debug("connected", "local", v.Local(), "remote", v.remote, "level", v.attr.Reliability, "data", v.maxData)
}

// State returns the VI's state alone of what Query returns.
func (v *VI) State() State {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return v.state
}

// Err returns why the VI is in StateError, a *ConnError, and nil otherwise.
func (v *VI) Err() error {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	if v.err == nil {
		return nil
	}
	return v.err
}

// NIC returns the NIC that the VI belongs to.
func (v *VI) NIC() *NIC { return v.nic }

// Local returns the VI's own address.
func (v *VI) Local() ethertype.Addr { return ethertype.Addr{MAC: v.nic.info.MAC, Port: v.port} }

// Remote returns the peer's address; zero when there is none.
func (v *VI) Remote() ethertype.Addr {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return v.remote
}
