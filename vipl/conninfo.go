package vipl

import (
	"cmp"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
)

// MaxConnData is the most private data, in bytes, that goes with a connection request.
const MaxConnData = conninfo.MaxData

// info describes v to its peer.
func (v *VI) info() conninfo.Info {
	terms := v.attr.told()
	terms.WholeCRC = terms.WholeCRC || v.nic.info.Unprotected // the peer's link may be another
	asks := v.hs.phase == phaseRequest
	return conninfo.Info{
		Incarnation: v.nic.conns.Incarnation, Tag: v.conn.LocalTag, Seq: v.hs.localSeq, MTU: uint32(v.nic.mtuTo(v.conn.Remote.MAC)),
		Terms: terms, Data: v.hs.data, Long: asks && v.conn.Path.MayUseLong() || v.hs.phase == phaseAccept && v.conn.Path.Long,
		Peer: asks && v.hs.peer != nil, Named: asks && v.hs.named,
	}
}

// told returns the attributes of which the peer is told.
func (a *Attributes) told() conninfo.Terms {
	return conninfo.Terms{
		Reliability: a.Reliability, MaxTransferSize: a.MaxTransferSize, QoS: a.QoS, EnableRDMAWrite: a.EnableRDMAWrite,
		EnableRDMARead: a.EnableRDMARead, ReadDepth: a.ReadDepth, WholeCRC: a.WholeCRC,
	}
}

// attributesOf returns the attributes that a peer has told of. The others are zero.
func attributesOf(t *conninfo.Terms) Attributes {
	return Attributes{
		Reliability: t.Reliability, MaxTransferSize: t.MaxTransferSize, QoS: t.QoS, EnableRDMAWrite: t.EnableRDMAWrite,
		EnableRDMARead: t.EnableRDMARead, ReadDepth: t.ReadDepth, WholeCRC: t.WholeCRC,
	}
}

// agreed are the attributes that must be equal on both sides, in the order of
// the codes from rejectReliability on.
var agreed = [...]struct {
	name  string
	err   error // when they are not
	value func(a *Attributes) any
}{
	{"Reliability", ErrInvalidReliability, func(a *Attributes) any { return a.Reliability }},
	{"MaxTransferSize", ErrInvalidMTU, func(a *Attributes) any { return a.MaxTransferSize }},
	{"QoS", ErrInvalidQoS, func(a *Attributes) any { return a.QoS }},
}

// match compares what both sides must agree on. For an attribute that differs it
// returns the code that tells remote so, and the error for this side.
func (v *VI) match(remote ethertype.Addr, c *conninfo.Info) (code byte, err error) {
	attr := attributesOf(&c.Terms)
	for i := range agreed {
		code = rejectReliability + byte(i)
		if there := agreed[i].value(&attr); there != agreed[i].value(&v.attr) {
			return code, v.mismatch(remote, code, fmt.Sprint(there))
		}
	}
	return 0, nil
}

// mismatch names both sides, and what each has, of the attribute that code is of.
func (v *VI) mismatch(remote ethertype.Addr, code byte, there string) error {
	a := &agreed[code-rejectReliability]
	return &ConnError{Local: v.Local(), Remote: remote, Err: a.err, Detail: fmt.Sprintf(
		"%s is %v here and %s there: give both VIs the same", a.name, a.value(&v.attr), cmp.Or(there, "another"))}
}

// RemoteAttributes returns the attributes of the peer's VI, as they were when
// the peer connected (RemoteViAttribs of VipConnectRequest, VipConnectPeerDone
// and VipConnectPeerWait): Reliability, MaxTransferSize, QoS, EnableRDMAWrite,
// EnableRDMARead, ReadDepth and WholeCRC, which is set, too, if nothing protects the
// peer's link. The others concern nobody else and are zero, as all are before the
// peer has answered. They stay known when the connection has ended, until the next
// attempt.
func (v *VI) RemoteAttributes() Attributes {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return v.remoteAttr
}

// adopt takes over what the peer said.
func (v *VI) adopt(remote ethertype.Addr, c *conninfo.Info) {
	v.incarnation, v.remoteAttr = c.Incarnation, attributesOf(&c.Terms)
	v.hs.remoteSeq, v.hs.reads = c.Seq, c.Terms.ReadDepth
	v.conn.Meet(&conn.Peer{
		Remote: remote, Tag: c.Tag, Seq: c.Seq, MTU: int(c.MTU), Long: c.Long,
		WholeCRC: v.attr.WholeCRC || c.Terms.WholeCRC || v.nic.info.Unprotected,
	}, v.hs.localSeq)
}
