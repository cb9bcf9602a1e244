// Package sparse is a table of pointers of which most are nil, such as the peers of a rank in a
// large job, most of which it never communicates with.
package sparse

import "iter"

// pageSize is the number of entries of a page.
const pageSize = 32

// Table is a table of a fixed number of pointers. Pages without a pointer take no memory.
type Table[T any] struct {
	pages []*[pageSize]*T
	n     int
}

// New returns a table of n nil pointers.
func New[T any](n int) Table[T] {
	return Table[T]{pages: make([]*[pageSize]*T, (n+pageSize-1)/pageSize), n: n}
}

// Len returns the number of entries.
func (t *Table[T]) Len() int { return t.n }

// At returns entry i, which is nil unless it has been set.
func (t *Table[T]) At(i int) *T {
	if page := t.pages[uint(i)/pageSize]; page != nil {
		return page[uint(i)%pageSize]
	}
	return nil
}

// Set sets entry i.
func (t *Table[T]) Set(i int, p *T) {
	page := &t.pages[uint(i)/pageSize]
	if *page == nil {
		if p == nil {
			return
		}
		*page = new([pageSize]*T)
	}
	(*page)[uint(i)%pageSize] = p
}

// All returns the entries that are not nil, in ascending order. The loop may set entries.
func (t *Table[T]) All() iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for i, page := range t.pages {
			if page == nil {
				continue
			}
			for k, p := range page {
				if p != nil && !yield(i*pageSize+k, p) {
					return
				}
			}
		}
	}
}
