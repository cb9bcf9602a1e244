package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Long frames (framing.LongMTU) leave by a socket of their own, on which every
// frame has a header in front that tells the kernel to treat it as TCP to be
// segmented (PACKET_VNET_HDR). They arrive by the ring, of which a slot holds
// only their beginning; the kernel keeps the frame besides (PACKET_COPY_THRESH),
// and it is copied from there, once, to where it belongs.
type long struct {
	fd    int  // -1: no long frames
	on    bool // somebody wants them
	heads [transport.MaxBatch]longHead
	msgs  [transport.MaxBatch]unix.Mmsghdr

	keeps   bool   // the kernel keeps plain frames, too, that are longer than a slot: see shrink
	failed  error  // of shrink: the link has no ring
	kept    bool   // the kernel keeps a frame that nobody has fetched
	before  int    // what it has of that frame before the view: the shim of a long one
	rest    int    // bytes of it that the view lacks
	view    []byte // what the caller has of it
	skipped []byte // room for what precedes the part of a frame that is wanted
	vecs    [1 + maxFetch]unix.Iovec
}

// longHead is what precedes the Bobnet header of a long frame.
type longHead [longHeadSize]byte

const (
	vnetSize     = 10 // struct virtio_net_hdr
	longHeadSize = vnetSize + ethertype.EthernetSize + framing.ShimSize
	// longSegment is what the kernel is told to cut the frame into. No frame gets
	// to where it would be done.
	longSegment = 1024
	maxFetch    = 2 + transport.MaxBody
)

// errNoLong is wrapped by the errors of Open that say why Config.Long cannot be On.
var errNoLong = errors.New("transport: no long frames")

var _ transport.LongLink = (*Link)(nil)

// openLong makes the sending socket, if the interface carries long frames, and
// has the receiving one, whose slots hold capacity bytes, take them.
func (l *Link) openLong(cfg *Config, capacity int) (err error) {
	t, s := &l.long, l.station
	if cfg.Long == Off {
		return nil
	}
	if err := l.longError(capacity); err != nil {
		if cfg.Long == On {
			return err
		}
		return nil //nolint:nilerr // nobody asked for them
	}
	if t.fd, err = sendingSocket(s, cfg.QdiscBypass || cfg.XDP == On); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return s.OpenError("PACKET_VNET_HDR", err)
	}
	if err := unix.SetsockoptInt(l.rx.fd, unix.SOL_PACKET, unix.PACKET_COPY_THRESH, 1); err != nil {
		return s.OpenError("PACKET_COPY_THRESH", err)
	}
	t.init(s)
	t.skipped = make([]byte, capacity)
	return s.Attach(l.rx.fd, afpacket.WithLong)
}

// longError says why long frames cannot be had.
func (l *Link) longError(capacity int) error {
	if err := longPossible(l.station.Interface, capacity); err != nil {
		return err
	}
	if l.lease != nil && !l.lease.Long {
		return fmt.Errorf("%w: the kernel judges what the agent's sockets send, and cannot judge long frames; choose Long auto, or start the agent with --unguarded", errNoLong)
	}
	return growBuffer(l.rx.fd)
}

// longPossible says why an interface carries no long frames.
func longPossible(s iface.Interface, capacity int) error {
	driver, _ := iface.Driver(s.Name)
	switch {
	case s.MTU >= framing.LongMTU:
		return fmt.Errorf("%w: the MTU of %s is %d, and no frame is longer than %d; choose Long auto", errNoLong, s.Name, s.MTU, framing.LongMTU)
	case capacity < framing.ShimSize+transport.LongBegin:
		return fmt.Errorf("%w: the MTU of %s is %d; choose Long auto, or: ip link set dev %s mtu 1500", errNoLong, s.Name, s.MTU, s.Name)
	case driver != "veth":
		return fmt.Errorf("%w: %s is no veth interface, and only those carry them; choose Long auto", errNoLong, s.Name)
	}
	return nil
}

// init fills in what is the same in all frames.
func (t *long) init(s *afpacket.Station) {
	const (
		needsChecksum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
		gsoTCP4       = 1 // VIRTIO_NET_HDR_GSO_TCPV4
		ipSize        = 20
		checksumAt    = 16 // in a TCP header
	)
	to := &unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Ifindex: int32(s.Index),
		// In network order. The kernel goes by it and not by what the frame says.
		Protocol: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP))}
	for i := range t.heads {
		h, native := &t.heads[i], binary.NativeEndian
		h[0], h[1] = needsChecksum, gsoTCP4
		native.PutUint16(h[4:], longSegment)
		native.PutUint16(h[6:], ethertype.EthernetSize+ipSize) // where the checksum begins
		native.PutUint16(h[8:], checksumAt)
		framing.PutShim(h[vnetSize+ethertype.EthernetSize:])
		t.address(i, to)
	}
}

// fillHead fills in the beginning of message i, whose frame is f. What the kernel is
// told of the size of the headers decides which part of the frame it keeps in one
// piece. To copy to one piece takes two thirds of the time.
func (t *long) fillHead(i int, f *transport.Frame, whole bool) {
	h := &t.heads[i]
	headers := ethertype.EthernetSize + framing.ShimSize
	if whole {
		headers = f.Len() + framing.ShimSize
	}
	binary.NativeEndian.PutUint16(h[2:], uint16(headers))
	copy(h[vnetSize:], f.Head[:ethertype.EthernetSize])
}

// StartLong implements transport.LongLink.
func (l *Link) StartLong() bool {
	l.long.on = l.long.fd >= 0
	l.shrink()
	return l.long.on
}

// sendLong makes one system call for as many of frames as are long, from the
// first on, which is longer than limit.
func (l *Link) sendLong(frames []transport.Frame, limit int) (took int, more bool, err error) {
	const longest = framing.LongMTU + ethertype.EthernetSize
	n := 0
	for n < len(frames) && frames[n].Len() > limit && frames[n].Len() <= longest && len(frames[n].Body) <= transport.MaxBody {
		n++
	}
	if n == 0 {
		return 0, false, transport.ErrFrameSize
	}
	took, octets, errno := l.long.send(frames[:n], true, l.tx.vecs[:])
	if errno == unix.ENOBUFS { // the kernel's memory is in small pieces
		took, octets, errno = l.long.send(frames[:n], false, l.tx.vecs[:])
	}
	if errno == unix.ENOMEM { // as well when the interface carries them no more: it will never have room
		errno = unix.EINVAL
	}
	return l.sent(took, octets, errno)
}

// longVerdict is what a frame is that is longer than its slot.
type longVerdict uint8

const (
	longNone longVerdict = iota // no long frame
	longKept                    // its view is there, and the rest can be fetched
	longLost                    // the kernel had no room to keep it
)

// keep judges a frame of which slot is what its slot of the ring holds, and notes
// whether the kernel keeps it besides.
func (t *long) keep(hdr *unix.Tpacket2Hdr, slot []byte) longVerdict {
	const shim = ethertype.EthernetSize // its offset
	kept := hdr.Status&unix.TP_STATUS_COPY != 0
	if kept {
		t.kept, t.rest, t.view = true, 0, nil
	}
	switch {
	case t.fd >= 0 && len(slot) >= framing.ShimSize+transport.LongBegin && slot[shim] == framing.ShimVersion:
		t.before = framing.ShimSize
	case t.keeps && slot[shim] == ethertype.Version:
		t.before = 0
	default:
		return longNone
	}
	if !kept {
		return longLost
	}
	t.view = slot[t.before:]
	if t.before > 0 {
		copy(t.view[:shim], slot) // the Ethernet header, in the place of the shim's end
	}
	t.rest = int(hdr.Len) - len(slot)
	return longKept
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int { return l.long.rest }

// Fetch implements transport.LongLink. It usually makes one system call.
func (l *Link) Fetch(from int, parts [][]byte) bool {
	t := &l.long
	if t.rest == 0 || from < ethertype.HeaderSize || from > len(t.view) || len(parts) > maxFetch || !l.gate.Enter() {
		return false
	}
	defer l.gate.Leave()
	skipped := t.skipped[:t.before+from]
	want := len(skipped)
	for _, part := range parts {
		want += len(part)
	}
	view := t.view
	t.kept, t.rest, t.view = false, 0, nil
	for {
		got := t.fetch(l.rx.fd, skipped, parts)
		if got == 0 {
			return false
		}
		if got >= len(skipped) && sameFrame(skipped, view[:from]) {
			return got == want
		}
	}
}

// sameFrame reports whether the beginning of a frame that the kernel has kept, with
// its shim, is that of which view is. What the kernel keeps comes in the order of the
// slots; but nothing may lie where a frame belongs that is not the one whose header
// was judged, and one that was left by mistake must not keep back those behind it.
func sameFrame(kept, view []byte) bool {
	const macs = 2 * 6
	return bytes.Equal(kept[:macs], view[:macs]) &&
		bytes.Equal(kept[len(kept)-len(view)+ethertype.EthernetSize:], view[ethertype.EthernetSize:])
}

// dropLong drops the frame that nobody has fetched.
func (l *Link) dropLong() {
	t := &l.long
	t.fetch(l.rx.fd, t.skipped[:1], nil)
	t.kept, t.rest, t.view = false, 0, nil
}
