package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Messages that are posted faster than frames can be sent share frames. A frame costs the kernel
// microseconds at any length, a message in it some tens of nanoseconds. Each message follows a
// record with its length. Short messages are copied behind their records. The link gathers longer
// ones from the program's memory, so that packing needs no copy.

// packLong is the shortest message that shares long frames with others on a path that carries long
// frames. For shorter ones, collecting enough messages takes longer than the shared frame saves.
const packLong = 256

// A message with the maximum number of segments fits a frame next to another message.
const _ = uint(bodyParts - 2*MaxSegments)

// pack returns the load of the messages, from the cursor on, that share the next frame, as many as
// possible. A count below 2 means that none do.
func (t *txHalf) pack() (p frameLoad) {
	inline, room := t.c.shared.batch.Inline(), t.shared(t.c.SQ.at(t.cursor.next))
	for i := t.cursor.next; i != t.c.SQ.tail; i++ {
		d := t.c.SQ.at(i)
		if d.Op != code.OpSend || d.Fence && t.c.reads.outstanding() {
			break
		}
		w := p.Weigh(d.total, len(d.Segs()), inline)
		if !p.Fits(&w, room, inline) {
			break
		}
		p.Add(&w)
	}
	return p
}

// shared returns how many bytes a frame holds that d shares with later messages.
func (t *txHalf) shared(d *Descriptor) int {
	if d.total < packLong {
		return t.c.Path.Data
	}
	return t.c.Path.MaxData
}

// cutPacked removes the messages of p from the send queue.
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

// Messages that leave room in the last of this many frames are corked while others are in flight;
// see corks. Several frames in one call of the link cost less than one in each, but long frames
// should not wait.
const (
	corkFrames = 4
	corkBytes  = 32 << 10
)

// corkedFrames is the result of roomLeft: messages from..to-1 fill this many frames, and a further
// one with the given load.
type corkedFrames struct {
	from, to ethertype.Seq
	frames   int
	frameLoad
}

// roomLeft reports whether the unsent data leave room for another message like the last one in the
// maximum number of waiting frames. It examines each message once.
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

// joins reports whether d, which is not a send, goes in a short frame that may wait to share an
// Ethernet frame.
func (t *txHalf) joins(d *Descriptor) bool {
	return t.c.Path.joining.Peer != 0 && (d.Op == code.OpRDMARead || d.when == More && d.total <= copyMax)
}

// weigh returns what d adds to l: a record in a packed frame, or a separate frame in the Ethernet
// frame.
func (t *txHalf) weigh(l frameLoad, d *Descriptor, inline int) frameLoad {
	switch d.Op {
	case code.OpSend:
		return l.Weigh(d.total, len(d.Segs()), inline)
	case code.OpRDMARead:
		return joinedLoad(ethertype.RDMASize)
	}
	return joinedLoad(ethertype.RDMASize + int(d.total))
}

// anotherFrame reports whether another frame of room bytes may wait.
func (t *txHalf) anotherFrame(room int) bool {
	g := &t.corked
	return g.frames+1 < corkFrames && (g.frames+2)*room <= corkBytes
}

// beginFrame begins another frame for d and returns what d adds to it. The result is empty if no
// more frames may wait, or d does not fit a frame.
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

// fillPacked adds a frame of several messages. Messages outside the slot divide the slot's
// contents: its pieces and these messages alternate. It returns false if data no longer exist.
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
		w := p.Weigh(d.total, len(d.Segs()), sh.batch.Inline())
		p.Add(&w)
		if w.Parts == 0 {
			if !memory.CopyOut(slot[at:], d.Segs(), 0, d.total) {
				return t.altered()
			}
			at += int(d.total)
		} else {
			if head == nil {
				head = slot[:at]
			} else {
				body = append(body, slot[piece:at])
			}
			if body, ok = memory.AppendParts(body, d.Segs(), 0, d.total); !ok {
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
	sh.batch.Add(head, body, nil)
	return true
}
