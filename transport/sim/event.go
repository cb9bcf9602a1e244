package sim

import "cmp"

// An action is the effect of an event.
type action interface{ fire(w *World) }

// event is an action with its time. Of two events at the same time, the one that was scheduled
// first happens first.
type event struct {
	at  int64
	seq uint64
	act action
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

func (e event) compare(f event) int {
	return cmp.Or(cmp.Compare(e.at, f.at), cmp.Compare(e.seq, f.seq))
}

// eventHeap is a heap with four children per node. It is half as deep as a binary heap, and
// siblings are adjacent in memory. container/heap is not used because it allocates for each element
// that it passes.
type eventHeap []event

const children = 4

func (h *eventHeap) push(e event) {
	s := append(*h, e)
	*h = s
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / children
		if !e.before(&s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = e
}

// pop removes the earliest event. The heap must not be empty.
func (h *eventHeap) pop() {
	s := *h
	last := s[len(s)-1]
	s[len(s)-1] = event{}
	s = s[:len(s)-1]
	*h = s
	if len(s) > 0 {
		s.replace(last)
	}
}

// replace replaces the earliest event by e.
func (h eventHeap) replace(e event) {
	i := 0
	for {
		first := i*children + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if e.before(&h[least]) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}

// timed is an action of the program.
type timed func()

func (f timed) fire(*World) { f() }
