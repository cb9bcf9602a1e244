package handshake

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// Terms are the attributes of a VI that its peer learns.
type Terms struct {
	Reliability     reliability.Level
	MaxTransferSize uint32
	QoS             uint32
	EnableRDMAWrite bool
	EnableRDMARead  bool
	ReadDepth       int
	WholeCRC        bool
}

// MaxReadDepth is the maximum number of RDMA reads that a side serves at a time.
const MaxReadDepth = 256

// MinMTU is the smallest MTU for the frames of the handshake.
const MinMTU = ethertype.BaseSize + InfoSize + MaxData

// Info is each side's description of itself in KindRequest and KindAccept frames:
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
//	              discriminator precedes the private data; bit 6: takes
//	              frames that others follow (ethertype.FlagMore)
//	    30     2  length of the private data at the end
//	    32     2  RDMA reads that this side serves at a time
type Info struct {
	Incarnation uint64
	Tag         uint32
	Seq         ethertype.Seq
	MTU         uint32
	Terms       Terms // of the VI
	Peer        bool
	Long        bool
	Named       bool
	More        bool
	Data        []byte
}

// The bits of the byte at offset 29.
const (
	wishCRC byte = 1 << iota
	wishPeer
	allowWrite
	allowRead
	takesLong
	namesListener
	takesMore
)

// InfoSize is the size of an Info without private data, in bytes.
const InfoSize = 34

// MaxData is the maximum length, in bytes, of the private data in a connection request.
const MaxData = 256

// Append appends the encoded Info and its private data.
func (c *Info) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, c.Incarnation)
	b = be.AppendUint32(b, c.Tag)
	b = be.AppendUint32(b, uint32(c.Seq))
	b = be.AppendUint32(b, c.MTU)
	b = be.AppendUint32(b, c.Terms.MaxTransferSize)
	b = be.AppendUint32(b, c.Terms.QoS)
	bits := byte(0)
	for i, set := range [...]bool{c.Terms.WholeCRC, c.Peer, c.Terms.EnableRDMAWrite, c.Terms.EnableRDMARead, c.Long, c.Named, c.More} { // in the order of the bits
		if set {
			bits |= 1 << i
		}
	}
	b = append(b, byte(c.Terms.Reliability), bits)
	b = be.AppendUint16(b, uint16(len(c.Data)))
	b = be.AppendUint16(b, uint16(c.Terms.ReadDepth))
	return append(b, c.Data...)
}

// ParseInfo decodes and validates a peer's Info. The result does not refer to b.
func ParseInfo(b []byte) (c Info, ok bool) {
	if len(b) < InfoSize {
		return Info{}, false
	}
	be := binary.BigEndian
	c = Info{
		Incarnation: be.Uint64(b), Tag: be.Uint32(b[8:]), Seq: ethertype.Seq(be.Uint32(b[12:])),
		MTU: be.Uint32(b[16:]), Peer: b[29]&wishPeer != 0, Long: b[29]&takesLong != 0, Named: b[29]&namesListener != 0, More: b[29]&takesMore != 0,
		Terms: Terms{
			MaxTransferSize: be.Uint32(b[20:]), QoS: be.Uint32(b[24:]),
			Reliability: reliability.Level(b[28]), ReadDepth: int(be.Uint16(b[32:])), WholeCRC: b[29]&wishCRC != 0,
			EnableRDMAWrite: b[29]&allowWrite != 0, EnableRDMARead: b[29]&allowRead != 0,
		},
	}
	size := int(be.Uint16(b[30:]))
	if size > MaxData || len(b)-InfoSize < size || c.Tag == 0 || !c.Terms.Reliability.Valid() ||
		c.MTU < MinMTU || c.MTU > ethertype.MaxMTU || c.Terms.ReadDepth == 0 || c.Terms.ReadDepth > MaxReadDepth {
		return Info{}, false
	}
	if size > 0 {
		c.Data = append([]byte(nil), b[InfoSize:InfoSize+size]...)
	}
	return c, true
}
