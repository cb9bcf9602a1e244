// Package stations limits the memory for data about stations, because any host on the segment can
// invent stations.
package stations

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Table stores a value for each of at most Max stations. A full table removes stations whose value
// is older than KnownFor. Invented stations can therefore keep others out for a minute, so no
// decision may depend on the contents of the table. Goroutines must not share a Table.
type Table[V any] struct {
	Max int // most stations

	by   map[ethertype.MAC]noted[V]
	full int64 // time until which no entry can be removed
}

type noted[V any] struct {
	what V
	at   int64
}

// KnownFor is the minimum time, in nanoseconds, for which the table keeps a station.
const KnownFor = int64(time.Minute)

// Get returns the value of a station, and the time when it was stored.
func (s *Table[V]) Get(mac ethertype.MAC) (what V, at int64, ok bool) {
	n, ok := s.by[mac]
	return n.what, n.at, ok
}

// Note stores the value of a station, and reports whether there was room for it.
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

// room reports whether there is room for one more station. It removes old stations if necessary.
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

// Len returns the number of stations in the table.
func (s *Table[V]) Len() int { return len(s.by) }
