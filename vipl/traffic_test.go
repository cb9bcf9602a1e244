package vipl_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// letter is one thing that a talker sends: a message, or an RDMA write into a
// slot of the other's window, or an RDMA read from one.
type letter struct {
	size int
	rdma bool
	slot int
	imm  bool // with immediate data; so it takes a receive
	read bool
	// fence keeps it from overtaking reads
	fence bool
}

func (l *letter) takesReceive() bool { return !l.read && (!l.rdma || l.imm) }

const (
	windowSlots = 4
	slotSize    = 16 << 10
	talkDepth   = 32 // receives posted
	talkAhead   = 12 // sends under way, so that the receives always suffice
)

// plan draws count letters of mixed sizes: empty, small ones that pack, those
// around a frame's size, multi-frame ones, and one of big bytes if big > 0.
func plan(rng *rand.Rand, count, big int) []letter {
	letters := make([]letter, count)
	for i := range letters {
		l := &letters[i]
		switch rng.IntN(8) {
		case 0:
			l.size = 0
		case 1, 2, 3:
			l.size = rng.IntN(128)
		case 4:
			l.size = 1436 + rng.IntN(34) // a frame holds 1452
		case 5:
			l.size = rng.IntN(12_000)
		default:
			l.size = rng.IntN(1025)
		}
		l.imm = rng.IntN(4) == 0
		l.slot = rng.IntN(windowSlots)
		l.fence = rng.IntN(8) == 0
		if l.rdma = rng.IntN(5) == 0; !l.rdma && rng.IntN(4) == 0 {
			l.read, l.imm = true, false
		}
	}
	if big > 0 {
		letters[rng.IntN(count)] = letter{size: big}
	}
	letters[count-1] = letter{size: 1, imm: true} // tells that all before has arrived
	return letters
}

func longest(letters []letter) int {
	n := 0
	for i := range letters {
		if letters[i].takesReceive() && !letters[i].rdma {
			n = max(n, letters[i].size)
		}
	}
	return n
}

// talker is one end of a connection on which both sides send their letters.
// The processes of a simulated world take turns, so that the two ends may look
// at each other's memory.
type talker struct {
	seed     uint64
	letters  []letter
	other    *talker
	window   []byte
	windowH  vipl.MemHandle
	out, in  *buffers
	v        *vipl.VI
	sent     int // letters posted
	sentDone int
	got      int // letters of the other that have arrived, up to here
}

// newTalkers returns two ends with their plans.
func newTalkers(seed uint64, count, big int) (a, b *talker) {
	rng := rand.New(rand.NewPCG(seed, 0x7a1c))
	a = &talker{seed: 2 * seed, letters: plan(rng, count, big)}
	b = &talker{seed: 2*seed + 1, letters: plan(rng, count, big)}
	a.other, b.other = b, a
	return a, b
}

// prepare registers memory and posts receives on an idle VI.
func (k *talker) prepare(v *vipl.VI) (err error) {
	k.v, v.Context = v, k
	k.window = make([]byte, windowSlots*slotSize)
	if k.windowH, err = v.NIC().RegisterMem(k.window, &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}); err != nil {
		return err
	}
	if k.out, err = newBuffers(v.NIC(), talkAhead, max(longest(k.letters), slotSize)); err != nil {
		return err
	}
	if k.in, err = newBuffers(v.NIC(), talkDepth, longest(k.other.letters)); err != nil {
		return err
	}
	for i := range k.in.descs {
		if err := v.PostRecv(&k.in.descs[i]); err != nil {
			return err
		}
	}
	return nil
}

// send posts letters as long as there is a buffer for them.
func (k *talker) send() error {
	for ; k.sent < len(k.letters) && k.sent-k.sentDone < talkAhead; k.sent++ {
		l := &k.letters[k.sent]
		d := &k.out.descs[k.sent%talkAhead]
		buf := k.out.data(k.sent % talkAhead)[:l.size]
		content(k.seed, k.sent, buf)
		d.Op, d.HasImmediate, d.Immediate, d.Fence = vipl.OpSend, l.imm, uint32(k.sent), l.fence
		d.Segs = split(buf, k.out.h, k.sent)
		if l.read {
			d.Op = vipl.OpRDMARead
		} else if l.rdma {
			d.Op = vipl.OpRDMAWrite
		}
		if d.Op != vipl.OpSend {
			d.Remote = vipl.RemoteSegment{Addr: vipl.VirtualAddress(k.other.window[l.slot*slotSize:]), Handle: k.other.windowH}
		}
		if err := k.v.PostSend(d); err != nil {
			return fmt.Errorf("post letter %d: %w", k.sent, err)
		}
	}
	return nil
}

// split cuts buf into one to three segments.
func split(buf []byte, h vipl.MemHandle, i int) []vipl.Segment {
	switch {
	case i%3 == 0 || len(buf) < 3:
		return []vipl.Segment{{Data: buf, Handle: h}}
	case i%3 == 1:
		return []vipl.Segment{{Data: buf[:1], Handle: h}, {Data: nil}, {Data: buf[1:], Handle: h}}
	}
	third := len(buf) / 3
	return []vipl.Segment{{Data: buf[:third], Handle: h}, {Data: buf[third : 2*third], Handle: h}, {Data: buf[2*third:], Handle: h}}
}

// receive checks a completed receive against the next letter that takes one.
func (k *talker) receive(d *vipl.Descriptor) error {
	for k.got < len(k.other.letters) && !k.other.letters[k.got].takesReceive() {
		k.got++
	}
	if k.got == len(k.other.letters) {
		return fmt.Errorf("a message beyond the last one came: %v", d.Status)
	}
	i, l := k.got, &k.other.letters[k.got]
	k.got++
	want := vipl.StatusDone | vipl.StatusOpReceive
	if l.rdma {
		want = vipl.StatusDone | vipl.StatusOpRemoteRDMAWrite
	}
	if l.imm {
		want |= vipl.StatusImmediate
	}
	switch {
	case d.Status != want || int(d.Length) != l.size:
		return fmt.Errorf("letter %d came as %v with %d bytes, want %v with %d", i, d.Status, d.Length, want, l.size)
	case d.HasImmediate != l.imm || l.imm && d.Immediate != uint32(i):
		return fmt.Errorf("letter %d has immediate %v %d, want %v", i, d.HasImmediate, d.Immediate, l.imm)
	}
	if l.rdma {
		if !k.current(l.slot, i) {
			return fmt.Errorf("RDMA write %d with immediate data completed before its data were in place", i)
		}
	} else if err := check(k.other.seed, i, d.Segs[0].Data[:l.size]); err != nil {
		return err
	}
	return k.v.PostRecv(d)
}

// current reports whether slot holds what it holds after letter i, as far as
// that can be told: a later write to it may be under way.
func (k *talker) current(slot, i int) bool {
	for _, l := range k.other.letters[i+1 : k.other.sent] {
		if l.rdma && l.slot == slot {
			return true
		}
	}
	return bytes.Equal(k.slotAfter(slot, i), k.window[slot*slotSize:(slot+1)*slotSize])
}

// slotAfter returns what a slot holds when all letters up to i are in place.
func (k *talker) slotAfter(slot, i int) []byte {
	b := make([]byte, slotSize)
	for j := range k.other.letters[:i+1] {
		if l := &k.other.letters[j]; l.rdma && l.slot == slot {
			content(k.other.seed, j, b[:l.size])
		}
	}
	return b
}

// readRight checks a completed letter, if it was a read: each byte is as all
// writes before it have left it, or from a later one that may have overtaken
// the read.
func (k *talker) readRight(d *vipl.Descriptor) error {
	i, l := k.sentDone, &k.letters[k.sentDone]
	if !l.read {
		return nil
	}
	if d.Status != vipl.StatusDone|vipl.StatusOpRDMARead || int(d.Length) != l.size {
		return fmt.Errorf("read %d is %v with %d bytes, want %d", i, d.Status, d.Length, l.size)
	}
	got := k.out.data(i % talkAhead)[:l.size]
	versions := [][]byte{k.other.slotAfter(l.slot, i)[:l.size]}
	for j := i + 1; j < k.sent && !k.letters[j].fence; j++ {
		if w := &k.letters[j]; w.rdma && w.slot == l.slot {
			b := make([]byte, min(w.size, l.size))
			version := make([]byte, w.size)
			content(k.seed, j, version)
			copy(b, version)
			versions = append(versions, b)
		}
	}
	for p := range got {
		if !slices.ContainsFunc(versions, func(b []byte) bool { return p < len(b) && b[p] == got[p] }) {
			return fmt.Errorf("byte %d of read %d is from none of %d versions", p, i, len(versions))
		}
	}
	return nil
}

func (k *talker) finished() bool {
	return k.sentDone == len(k.letters) && k.got == len(k.other.letters)
}

// settled checks the memory after everything has arrived.
func (k *talker) settled() error {
	for slot := range windowSlots {
		want, got := k.slotAfter(slot, len(k.other.letters)-1), k.window[slot*slotSize:(slot+1)*slotSize]
		if !bytes.Equal(want, got) {
			return fmt.Errorf("slot %d of the window holds not what was written last", slot)
		}
	}
	return nil
}

// talk serves the completion queue until every talker is through.
func talk(cq *vipl.CQ, talkers []*talker) error {
	for _, k := range talkers {
		if err := k.send(); err != nil {
			return err
		}
	}
	for left := len(talkers); left > 0; {
		v, recv, err := cq.Wait(bg)
		if err != nil {
			return err
		}
		k := v.Context.(*talker)
		was := k.finished()
		if recv {
			var d *vipl.Descriptor
			if d, err = v.RecvDone(); err == nil {
				err = k.receive(d)
			}
		} else if d, e := v.SendDone(); e != nil {
			err = e
		} else if err = k.readRight(d); err == nil {
			k.sentDone++
			err = k.send()
		}
		if err != nil {
			return fmt.Errorf("%w (sent %d, got %d, VI: %v)", err, k.sentDone, k.got, v.Err())
		}
		if !was && k.finished() {
			left--
		}
	}
	return nil
}

// converse connects vis pairs of talkers on one segment and lets them talk.
func converse(opts sim.Options, attr vipl.Attributes, vis, count, big int) error {
	return newWorld(opts).converse(attr, vis, count, big)
}

func (w *world) converse(attr vipl.Attributes, vis, count, big int) error {
	var as, bs []*talker
	for i := range vis {
		a, b := newTalkers(w.seed*16+uint64(i), count, big)
		as, bs = append(as, a), append(bs, b)
	}
	var server ethertype.MAC
	attr.EnableRDMAWrite, attr.EnableRDMARead = true, true
	attr.ReadDepth = 1 + int(w.seed)%5
	server = w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		cq, _ := n.CreateCQ(vis * 2 * 1024)
		for i := range bs {
			if err := answer(n, l, cq, attr, bs[i]); err != nil {
				return err
			}
		}
		return through(w, n, cq, bs)
	}).MAC()
	w.node("client", nil, func(n *vipl.NIC) error {
		cq, _ := n.CreateCQ(vis * 2 * 1024)
		for i := range as {
			v, err := n.CreateVI(&attr, cq, cq)
			if err != nil {
				return err
			}
			if err := as[i].prepare(v); err != nil {
				return err
			}
			if err := dial(v, ethertype.Addr{MAC: server, Port: service}); err != nil {
				return fmt.Errorf("connect: %w", err)
			}
		}
		return through(w, n, cq, as)
	})
	return w.run()
}

// answer accepts one connection for k.
func answer(n *vipl.NIC, l *vipl.Listener, cq *vipl.CQ, attr vipl.Attributes, k *talker) error {
	r, err := l.Wait(bg)
	if err != nil {
		return err
	}
	v, err := n.CreateVI(&attr, cq, cq)
	if err != nil {
		return err
	}
	if err := k.prepare(v); err != nil {
		return err
	}
	return r.Accept(bg, v)
}

// through lets talkers talk and leaves only when both sides are through, so
// that nobody's last acknowledgement is cut off.
func through(w *world, n *vipl.NIC, cq *vipl.CQ, talkers []*talker) error {
	if err := talk(cq, talkers); err != nil {
		return err
	}
	for _, k := range talkers {
		for !k.other.finished() && len(w.errs) == 0 {
			if err := driveMs(n); err != nil {
				return err
			}
		}
		if err := k.settled(); err != nil {
			return err
		}
	}
	return nil
}

// driveMs drives a simulated NIC for a millisecond.
func driveMs(n *vipl.NIC) error {
	n.Poll()
	return seam.Link(n).Wait(n.Now() + 1_000_000)
}
