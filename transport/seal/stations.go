package seal

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Stations is something that is known of each of some stations, of which anybody on the segment
// can make up more, so that it decides nothing. When there are too many, those are forgotten of
// which nothing has been noted for a while: made-up ones take the place of others for a
// minute, and no more are noted in one than there are places. It must not be shared between
// goroutines.
type Stations[V any] struct {
	Max int // how many are known at most

	by   map[ethertype.MAC]noted[V]
	full int64 // until when no place becomes free
}

type noted[V any] struct {
	what V
	at   int64
}

// KnownFor is for how many nanoseconds a station is known at least.
const KnownFor = int64(time.Minute)

// Get returns what is known of a station, and since when.
func (s *Stations[V]) Get(mac ethertype.MAC) (what V, at int64, ok bool) {
	n, ok := s.by[mac]
	return n.what, n.at, ok
}

// Note notes something of a station, and reports whether there is a place for it.
func (s *Stations[V]) Note(mac ethertype.MAC, what V, now int64) bool {
	if _, known := s.by[mac]; !known && !s.room(now) {
		return false
	}
	if s.by == nil {
		s.by = map[ethertype.MAC]noted[V]{}
	}
	s.by[mac] = noted[V]{what, now}
	return true
}

// room reports whether there is a place for one more station.
func (s *Stations[V]) room(now int64) bool {
	if len(s.by) < s.Max {
		return true
	}
	if now < s.full {
		return false
	}
	s.full = now + KnownFor
	for mac, n := range s.by {
		if free := n.at + KnownFor; free <= now {
			delete(s.by, mac)
		} else {
			s.full = min(s.full, free)
		}
	}
	return len(s.by) < s.Max
}
