package ring

import (
	"os"

	"golang.org/x/sys/unix"
)

// slotMTU is the largest MTU for which a slot holds a whole frame if the user of the link fetches
// the rest of longer frames (transport.LongLink). Copying a frame of 64 KiB to a slot and from
// there to its destination takes 1.5 times as long as fetching it from the kernel.
const slotMTU = 9000

// shrink replaces the ring by one with slots of slotMTU if the MTU of the link is larger. The
// kernel then keeps longer frames in the socket's queue as well. If the system does not permit the
// buffer for these, the ring stays as it is.
func (l *Link) shrink() {
	t, r := &l.long, &l.rx
	if t.keeps || t.failed != nil || l.info.MTU <= slotMTU || growBuffer(r.fd) != nil {
		return
	}
	if unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_COPY_THRESH, 1) != nil {
		return
	}
	geo := layout(slotMTU, l.slots)
	if t.failed = r.replace(geo); t.failed != nil {
		t.failed = l.station.OpenError("making the receive ring anew", t.failed)
		return
	}
	t.keeps, t.skipped = true, make([]byte, max(len(t.skipped), geo.capacity()))
}

// replace creates a new ring. Frames that arrive meanwhile are lost. After an error the slots read
// as empty.
func (r *receiver) replace(geo geometry) error {
	r.former = r.mapped
	r.mapped.retire() // the kernel keeps a ring while it is mapped
	if err := unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{}); err != nil {
		return os.NewSyscallError("PACKET_RX_RING", err)
	}
	return r.mapRing(geo)
}

// mapRing creates a ring and maps it.
func (r *receiver) mapRing(geo geometry) error {
	if err := unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, geo.request()); err != nil {
		return os.NewSyscallError("PACKET_RX_RING", err)
	}
	mapped, err := newMapping(r.fd, geo.size())
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.mapped, r.offsets, r.lent, r.stale = mapped, make([]uint32, geo.slots()), 0, 0
	r.at.Store(0)
	for i := range r.offsets {
		r.offsets[i] = uint32(geo.offset(i))
	}
	return nil
}
