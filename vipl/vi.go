package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// VI is a virtual interface (VIP_VI_HANDLE): one end of a connection, with a
// send and a receive queue. It may be shared between goroutines.
type VI struct {
	// Context belongs to the caller. The provider never reads it.
	Context any

	nic  *NIC
	attr Attributes
	conn conn.Conn
	gate progress.Gate // connection events

	sendCQ, recvCQ             *CQ
	sendHandlers, recvHandlers handlers

	side handshake.Side // of the connection's handshake
	left bool           // Disconnect has ended the last connection
}

// CreateVI creates an idle VI (VipCreateVi). Nil attributes mean DefaultAttributes. Each queue may
// be bound to a completion queue of the same NIC. Both may use the same completion queue. Nil means
// none.
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
	case n.m.Closed:
		return nil, ErrClosed
	case !n.m.Mem.HasTag(memory.Tag(a.Ptag)):
		return nil, opError("create VI", ErrInvalidPtag, "tag %d does not exist on this NIC", a.Ptag)
	case sendCQ != nil && (sendCQ.nic != n || sendCQ.closed), recvCQ != nil && (recvCQ.nic != n || recvCQ.closed):
		return nil, opError("create VI", ErrArgument, "the completion queue is closed or belongs to another NIC")
	}
	port, ok := n.m.Ports.Free()
	switch {
	case n.m.Ports.Count >= maxVIs:
		return nil, opError("create VI", ErrResource, "all %d VIs of the NIC are in use; close some, or open another NIC", maxVIs)
	case !ok:
		return nil, opError("create VI", ErrResource, "%d VIs exist and no port in %d..%d is free; open the NIC with a wider Config.Ports",
			n.m.Ports.Count, n.m.Info.Ports.Lo, n.m.Info.Ports.Hi)
	}
	v := &VI{nic: n, attr: a, sendCQ: sendCQ, recvCQ: recvCQ}
	v.conn.Init(&n.m.Shared, (*viOwner)(v), port, ringOf(sendCQ), ringOf(recvCQ))
	v.conn.SetTerms(a.terms(), a.QueueDepth)
	v.side.Init(&n.m.Connects, &v.conn, (*viOwner)(v))
	v.side.Terms = a.handshakeTerms()
	n.m.Ports.Add(&v.conn, &v.side)
	n.m.Mem.UseTag(memory.Tag(a.Ptag), 1)
	for _, q := range []*CQ{sendCQ, recvCQ} {
		if q != nil {
			q.users++
		}
	}
	return v, nil
}

// Destroy destroys an idle VI with empty queues (VipDestroyVi). ErrResource means that descriptors
// are posted, or completed and not taken by a Done or Wait call; after Disconnect these calls
// return the flushed ones. ErrInvalidState means that the VI is not idle. On an error the VI is
// unchanged. Close destroys a VI in any state.
func (v *VI) Destroy() error {
	const op = "destroy VI"
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := v.isClosed(); err != nil {
		return err
	}
	sends, receives := v.conn.SQ.Len(), v.conn.RQ.Len()
	switch {
	case sends+receives > 0:
		return opError(op, ErrResource, "%d sends and %d receives are posted or not taken: call Disconnect, and SendDone and RecvDone until their queues are empty, or call Close", sends, receives)
	case v.conn.State != code.StateIdle:
		return opError(op, ErrInvalidState, "the VI is %v, want idle: call Disconnect first, or Close", v.conn.State)
	}
	v.close()
	return nil
}

// Close destroys the VI in any state. It disconnects a connected VI first. It flushes and discards
// descriptors that are posted or not taken, and cancels waiting handlers. Closing twice does
// nothing. Destroy is VIPL's own call, which fails in these cases.
func (v *VI) Close() error {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if v.conn.Closed || n.m.Closed {
		v.conn.Close()
		v.conn.Forget() // what NIC.Close has left to be taken
		return nil
	}
	v.close()
	return nil
}

// close destroys the VI. The caller must hold the lock.
func (v *VI) close() {
	n := v.nic
	v.conn.Close()
	v.sendHandlers.Clear()
	v.recvHandlers.Clear()
	n.cancelCalls(v, nil)
	v.leave()
	v.conn.Forget()
	n.m.Flush()
	for _, q := range []*CQ{v.sendCQ, v.recvCQ} {
		if q != nil {
			q.users--
		}
	}
	n.m.Ports.Remove(&v.conn)
	n.m.Mem.UseTag(memory.Tag(v.attr.Ptag), -1)
	done := statsOf(&v.conn.Stats)
	counters.Add(&n.left, &done)
	v.gate.Open(&n.eng)
}

// Disconnect ends the connection, or the attempt to connect, and returns the VI to Idle
// (VipDisconnect). The peer's calls return ErrDisconnected. Posted descriptors complete with
// StatusFlushed: to be sure that sends arrive, wait for them first.
func (v *VI) Disconnect() error {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := v.isClosed(); err != nil {
		return err
	}
	v.leave()
	n.m.Flush()
	return nil
}

// leave notifies the peer and returns the VI to Idle.
func (v *VI) leave() {
	n := v.nic
	n.m.FinishReceives()
	switch v.conn.State {
	case code.StateConnected:
		v.left = true
		v.conn.SendDisconnect(code.ReasonLeft)
		n.m.Ended.Add(&v.conn, code.ReasonLeft, false)
	case code.StateError:
		v.left = true
		if v.conn.End.Why != code.ReasonLeft { // a peer that has left sends nothing more
			n.m.Ended.Add(&v.conn, v.conn.End.Why, v.conn.End.Told)
		}
	case code.StateConnectPending:
		v.side.Abandon()
	}
	v.conn.Idle()
	v.gate.Open(&n.eng)
}

// State returns the VI's state.
func (v *VI) State() State {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return State(v.conn.State)
}

// Err returns the cause of StateError, a *ConnError, and nil in other states.
func (v *VI) Err() error {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	if v.conn.End.Err == nil {
		return nil
	}
	return v.conn.End.Err
}

// NIC returns the NIC that the VI belongs to.
func (v *VI) NIC() *NIC { return v.nic }

// Local returns the VI's own address.
func (v *VI) Local() ethertype.Addr { return v.conn.Local() }

// Remote returns the peer's address, or zero if there is none.
func (v *VI) Remote() ethertype.Addr {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return v.conn.Remote
}
