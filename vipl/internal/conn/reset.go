package conn

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
)

// ResetSize is the payload of a KindReset frame: the tag of the frame that it
// answers, as proof that its sender saw it, and the incarnation of the NIC.
const ResetSize = 12

func putReset(b []byte, tag uint32, incarnation uint64) {
	binary.BigEndian.PutUint32(b, tag)
	binary.BigEndian.PutUint64(b[4:], incarnation)
}

// SendReset answers h: there is no such connection here, or no longer. It says what h
// said, crosswise, as if it were a frame of the connection: who has sent h can tell that
// this is the answer.
func (sh *Shared) SendReset(h *ethertype.Header) {
	var body [ResetSize]byte
	putReset(body[:], h.Tag, sh.incarnation)
	sh.SendControl(ethertype.Header{
		Dst: h.Src, Kind: ethertype.KindReset, DstPort: h.SrcPort, SrcPort: h.DstPort, Seq: h.Ack, Ack: h.Seq,
	}, body[:])
}
