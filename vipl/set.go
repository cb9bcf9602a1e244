package vipl

import (
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// VIInfo is the result of VI.Query.
type VIInfo struct {
	State      State
	Attributes Attributes
	SendEmpty  bool // the send queue holds no descriptor, neither posted nor completed
	RecvEmpty  bool // the receive queue holds no descriptor, neither posted nor completed
}

// Query returns the VI's state and attributes, and whether its queues are empty
// (VipQueryVi).
func (v *VI) Query() VIInfo {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return VIInfo{State: State(v.conn.State), Attributes: v.attr, SendEmpty: v.conn.SQ.Len() == 0, RecvEmpty: v.conn.RQ.Len() == 0}
}

// SetAttributes changes the VI's attributes (VipSetViAttributes), either all or none. Nil
// attributes mean DefaultAttributes.
//
// Reliability, MaxTransferSize, QoS, ReadDepth and WholeCRC are fixed when a connection is made, so
// they can change only in the Idle state. Ptag can change only while nothing is posted, because
// posted segments were checked against the old tag. Otherwise the error is ErrInvalidState.
// EnableRDMAWrite, EnableRDMARead and Ptag apply to all later accesses of the peer. A read that is
// being served and is no longer allowed ends the connection with ErrRDMA. The error is ErrResource
// if the queues hold more than QueueDepth descriptors. Attributes that CreateVI refuses are refused
// with the same errors.
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

// mayChange checks whether the attributes may change to a.
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
		return opError(op, ErrResource, "the queues hold %d and %d descriptors, more than QueueDepth %d", v.conn.SQ.Len(), v.conn.RQ.Len(), a.QueueDepth)
	}
	return nil
}
