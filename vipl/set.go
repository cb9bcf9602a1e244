package vipl

import (
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// VIInfo is what VI.Query returns.
type VIInfo struct {
	State      State
	Attributes Attributes
	SendEmpty  bool // nothing is posted on the send queue, or completed and not taken
	RecvEmpty  bool // the same of the receive queue
}

// Query returns the VI's state and attributes, and whether its queues are empty
// (VipQueryVi).
func (v *VI) Query() VIInfo {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return VIInfo{State: State(v.conn.State), Attributes: v.attr, SendEmpty: v.conn.SQ.Len() == 0, RecvEmpty: v.conn.RQ.Len() == 0}
}

// SetAttributes changes the VI's attributes (VipSetViAttributes), all or none.
// Nil attributes mean DefaultAttributes.
//
// What a connection is made with, that is Reliability, MaxTransferSize, QoS,
// ReadDepth and WholeCRC, changes only in the Idle state, and Ptag only while
// nothing is posted, because posted segments have been checked against the old
// one: ErrInvalidState. EnableRDMAWrite, EnableRDMARead and Ptag count for what
// the peer does from now on, and a read being served is no exception: one that
// is no longer allowed ends the connection with ErrRDMA. A QueueDepth below
// what the queues hold is ErrResource. Attributes that CreateVI would refuse
// are refused with the same errors.
func (v *VI) SetAttributes(attr *Attributes) error {
	const op = "set VI attributes"
	if attr == nil {
		attr = DefaultAttributes()
	}
	a := attr.withDefaults()
	if err := a.validate(op); err != nil {
		return err
	}
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := v.isClosed(); err != nil {
		return err
	}
	if err := v.mayChange(op, &a); err != nil {
		return err
	}
	n.m.Mem.UseTag(memory.Tag(v.attr.Ptag), -1)
	n.m.Mem.UseTag(memory.Tag(a.Ptag), 1)
	v.attr = a
	v.side.Terms = a.handshakeTerms()
	v.conn.SetTerms(a.terms(), a.QueueDepth)
	n.m.Watch(&v.conn) // PeerTimeout may be shorter
	n.letGo()
	return nil
}

// mayChange judges a change of the attributes to a.
func (v *VI) mayChange(op string, a *Attributes) error {
	now := &v.attr
	agreed := a.Reliability != now.Reliability || a.MaxTransferSize != now.MaxTransferSize || a.QoS != now.QoS ||
		a.ReadDepth != now.ReadDepth || a.WholeCRC != now.WholeCRC
	posted := v.conn.SQ.Pending() + v.conn.RQ.Pending()
	switch {
	case agreed && v.conn.State != code.StateIdle:
		return opError(op, ErrInvalidState, "the VI is %v: Reliability, MaxTransferSize, QoS, ReadDepth and WholeCRC change only while it is idle", v.conn.State)
	case !v.nic.m.Mem.HasTag(memory.Tag(a.Ptag)):
		return opError(op, ErrInvalidPtag, "tag %d does not exist on this NIC", a.Ptag)
	case a.Ptag != now.Ptag && posted > 0:
		return opError(op, ErrInvalidState, "%d descriptors are posted with memory of tag %d", posted, now.Ptag)
	case a.QueueDepth < max(v.conn.SQ.Len(), v.conn.RQ.Len()):
		return opError(op, ErrResource, "the queues hold %d and %d descriptors, QueueDepth is to be %d", v.conn.SQ.Len(), v.conn.RQ.Len(), a.QueueDepth)
	}
	return nil
}
