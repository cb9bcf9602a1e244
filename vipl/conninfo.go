package vipl

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
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
//	    29     1  bit 0: wants the CRC to cover whole frames; bit 1: peer to peer
//	    30     2  length of the private data at the end
//	    32     2  RDMA reads that this side serves at a time
type connInfo struct {
	incarnation uint64
	tag         uint32
	seq         ethertype.Seq
	mtu         uint32
	maxTransfer uint32
	qos         uint32
	level       reliability.Level
	wholeCRC    bool
	peer        bool
	reads       uint16
	data        []byte
}

// What a side asks of the other.
const (
	wishCRC byte = 1 << iota
	wishPeer
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
	b = be.AppendUint32(b, c.maxTransfer)
	b = be.AppendUint32(b, c.qos)
	wishes := byte(0)
	if c.wholeCRC {
		wishes |= wishCRC
	}
	if c.peer {
		wishes |= wishPeer
	}
	b = append(b, byte(c.level), wishes)
	b = be.AppendUint16(b, uint16(len(c.data)))
	b = be.AppendUint16(b, c.reads)
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
		mtu: be.Uint32(b[16:]), maxTransfer: be.Uint32(b[20:]), qos: be.Uint32(b[24:]),
		level: reliability.Level(b[28]), wholeCRC: b[29]&wishCRC != 0,
		peer:  b[29]&wishPeer != 0,
		reads: be.Uint16(b[32:]),
	}
	size := int(be.Uint16(b[30:]))
	if size > MaxConnData || len(b)-infoSize < size || c.tag == 0 || !c.level.Valid() ||
		c.mtu < minMTU || c.mtu > ethertype.MaxMTU || c.reads == 0 || c.reads > MaxReadDepth {
		return connInfo{}, false
	}
	if size > 0 {
		c.data = append([]byte(nil), b[infoSize:infoSize+size]...)
	}
	return c, true
}

// info describes v to its peer.
func (v *VI) info() connInfo {
	return connInfo{
		incarnation: v.nic.incarnation, tag: v.localTag, seq: v.hs.localSeq, mtu: uint32(v.nic.mtuTo(v.remote.MAC)),
		maxTransfer: v.attr.MaxTransferSize, qos: v.attr.QoS, level: v.attr.Reliability, wholeCRC: v.attr.WholeCRC,
		reads: uint16(v.attr.ReadDepth), data: v.hs.data,
		peer: v.hs.peer != nil && v.hs.phase == phaseRequest,
	}
}

// match compares the attributes that both sides must agree on.
func (v *VI) match(c *connInfo) error {
	switch {
	case c.level != v.attr.Reliability:
		return opError("accept", ErrInvalidReliability, "the VI has %v, the request from the peer asks for %v", v.attr.Reliability, c.level)
	case c.maxTransfer != v.attr.MaxTransferSize:
		return opError("accept", ErrInvalidMTU, "MaxTransferSize of the VI is %d, of the peer's %d", v.attr.MaxTransferSize, c.maxTransfer)
	case c.qos != v.attr.QoS:
		return opError("accept", ErrInvalidQoS, "QoS of the VI is %d, of the peer's %d", v.attr.QoS, c.qos)
	}
	return nil
}

// adopt takes over what the peer said.
func (v *VI) adopt(remote ethertype.Addr, c *connInfo) {
	v.remote = remote
	v.remoteTag = c.tag
	v.incarnation = c.incarnation
	v.hs.remoteSeq = c.seq
	v.hs.remoteMTU = int(c.mtu)
	v.hs.reads = int(c.reads)
	v.maxData = min(v.nic.mtuTo(remote.MAC), int(c.mtu)) - ethertype.BaseSize
	v.flags = 0
	if v.attr.WholeCRC || c.wholeCRC || v.nic.info.Unprotected {
		v.flags = ethertype.FlagWholeCRC
	}
	v.bulk = false
	v.out = ethertype.Header{
		Dst: remote.MAC, Src: v.nic.info.MAC, Type: v.nic.info.EtherType,
		DstPort: remote.Port, SrcPort: v.port, Tag: c.tag,
	}
}
