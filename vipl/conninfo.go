package vipl

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// connInfo is what each side tells the other of itself in KindRequest and
// KindAccept frames:
//
//	offset  size  field
//	     0     8  incarnation of the NIC
//	     8     4  tag that frames to this side must carry
//	    12     4  sequence number of this side's first frame
//	    16     4  MTU of the interface
//	    20     4  MaxTransferSize
//	    24     4  QoS
//	    28     1  reliability level
//	    29     1  bit 0: wants the CRC to cover whole frames; bit 1: peer to peer;
//	              bits 2 and 3: lets the other side write and read by RDMA;
//	              bit 4: takes long frames, if the path does; bit 5: a
//	              discriminator precedes the private data
//	    30     2  length of the private data at the end
//	    32     2  RDMA reads that this side serves at a time
type connInfo struct {
	incarnation uint64
	tag         uint32
	seq         ethertype.Seq
	mtu         uint32
	attr        Attributes // of the VI; those above travel, the others are zero at the peer
	peer        bool
	long        bool
	named       bool
	data        []byte
}

// The bits of the byte at offset 29.
const (
	wishCRC byte = 1 << iota
	wishPeer
	allowWrite
	allowRead
	takesLong
	namesListener
)

const infoSize = 34

// MaxConnData is the most private data, in bytes, that goes with a connection request.
const MaxConnData = 256

func (c *connInfo) append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, c.incarnation)
	b = be.AppendUint32(b, c.tag)
	b = be.AppendUint32(b, uint32(c.seq))
	b = be.AppendUint32(b, c.mtu)
	b = be.AppendUint32(b, c.attr.MaxTransferSize)
	b = be.AppendUint32(b, c.attr.QoS)
	bits := byte(0)
	for i, set := range [...]bool{c.attr.WholeCRC, c.peer, c.attr.EnableRDMAWrite, c.attr.EnableRDMARead, c.long, c.named} { // in the order of the bits
		if set {
			bits |= 1 << i
		}
	}
	b = append(b, byte(c.attr.Reliability), bits)
	b = be.AppendUint16(b, uint16(len(c.data)))
	b = be.AppendUint16(b, uint16(c.attr.ReadDepth))
	return append(b, c.data...)
}

// parseInfo decodes and judges what a peer says of itself. The result does
// not refer to b.
func parseInfo(b []byte) (c connInfo, ok bool) {
	if len(b) < infoSize {
		return connInfo{}, false
	}
	be := binary.BigEndian
	c = connInfo{
		incarnation: be.Uint64(b), tag: be.Uint32(b[8:]), seq: ethertype.Seq(be.Uint32(b[12:])),
		mtu: be.Uint32(b[16:]), peer: b[29]&wishPeer != 0, long: b[29]&takesLong != 0, named: b[29]&namesListener != 0,
		attr: Attributes{
			MaxTransferSize: be.Uint32(b[20:]), QoS: be.Uint32(b[24:]),
			Reliability: reliability.Level(b[28]), ReadDepth: int(be.Uint16(b[32:])), WholeCRC: b[29]&wishCRC != 0,
			EnableRDMAWrite: b[29]&allowWrite != 0, EnableRDMARead: b[29]&allowRead != 0,
		},
	}
	size := int(be.Uint16(b[30:]))
	if size > MaxConnData || len(b)-infoSize < size || c.tag == 0 || !c.attr.Reliability.Valid() ||
		c.mtu < minMTU || c.mtu > ethertype.MaxMTU || c.attr.ReadDepth == 0 || c.attr.ReadDepth > MaxReadDepth {
		return connInfo{}, false
	}
	if size > 0 {
		c.data = append([]byte(nil), b[infoSize:infoSize+size]...)
	}
	return c, true
}

// info describes v to its peer.
func (v *VI) info() connInfo {
	attr := v.attr
	attr.WholeCRC = attr.WholeCRC || v.nic.info.Unprotected // the peer's link may be another
	return connInfo{
		incarnation: v.nic.conns.Incarnation, tag: v.conn.LocalTag, seq: v.hs.localSeq, mtu: uint32(v.nic.mtuTo(v.conn.Remote.MAC)),
		attr: attr, data: v.hs.data, long: v.hs.phase == phaseRequest && v.conn.Path.MayUseLong() || v.hs.phase == phaseAccept && v.conn.Path.Long,
		peer:  v.hs.peer != nil && v.hs.phase == phaseRequest,
		named: v.hs.named && v.hs.phase == phaseRequest,
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
func (v *VI) match(remote ethertype.Addr, c *connInfo) (code byte, err error) {
	for i := range agreed {
		code = rejectReliability + byte(i)
		if there := agreed[i].value(&c.attr); there != agreed[i].value(&v.attr) {
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
func (v *VI) adopt(remote ethertype.Addr, c *connInfo) {
	v.incarnation, v.remoteAttr = c.incarnation, c.attr
	v.hs.remoteSeq, v.hs.reads = c.seq, c.attr.ReadDepth
	v.conn.Meet(&conn.Peer{
		Remote: remote, Tag: c.tag, Seq: c.seq, MTU: int(c.mtu), Long: c.long,
		WholeCRC: v.attr.WholeCRC || c.attr.WholeCRC || v.nic.info.Unprotected,
	}, v.hs.localSeq)
}
