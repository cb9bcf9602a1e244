package framing

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Joiner puts long frames together that have arrived in segments. The kernel or card of the sender cuts
// a long frame if it is the last that can (segmentation offload), and the receiving host may join some of the
// segments again (GRO). So segments have any length.
//
// Each segment names its long frame: by both stations, the ports, the tag, the low bits of the sequence number and the
// CRC32C of the Bobnet header, and the frame's length. TCP's sequence number is its place. A segment is therefore placed as soon as it arrives, in any order,
// without the others. A frame is whole when each of its bytes has arrived once.
//
// A Joiner keeps up to joinFrames frames of which segments are missing. One more frame takes the place of the
// one whose last segment is the longest ago, whose segments then count as torn. It is pure, and must
// not be copied after its first use.
type Joiner struct {
	frames  [joinFrames]joining
	clock   uint64   // counts segments
	current *joining // of the last segment,
	span    span     // whose place this is

	Torn int // segments that were dropped: others of their frame are missing, or they repeat or overlap others
}

// joinFrames is how many frames can be partly there: of so many senders at a time segments may arrive
// in turns. The memory of a frame is allocated when it is first needed.
const joinFrames = 32

// joinSpans is in how many places a frame can be partly there.
const joinSpans = 16

// joining is a frame of which segments have arrived.
type joining struct {
	begun    bool
	id       [joinID]byte // stations, ports, CRC, length, EtherType and tag, sequence number
	used     uint64       // when the last segment arrived, by Joiner.clock
	segments int
	spans    [joinSpans]span // the bytes that have arrived, in order, no two next to each other
	n        int             // of spans
	frame    []byte          // from its Ethernet header on
}

// span is a range of bytes behind the headers of a long frame.
type span struct{ from, to int }

// joinID is the length of what all segments of a frame have in common.
const joinID = OffsetType + 4 + 4 + 2 + 6 + 2

// Place returns where the data of a segment belong, nil if nowhere. The segment has size bytes, of which begin has the
// headers, and JudgeLong has called it LongCut. Once the caller has copied the data, it calls Placed.
func (j *Joiner) Place(begin []byte, size int) []byte {
	outer := begin[ethertype.EthernetSize:]
	var id [joinID]byte
	copy(id[:OffsetType], begin)
	copy(id[OffsetType:], outer[longPorts:][:4])
	copy(id[OffsetType+4:], outer[longName:][:4])
	copy(id[OffsetType+8:], outer[longWindow:][:2])
	copy(id[OffsetType+10:], outer[longFrom+2:][:6])
	copy(id[OffsetType+16:], outer[longUrgent:][:2])
	f := j.current
	if f == nil || !f.begun || f.id != id {
		if f = j.find(&id); f == nil {
			return nil
		}
	}
	j.clock++
	f.used = j.clock
	at := int(binary.BigEndian.Uint32(outer[longSeq:]))
	s := span{at, at + size - ethertype.EthernetSize - LongHeader}
	if !f.free(s) {
		j.Torn++
		return nil
	}
	j.current, j.span = f, s
	return f.frame[ethertype.EthernetSize+s.from : ethertype.EthernetSize+s.to]
}

// Placed notes that the data are where Place has said. If the frame is whole now, Placed returns it, as it was before
// PutLong. It is valid until the next call of Place.
func (j *Joiner) Placed() (whole []byte) {
	f := j.current
	f.add(j.span)
	f.segments++
	if f.spans[0] != (span{0, len(f.frame) - ethertype.EthernetSize}) {
		return nil
	}
	f.begun = false
	return f.frame
}

// find returns the frame with an id, which it begins if none of its segments has arrived. It returns nil if no
// frame can have this length.
func (j *Joiner) find(id *[joinID]byte) *joining {
	oldest := &j.frames[0]
	for i := range j.frames {
		switch f := &j.frames[i]; {
		case f.begun && f.id == *id:
			return f
		case oldest.begun && (!f.begun || f.used < oldest.used):
			oldest = f
		}
	}
	size := int(binary.BigEndian.Uint16(id[OffsetType+8:]))
	if size > LongMTU {
		j.Torn++
		return nil
	}
	if oldest.begun {
		j.Torn += oldest.segments
	}
	room := oldest.frame[:cap(oldest.frame)]
	if room == nil {
		room = make([]byte, ethertype.EthernetSize+LongMTU)
	}
	*oldest = joining{begun: true, id: *id, frame: room[:ethertype.EthernetSize+size]}
	copy(oldest.frame, id[:OffsetType])
	copy(oldest.frame[OffsetType:], id[OffsetType+10:][:2])
	return oldest
}

// free reports whether none of the bytes of s has arrived, s lies in the frame, and there is room to note it.
func (f *joining) free(s span) bool {
	if s.to > len(f.frame)-ethertype.EthernetSize {
		return false
	}
	i := f.before(s)
	if i > 0 && f.spans[i-1].to > s.from || i < f.n && f.spans[i].from < s.to {
		return false
	}
	return f.n < joinSpans || i > 0 && f.spans[i-1].to == s.from || i < f.n && f.spans[i].from == s.to
}

// before returns how many spans lie before s.
func (f *joining) before(s span) (i int) {
	for i < f.n && f.spans[i].from < s.from {
		i++
	}
	return i
}

// add adds a span that is free.
func (f *joining) add(s span) {
	i := f.before(s)
	left, right := i > 0 && f.spans[i-1].to == s.from, i < f.n && f.spans[i].from == s.to
	switch {
	case left && right:
		f.spans[i-1].to = f.spans[i].to
		copy(f.spans[i:f.n-1], f.spans[i+1:f.n])
		f.n--
	case left:
		f.spans[i-1].to = s.to
	case right:
		f.spans[i].from = s.from
	default:
		copy(f.spans[i+1:f.n+1], f.spans[i:f.n])
		f.spans[i] = s
		f.n++
	}
}
