// Package stations bounds what a process remembers of stations that anybody on the segment can make up.
package stations

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Table remembers something about each of at most Max stations. A full table forgets stations that
// nothing has been noted of for KnownFor. Made-up stations can therefore displace others for a minute, and
// at most Max of them in that time: what the table holds must not decide anything. Goroutines must not
// share a Table.
type Table[V any] struct {
	Max int // most stations

	by   map[ethertype.MAC]noted[V]
	full int64 // until when no place becomes free
}

type noted[V any] struct {
	what V
	at   int64
}

// KnownFor is how many nanoseconds a station is remembered at least.
const KnownFor = int64(time.Minute)

// Get returns what is known of a station, and since when.
func (s *Table[V]) Get(mac ethertype.MAC) (what V, at int64, ok bool) {
	n, ok := s.by[mac]
	return n.what, n.at, ok
}

// Note notes something of a station, and reports whether there is a place for it.
func (s *Table[V]) Note(mac ethertype.MAC, what V, now int64) bool {
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
func (s *Table[V]) room(now int64) bool {
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

// Len returns how many stations the table remembers.
func (s *Table[V]) Len() int { return len(s.by) }
