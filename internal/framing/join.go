package framing

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Joiner reassembles long frames from their segments. The kernel or card of the sender cuts a long
// frame if it is the last that can (segmentation offload), and the receiving host may join some of
// the segments again (GRO). So segments have any length.
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
	current *joining // frame of the last segment
	span    span     // place of the last segment

	Torn int // number of dropped segments: other segments of their frame are missing, or they repeat or overlap others
}

// joinFrames is the maximum number of incomplete frames. The segments of so many senders may arrive
// in turns. The memory of a frame is allocated when it is first needed.
const joinFrames = 32

// joinSpans is the maximum number of separate parts of an incomplete frame.
const joinSpans = 16

// joining is an incomplete frame.
type joining struct {
	begun    bool
	id       [joinID]byte // stations, ports, CRC, length, EtherType and tag, sequence number
	used     uint64       // when the last segment arrived, by Joiner.clock
	segments int
	spans    [joinSpans]span // ranges of the bytes that have arrived, in order, with gaps between them
	n        int             // of spans
	frame    []byte          // the frame, beginning with its Ethernet header
}

// span is a range of bytes after the headers of a long frame.
type span struct{ from, to int }

// joinID is the length of the fields that are equal in all segments of a frame.
const joinID = OffsetType + 4 + 4 + 2 + 6 + 2

// Place returns the memory for the data of a segment, or nil if the segment must be dropped. The
// segment has size bytes and begins with begin, which has the headers. JudgeLong has classified it
// as LongCut. When the caller has copied the data, it calls Placed.
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

// Placed records that the data are in the memory that Place has returned. If the frame is complete,
// Placed returns it without the headers that PutLong has added. It is valid until the next call of
// Place.
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

// find returns the incomplete frame with an id. If none of its segments has arrived before, find
// creates the frame. It returns nil if no frame can have this length.
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

// free reports whether none of the bytes of s has arrived, s lies in the frame, and f.spans has
// room for s.
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

// before returns the number of spans before s.
func (f *joining) before(s span) (i int) {
	for i < f.n && f.spans[i].from < s.from {
		i++
	}
	return i
}

// add adds s, for which free must have returned true.
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
