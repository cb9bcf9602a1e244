package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Messages that are posted faster than frames leave share frames: a frame costs
// the kernel microseconds whatever its length, a message in it some tens of
// nanoseconds. Each message lies behind a record that says how long it is. Short
// ones are copied behind their records; longer ones are gathered by the link from
// where they lie, so that packing costs them no copy.

// packLong is the shortest message that shares long frames with others, where the
// path carries those: shorter ones would have to be so many that to collect them takes
// longer than frames save.
const packLong = 256

// A message of as many segments as there may be fits a frame beside another.
const _ = uint(bodyParts - 2*MaxSegments)

// pack returns which messages from the cursor on share the next frame, at least
// as many as there are that can. A count below 2 means none.
func (t *txHalf) pack() (p frameLoad) {
	inline, room := t.c.shared.batch.Inline(), t.shared(t.c.SQ.at(t.cursor.next))
	for i := t.cursor.next; i != t.c.SQ.tail; i++ {
		d := t.c.SQ.at(i)
		if d.Op != code.OpSend || d.Fence && t.c.reads.outstanding() {
			break
		}
		w := p.Weigh(d.total, len(d.Segs), inline)
		if !p.Fits(&w, room, inline) {
			break
		}
		p.Add(&w)
	}
	return p
}

// shared returns how many bytes a frame holds that d shares with messages behind
// it.
func (t *txHalf) shared(d *Descriptor) int {
	if d.total < packLong {
		return t.c.Path.Data
	}
	return t.c.Path.MaxData
}

// cutPacked takes the messages of p off the send queue.
func (t *txHalf) cutPacked(p *frameLoad) reliability.Sent {
	next := &t.cursor
	f := reliability.Sent{First: next.next, Size: uint32(p.Size), Count: uint16(p.Count)}
	for range p.Count {
		d := t.c.SQ.at(next.next)
		d.txState = txState{msg: next.msg, first: t.sender.NextSeq(), last: t.sender.NextSeq()}
		if d.AckNow {
			f.Flags = sentAsks
		}
		next.msg++
		next.next++
	}
	return f
}

// Messages that leave room in the last of so many frames are corked while others
// are under way; see cork. Several frames in one call of the link cost
// less than one in each, but long ones should be on their way.
const (
	corkFrames = 4
	corkBytes  = 32 << 10
)

// corkedFrames is what roomLeft has found: messages from..to-1 make so many full frames,
// and one that the load describes.
type corkedFrames struct {
	from, to ethertype.Seq
	frames   int
	frameLoad
}

// roomLeft reports whether what is unsent leaves room for another message like the
// last in the frames that wait at most. It looks at each message once.
func (t *txHalf) roomLeft() bool {
	next, g := &t.cursor, &t.corked
	if next.offset > 0 {
		return false
	}
	if g.from != next.next || g.to.Less(next.next) {
		*g = corkedFrames{from: next.next, to: next.next}
	}
	inline, room := t.c.shared.batch.Inline(), t.shared(t.c.SQ.at(next.next))
	for ; g.to != t.c.SQ.tail; g.to++ {
		d := t.c.SQ.at(g.to)
		if d.Op != code.OpSend && !t.joins(d) {
			return false
		}
		w := t.weigh(g.frameLoad, d, inline)
		if !g.Fits(&w, room, inline) {
			if w = t.beginFrame(d, room, inline); w.Count == 0 {
				return false
			}
		}
		g.Add(&w)
	}
	if t.anotherFrame(room) {
		return true
	}
	w := t.weigh(g.frameLoad, t.c.SQ.at(g.to-1), inline)
	return g.Fits(&w, room, inline)
}

// joins reports whether d, which is no send, goes in a short frame that may wait for others to
// share an Ethernet frame with.
func (t *txHalf) joins(d *Descriptor) bool {
	return t.c.Path.joining.Peer != 0 && (d.Op == code.OpRDMARead || d.when == More && d.total <= copyMax)
}

// weigh returns what d adds to l: a record in a packed frame, or a frame of its own in the Ethernet
// frame.
func (t *txHalf) weigh(l frameLoad, d *Descriptor, inline int) frameLoad {
	switch d.Op {
	case code.OpSend:
		return l.Weigh(d.total, len(d.Segs), inline)
	case code.OpRDMARead:
		return joinedLoad(ethertype.RDMASize)
	}
	return joinedLoad(ethertype.RDMASize + int(d.total))
}

// anotherFrame reports whether one more frame of room bytes may wait.
func (t *txHalf) anotherFrame(room int) bool {
	g := &t.corked
	return g.frames+1 < corkFrames && (g.frames+2)*room <= corkBytes
}

// beginFrame begins another frame for d and returns what d adds to it: nothing
// if no more frames may wait, or d does not fit one.
func (t *txHalf) beginFrame(d *Descriptor, room, inline int) (w frameLoad) {
	g := &t.corked
	if !t.anotherFrame(room) {
		return w
	}
	var fresh frameLoad
	if w = t.weigh(fresh, d, inline); !fresh.Fits(&w, room, inline) {
		return frameLoad{}
	}
	g.frames++
	g.frameLoad = fresh
	return w
}

// fillPacked adds a frame of several messages. What does not lie in the slot
// divides it: its pieces and the messages take turns. It reports false when data
// are not there any more.
func (t *txHalf) fillPacked(slot []byte, f *reliability.Sent) bool {
	sh := t.c.shared
	body := sh.batch.Body()
	var head []byte
	var ok bool
	var p frameLoad
	piece, at := 0, ethertype.HeaderSize
	for i := range ethertype.Seq(f.Count) {
		d := t.c.SQ.at(f.First + i)
		ethertype.Record{Size: uint16(d.total), Immediate: d.Immediate, HasImm: d.HasImmediate}.Put(slot[at:])
		at += ethertype.RecordSize
		padding := ethertype.Packed(int(d.total)) - ethertype.RecordSize - int(d.total)
		w := p.Weigh(d.total, len(d.Segs), sh.batch.Inline())
		p.Add(&w)
		if w.Parts == 0 {
			if !memory.CopyOut(slot[at:], d.Segs, 0, d.total) {
				return t.altered()
			}
			at += int(d.total)
		} else {
			if head == nil {
				head = slot[:at]
			} else {
				body = append(body, slot[piece:at])
			}
			if body, ok = memory.AppendParts(body, d.Segs, 0, d.total); !ok {
				return t.altered()
			}
			piece = at
		}
		clear(slot[at : at+padding])
		at += padding
	}
	switch {
	case head == nil:
		t.c.Path.addShort(slot[:at])
		return true
	case piece < at:
		body = append(body, slot[piece:at])
	}
	sh.batch.Add(head, body)
	return true
}
