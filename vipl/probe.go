package vipl

import "github.com/bobnet-go/bobnet/ethertype"

// padding is what full-size probes are filled with.
var padding [ethertype.MaxSize]byte

// sendProbe sends a Probe or ProbeAck with size bytes of payload.
func (v *VI) sendProbe(kind ethertype.Kind, size int) {
	n := v.nic
	slot := n.tx.slot(n)
	if slot == nil {
		return
	}
	h := v.header(kind)
	h.Flags |= ethertype.FlagWholeCRC
	h.Size, h.Length = uint16(size), uint32(v.pathData)
	h.Put(slot)
	n.tx.add(slot[:ethertype.HeaderSize], append(n.tx.body(), padding[:size]))
}
