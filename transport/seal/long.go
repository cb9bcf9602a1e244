package seal

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// Long frames
//
// A frame that is longer than the MTU is sealed in two parts: the beginning, from which its
// receiver learns the destination of the data, and the rest. The sender encrypts the data from
// their place in memory, and the receiver decrypts them to their destination, so each side saves a
// copy. The nonces of both parts contain the frame's counter, so parts of different frames do not
// fit together.
//
// Data that are decrypted to their destination are there before their tag is verified. If the tag
// is wrong, they are replaced by zeros. No program reads the memory of a receive or of an RDMA read
// before it is complete. But programs may read memory that others write to at any time. So the rest
// of any other frame is decrypted in the link's memory, and copied.

// restRx is the rest of a long frame whose beginning was passed on.
type restRx struct {
	from    *session // nil: there is none
	counter uint64
	size    int // bytes of the sealed rest
	begin   [transport.LongBegin]byte
	part    [1][]byte
}

// StartLong implements transport.LongLink. It returns the wrapped link's result.
func (l *Link) StartLong() bool {
	if !l.base.StartLong() {
		return false
	}
	l.limit = max(l.limit, framing.LongMTU+ethertype.EthernetSize)
	return true
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int {
	if l.rest.from != nil {
		return l.rest.size - framing.SealTagSize
	}
	return wrap.Long(&l.base).Rest()
}

// Fetch implements transport.LongLink.
func (l *Link) Fetch(from int, parts [][]byte) bool {
	r := &l.rest
	if r.from == nil {
		return wrap.Long(&l.base).Fetch(from, parts)
	}
	s := r.from
	r.from = nil
	if from < ethertype.HeaderSize || from > len(r.begin) {
		return false
	}
	sealed := l.longRoom()[:r.size]
	r.part[0] = sealed
	if !wrap.Long(&l.base).Link().Fetch(framing.SealedRest, r.part[:]) {
		return false
	}
	begin, room := r.begin[from:], sealed[:0]
	straight := r.straight(len(begin), parts)
	if straight {
		room = parts[0][len(begin):len(begin)]
	}
	rest, ok := s.openRest(room, sealed, r.counter)
	switch {
	case !ok:
		l.m.count.Altered.Add(1)
		return false
	case straight:
		copy(parts[0], begin)
		return true
	}
	return scatter(parts, begin, rest)
}

// straight reports whether the rest may be decrypted directly to parts, after n bytes of the
// beginning.
func (r *restRx) straight(n int, parts [][]byte) bool {
	kind := ethertype.Kind(r.begin[framing.OffsetKind])
	return (kind == ethertype.KindData || kind == ethertype.KindReadData) &&
		len(parts) == 1 && len(parts[0]) == n+r.size-framing.SealTagSize
}

// scatter copies begin and then rest to parts. It reports whether the parts are full.
func scatter(parts [][]byte, begin, rest []byte) bool {
	for _, part := range parts {
		n := copy(part, begin)
		begin = begin[n:]
		m := copy(part[n:], rest)
		if rest = rest[m:]; n+m < len(part) {
			return false
		}
	}
	return true
}

// restWithin returns how many missing bytes of the last view the wrapped link has.
func (l *Link) restWithin() int {
	if link := wrap.Long(&l.base).Link(); link != nil {
		return link.Rest()
	}
	return 0
}

// begins reports whether view, which lacks bytes, contains the first part of a long frame.
func begins(view []byte) bool {
	kind, ok := framing.IsSealed(view)
	return ok && kind == framing.KindSealedLong && len(view) >= framing.SealedRest
}

// openBegin opens the first part of a long frame. The wrapped link has the other rest bytes. It
// returns nil if the part must not be passed on.
func (l *Link) openBegin(view []byte, rest int, now int64) []byte {
	size := len(view) + rest - framing.SealedRest
	if size <= framing.SealTagSize || size > len(l.longRoom()) {
		l.m.count.Malformed.Add(1)
		return nil
	}
	s, counter := l.m.sessionOf(view, now)
	if s == nil {
		return nil
	}
	r := &l.rest
	begin := l.m.counted(l.m.openBegin(s, counter, r.begin[:], view[:framing.SealedRest], now))
	if begin != nil {
		r.from, r.counter, r.size = s, counter, size
	}
	return begin
}
