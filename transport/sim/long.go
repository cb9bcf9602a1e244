package sim

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// LongPath says what becomes of the long frames (transport.LongLink) that a station sends.
type LongPath uint8

// The paths.
const (
	LongNone    LongPath = iota // the station has no long frames
	LongWhole                   // they arrive as they were sent
	LongCut                     // they arrive in segments, which the receiver counts and drops
	LongBlocked                 // they vanish
)

var _ transport.LongLink = (*Station)(nil)

// SetLong changes what becomes of the long frames that a station sends, also of those that have not yet reached the switch.
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

// long reports whether a frame of size bytes is a long one to the station.
func (s *Station) long(size int) bool { return size > s.opts.MTU+ethertype.EthernetSize }

// limit returns how many bytes a frame that the station sends has at most.
func (s *Station) limit() int {
	if s.takesLong {
		return max(framing.LongMTU, s.opts.MTU) + ethertype.EthernetSize
	}
	return s.opts.MTU + ethertype.EthernetSize
}

// stopLong drops what is too long for its receiver, or for the path. It reports whether it has.
func (w *World) stopLong(p passage) bool {
	size := len(p.frame.data)
	switch sent := p.from.long(size); {
	case !sent && !p.to.long(size):
		return false
	case sent && p.from.opts.Long == LongCut:
		segment := p.from.opts.MTU - framing.LongHeader
		if p.to.receivesLong {
			p.to.stats.RxCut += uint64((size - ethertype.EthernetSize + segment - 1) / segment)
		}
		w.drop(p, &w.stats.Cut, "cut")
	case sent && p.from.opts.Long == LongBlocked:
		w.drop(p, &w.stats.Cut, "blocked")
	case sent && p.to.receivesLong:
		return false
	default:
		w.drop(p, &w.stats.TooLong, "too long")
	}
	return true
}

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
