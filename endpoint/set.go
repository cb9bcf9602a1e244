package endpoint

import (
	"cmp"
	"maps"
	"slices"
)

// set is values in the order in which they were added. What happens to all of them so happens in
// the same order in each run of a simulation. The zero set is empty.
type set[T comparable] struct {
	places map[T]uint64
	last   uint64
}

func (s *set[T]) add(x T) {
	if s.places == nil {
		s.places = map[T]uint64{}
	}
	s.last++
	s.places[x] = s.last
}

func (s *set[T]) remove(x T) { delete(s.places, x) }

func (s *set[T]) len() int { return len(s.places) }

// all returns the values. The set may be changed meanwhile.
func (s *set[T]) all() []T {
	return slices.SortedFunc(maps.Keys(s.places), func(a, b T) int { return cmp.Compare(s.places[a], s.places[b]) })
}
