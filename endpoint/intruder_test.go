package endpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/vipl"
)

// intruder is a program that speaks to a node by bare VIs, and sends what it
// likes.
type intruder struct {
	nic     *vipl.NIC
	vi      *vipl.VI
	mem     []byte
	h       vipl.MemHandle
	send    vipl.Descriptor
	recvs   [intruderReceives]vipl.Descriptor
	segs    [intruderReceives + 1][1]vipl.Segment
	rng     *rand.Rand
	heard   int               // messages
	uses    [5]uint32         // that the other side has named last, by slot
	top     uint32            // the highest of them
	sent    uint32            // the number of its last request, as it thinks
	window  [windowKnown]byte // that the other side has opened last
	windows []byte            // that it has opened for batches
}

const (
	intruderReceives = 16
	windowKnown      = 12
)

func newIntruder(nic *vipl.NIC, seed uint64) (*intruder, error) {
	x := &intruder{nic: nic, mem: make([]byte, (intruderReceives+1)*endpoint.MessageSize), rng: rand.New(rand.NewPCG(seed, 3))}
	var err error
	x.h, err = nic.RegisterMem(x.mem, nil)
	return x, err
}

// intrude makes an intruder that is connected to what c has mapped first, as a client
// with so many slots.
func (c *party) intrude(n *endpoint.Node, slots int) (*intruder, error) {
	to, _, _ := c.ep.Translation(0)
	x, err := newIntruder(n.NIC(), 1)
	if err == nil {
		err = x.newVI()
	}
	if err == nil {
		err = x.vi.Connect(bg, to.Addr, endpoint.HelloFor(c.ep.Name(), to, slots))
	}
	return x, err
}

func (x *intruder) newVI() (err error) {
	if x.vi != nil {
		x.vi.Close()
	}
	x.send, x.windows, x.top, x.sent = vipl.Descriptor{}, nil, 0, 0
	if x.vi, err = x.nic.CreateVI(nil, nil, nil); err != nil {
		return err
	}
	for i := range x.recvs {
		part := x.mem[(i+1)*endpoint.MessageSize:][:endpoint.MessageSize]
		x.segs[i] = [1]vipl.Segment{{Data: part, Handle: x.h}}
		x.recvs[i] = vipl.Descriptor{Segs: x.segs[i][:]}
		if err := x.vi.PostRecv(&x.recvs[i]); err != nil {
			return err
		}
	}
	return nil
}

// say sends a message, sees it arrive, and takes what has come meanwhile. It
// reports false when the connection is gone.
func (x *intruder) say(msg []byte) bool {
	n := copy(x.mem[:endpoint.MessageSize], msg)
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:n], Handle: x.h}}
	x.send = vipl.Descriptor{Segs: x.segs[intruderReceives][:]}
	return x.post() && x.hear()
}

func (x *intruder) post() bool {
	if x.vi.PostSend(&x.send) != nil {
		return false
	}
	_, err := x.vi.SendWait(bg)
	return err == nil
}

// hear takes what has come, and learns from it how to be a better intruder.
func (x *intruder) hear() bool {
	for {
		d, err := x.vi.RecvDone()
		if errors.Is(err, vipl.ErrNotDone) || errors.Is(err, vipl.ErrQueueEmpty) {
			return true
		}
		if err != nil {
			return false
		}
		x.heard++
		if d.Status&vipl.StatusOpMask == vipl.StatusOpReceive {
			x.learn(d.Segs[0].Data[:d.Length])
		}
		if x.vi.PostRecv(d) != nil {
			return false
		}
	}
}

func (x *intruder) learn(b []byte) {
	if len(b) < endpoint.BaseSize {
		return
	}
	if slot := binary.LittleEndian.Uint16(b[4:]); int(slot) < len(x.uses) {
		x.uses[slot] = binary.LittleEndian.Uint32(b[8:])
		x.top = max(x.top, x.uses[slot])
	}
	switch b[0] {
	case endpoint.KindClear:
		copy(x.window[:], b[endpoint.BaseSize:])
	case endpoint.KindWindows:
		x.windows = bytes.Clone(b[endpoint.BaseSize:])
	}
}

// write writes to the memory that was opened last, or near it, and says for some
// slot that its data is there.
func (x *intruder) write() bool {
	to, slot, size := x.target()
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:size], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: true, Immediate: slot, Remote: to}
	return x.post() && x.hear()
}

// writeBatch writes mutants to a window for batches, or near it, and says for some
// window that they are there.
func (x *intruder) writeBatch(tag endpoint.Tag) bool {
	r := x.rng
	msg := x.mutant(tag, endpoint.ClientKinds)
	for more := r.IntN(4); more > 0 && len(msg) >= endpoint.BaseSize; more-- {
		msg = endpoint.Join(msg, x.mutant(tag, endpoint.ClientKinds))
	}
	n := copy(x.mem[:endpoint.MessageSize], msg)
	count := len(x.windows) / windowKnown
	known := x.windows[r.IntN(count)*windowKnown:]
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:n], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: r.IntN(8) > 0, Immediate: uint32(batchCredits + r.IntN(count+1)),
		Remote: vipl.RemoteSegment{Addr: binary.LittleEndian.Uint64(known) + uint64(r.IntN(3)*r.IntN(2)), Handle: vipl.MemHandle(binary.LittleEndian.Uint32(known[8:]))}}
	return x.post() && x.hear()
}

// target returns the window that was opened last, or a place near it, the number
// of some slot, and how much to write.
func (x *intruder) target() (to vipl.RemoteSegment, slot uint32, size int) {
	r := x.rng
	to.Addr = binary.LittleEndian.Uint64(x.window[:]) + uint64(r.IntN(3)*r.IntN(300)) - uint64(r.IntN(3)*r.IntN(300))
	to.Handle = vipl.MemHandle(binary.LittleEndian.Uint32(x.window[8:]))
	size = r.IntN(400)
	return to, uint32(r.IntN(6)), size
}

func (x *intruder) windowAddr() uint64 { return binary.LittleEndian.Uint64(x.window[:]) }

// mutant returns a message that is right, or nearly right, most of the time.
func (x *intruder) mutant(tag endpoint.Tag, kinds []uint8) []byte {
	r := x.rng
	kind := kinds[r.IntN(len(kinds))]
	if r.IntN(10) == 0 {
		kind = uint8(r.IntN(endpoint.Kinds))
	}
	slot := r.IntN(len(x.uses))
	use := x.uses[slot]
	if kind <= endpoint.KindGet || kind == endpoint.KindSkip && r.IntN(2) == 0 {
		use = x.number()
	}
	if r.IntN(8) == 0 {
		use = uint32(r.IntN(3))
	}
	length, data := x.content(kind)
	offset := uint64(0)
	if length > 0 {
		offset = r.Uint64N(5000)
	}
	if r.IntN(8) == 0 {
		offset, length = r.Uint64()>>r.IntN(64), r.Uint32()>>r.IntN(32)
	}
	msg := endpoint.Message(kind, uint8(10+r.IntN(4)), uint16(slot), use, tag, tag, offset, length, make([]uint32, r.IntN(4)), data)
	msg[3] = uint8(1 + r.IntN(10)) // the reason
	if r.IntN(8) == 0 {
		msg = endpoint.Join(msg, x.mutant(tag, kinds))
	}
	if r.IntN(2) == 0 {
		return msg
	}
	for range r.IntN(3) {
		msg[r.IntN(len(msg))] ^= 1 << r.IntN(8)
	}
	return msg[:len(msg)-r.IntN(2)*r.IntN(len(msg))]
}

// number returns the number of its next request, if all that it has sent as such were
// taken, or all those but a few last ones.
func (x *intruder) number() uint32 {
	if x.sent < x.top || x.rng.IntN(3) == 0 {
		x.sent = x.top
	}
	x.sent++
	return x.sent
}

// content returns the length that belongs into a message of some kind, and what
// follows its arguments.
func (x *intruder) content(kind uint8) (length uint32, data []byte) {
	r := x.rng
	junk := bytes.Repeat([]byte{0xEE}, r.IntN(200))
	switch kind {
	case endpoint.KindMedium, endpoint.KindReplyMedium:
		return 0, junk
	case endpoint.KindBulk, endpoint.KindReplyBulk:
		return uint32(len(junk)), junk
	case endpoint.KindAnnounce, endpoint.KindReplyAnnounce:
		return 1 + r.Uint32N(6000), nil
	case endpoint.KindGet:
		return r.Uint32N(6000), make([]byte, 8)
	case endpoint.KindClear:
		return 0, x.window[:]
	}
	return 0, nil
}
