package framing

import "github.com/bobnet-go/bobnet/ethertype"

// sample is a header of a fragment.
var sample = ethertype.Header{
	Dst: ethertype.MAC{0x02, 0x11, 0x12, 0x13, 0x14, 0x15}, Src: ethertype.MAC{0x06, 0x21, 0x22, 0x23, 0x24, 0x25},
	Type: ethertype.Default, Kind: ethertype.KindData, Flags: ethertype.FlagLast | ethertype.FlagRetry,
	DstPort: 0x3132, SrcPort: 0x3334, Tag: 0x41424344, Seq: 0x51525354, Ack: 0x61626364, Msg: 0x71727374,
	Sack: 0x8182838485868788, Offset: 0x9192, Length: 0xa1a2,
}

// encode returns the sealed frame of h and payload.
func encode(h ethertype.Header, payload []byte) []byte {
	h.Size = uint16(len(payload))
	b := make([]byte, ethertype.HeaderSize, ethertype.HeaderSize+len(payload))
	h.Put(b)
	ethertype.Seal(b, payload)
	return append(b, payload...)
}

var (
	alice = ethertype.Addr{MAC: ethertype.MAC{0x02, 0, 0, 0, 0, 1}, Port: 5}
	bob   = ethertype.Addr{MAC: ethertype.MAC{0x02, 0, 0, 0, 0, 2}, Port: 9}
)

const between = "02:00:00:00:00:01/5 > 02:00:00:00:00:02/9 "
