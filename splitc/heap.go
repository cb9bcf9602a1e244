package splitc

import (
	"slices"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// A heap begins with a page that is never allocated, so that offset 0 is the null pointer and
// accesses near it are detected. The scratch memory of collectives, the registered variables, and
// the program's allocations follow. All ranks allocate the same sizes in the same order, so offsets
// are equal in all of them.
const (
	nullPage    = 4096
	scratchSize = 64 << 10
	scratch     = nullPage
	firstStatic = scratch + scratchSize
	granule     = 64 // allocations have offsets and sizes that are multiples of it
)

// granules returns the number of bytes that an allocation of n bytes occupies.
func granules(n uint64) uint64 { return max(granule, (n+granule-1)/granule*granule) }

// span is a part of a heap, from lo up to but not including hi.
type span struct{ lo, hi uint64 }

// spans are the allocations, in the order of offsets.
type spans struct {
	live []span
	last span   // result of the last successful lookup
	size uint64 // of the heap
	high uint64 // end of all allocations so far

	allocated uint64 // bytes
}

// alloc allocates n bytes in the first gap that is large enough. ok reports whether there is one,
// and used whether it has been in use before.
func (s *spans) alloc(n uint64) (lo uint64, used, ok bool) {
	n = granules(n)
	lo = firstStatic
	i := 0
	for ; i < len(s.live) && s.live[i].lo-lo < n; i++ {
		lo = s.live[i].hi
	}
	if n > s.size || lo > s.size-n {
		return 0, false, false
	}
	s.live = slices.Insert(s.live, i, span{lo, lo + n})
	s.allocated += n
	used = lo < s.high
	s.high = max(s.high, lo+n)
	return lo, used, true
}

// free frees the allocation that begins at lo, and reports whether there is one.
func (s *spans) free(lo uint64) bool {
	i, found := s.find(lo)
	if !found || s.live[i].lo != lo {
		return false
	}
	s.allocated -= s.live[i].hi - lo
	s.live = slices.Delete(s.live, i, i+1)
	s.last = span{}
	return true
}

// find returns the index of the last span that begins at off or before, and whether it contains
// off.
func (s *spans) find(off uint64) (int, bool) {
	i, exact := slices.BinarySearchFunc(s.live, off, func(a span, off uint64) int {
		switch {
		case a.lo < off:
			return -1
		case a.lo > off:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	return i, i >= 0 && off < s.live[i].hi
}

// holds reports whether a span begins at lo and has at least n bytes.
func (s *spans) holds(lo, n uint64) bool {
	if s.last.lo != lo {
		i, found := s.find(lo)
		if !found || s.live[i].lo != lo {
			return false
		}
		s.last = s.live[i]
	}
	return n <= s.last.hi-lo
}

// check returns an error if the n bytes at off are not within one span.
func (s *spans) check(call string, off, n uint64) error {
	if off >= s.last.lo && off <= s.last.hi && n <= s.last.hi-off && s.last.hi != 0 {
		return nil
	}
	i, found := s.find(off)
	switch {
	case found && n <= s.live[i].hi-off:
		s.last = s.live[i]
		return nil
	case off == 0:
		return opError(call, errNull, "the pointer is null")
	case found:
		return opError(call, errOutside, "%d bytes at %#x reach beyond the end of the allocation, %#x", n, off, s.live[i].hi)
	case off >= firstStatic && off < s.high:
		return opError(call, errFreed, "%d bytes at %#x: nothing is allocated there any more", n, off)
	case layer.Within(int(s.size), off, int(min(n, s.size))):
		return opError(call, errOutside, "%d bytes at %#x: nothing is allocated there", n, off)
	}
	return opError(call, errOutside, "%d bytes at %#x: the heap has %#x bytes", n, off, s.size)
}
