package sim

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// LongPath selects what happens to the long frames (transport.LongLink) that a station sends.
type LongPath uint8

// The paths.
const (
	LongNone    LongPath = iota // the station does not support long frames
	LongWhole                   // long frames arrive whole
	LongCut                     // the switch cuts long frames; random faults and the script apply to each segment, and the receiver joins them
	LongBlocked                 // long frames are lost
)

var _ transport.LongLink = (*Station)(nil)

// SetLong changes the path of the long frames that a station sends, including frames that have not yet reached the
// switch.
func (s *Station) SetLong(path LongPath) { s.opts.Long = path }

// StartLong implements transport.LongLink.
func (s *Station) StartLong() bool {
	s.takesLong = s.opts.Long != LongNone
	return s.takesLong
}

// ReceiveLong implements transport.LongLink.
func (s *Station) ReceiveLong(on bool) bool {
	s.receivesLong = on && s.takesLong
	return s.receivesLong
}

// long reports whether a frame of size bytes is a long frame for the station.
func (s *Station) long(size int) bool { return size > s.opts.MTU+ethertype.EthernetSize }

// limit returns the maximum length, in bytes, of a frame that the station sends.
func (s *Station) limit() int {
	if s.takesLong {
		return max(framing.LongMTU, s.opts.MTU) + ethertype.EthernetSize
	}
	return s.opts.MTU + ethertype.EthernetSize
}

// stopLong drops a frame that is too long for its receiver or for the path. It reports whether it has dropped the
// frame.
func (w *World) stopLong(p passage) bool {
	size := len(p.frame.data)
	switch sent := p.from.long(size); {
	case !sent && !p.to.long(size):
		return false
	case sent && p.from.opts.Long == LongCut && p.to.receivesLong:
		w.cut(p)
	case sent && p.from.opts.Long == LongBlocked:
		w.drop(p, &w.stats.Blocked, "blocked")
	case sent && p.to.receivesLong:
		return false
	default:
		w.drop(p, &w.stats.TooLong, "too long")
	}
	return true
}

// cut forwards a long frame as segments, like those that the sender's kernel or card makes.
func (w *World) cut(p passage) {
	const header = ethertype.EthernetSize + framing.LongHeader
	long := p.frame.data
	most := p.from.opts.MTU - framing.LongHeader
	var headers [header]byte
	framing.PutLong(headers[:], long, len(long))
	w.stats.Copies--
	for at := ethertype.EthernetSize; at < len(long); at += most {
		part := long[at:min(at+most, len(long))]
		segment := w.pool.newFrame(header + len(part))
		copy(segment.data, headers[:])
		copy(segment.data[header:], part)
		framing.SetSegment(segment.data, at-ethertype.EthernetSize)
		w.stats.Copies++
		w.pass(passage{segment, p.from, p.to})
	}
	w.pool.release(p.frame)
}

// deliverSegment joins a segment with the other segments of its long frame. It reports whether the frame is a segment.
func (w *World) deliverSegment(p passage) bool {
	s, data := p.to, p.frame.data
	if framing.JudgeLong(data, len(data), s.opts.EtherType) != framing.LongCut {
		return false
	}
	if !s.receivesLong {
		s.stats.RxFiltered++
		w.drop(p, &w.stats.Filtered, "filtered")
		return true
	}
	w.stats.Delivered++
	w.mix(p)
	w.log(p, "delivered")
	s.stats.RxCut++
	if s.joiner == nil {
		s.joiner = new(framing.Joiner)
	}
	dst := s.joiner.Place(data, len(data))
	s.stats.RxTorn += uint64(s.joiner.Torn)
	s.joiner.Torn = 0
	if dst != nil {
		copy(dst, data[ethertype.EthernetSize+framing.LongHeader:])
		if whole := s.joiner.Placed(); whole != nil {
			f := w.pool.newFrame(len(whole))
			copy(f.data, whole)
			f.joined = true
			s.accept(f)
		}
	}
	w.pool.release(p.frame)
	return true
}

// accept queues a frame that was joined, if the station receives long frames and has room.
func (s *Station) accept(f *frame) {
	switch {
	case !s.wants(f.data):
		s.stats.RxFiltered++
	case s.rx.Len() >= s.opts.RxSlots:
		s.stats.RxDrops++
	default:
		s.rx.Push(f)
		s.wake()
		return
	}
	s.world.pool.release(f)
}

// Cut implements transport.LongLink.
func (s *Station) Cut() bool { return s.joined }

// Rest implements transport.LongLink.
func (s *Station) Rest() int { return s.rest }

// Fetch implements transport.LongLink.
func (s *Station) Fetch(from int, parts [][]byte) bool {
	if s.rest == 0 || from < ethertype.HeaderSize || from > transport.LongBegin {
		return false
	}
	s.rest = 0
	data := s.viewed[len(s.viewed)-1].data[from:]
	for _, part := range parts {
		n := copy(part, data)
		if data = data[n:]; n < len(part) {
			return false
		}
	}
	return true
}
