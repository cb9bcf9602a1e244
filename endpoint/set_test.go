package endpoint

import (
	"slices"
	"testing"
)

// TestSet: values come in the order in which they were added, whichever have been removed.
func TestSet(t *testing.T) {
	var s set[int]
	var want []int
	for i := range 100 {
		s.add(i * 7919 % 100)
		if i%3 > 0 {
			want = append(want, i*7919%100)
		}
	}
	for i := 0; i < 100; i += 3 {
		s.remove(i * 7919 % 100)
	}
	if got := s.all(); !slices.Equal(got, want) || s.len() != len(want) {
		t.Errorf("%d values, %v, want %v", s.len(), got, want)
	}
}
