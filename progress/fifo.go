package progress

// FIFO is a queue in one slice, which keeps its memory. The zero FIFO is empty.
type FIFO[T any] struct {
	items []T
	head  int
}

// Len returns how many are queued.
func (f *FIFO[T]) Len() int { return len(f.items) - f.head }

// Push queues x.
func (f *FIFO[T]) Push(x T) {
	if f.head > 0 && len(f.items) == cap(f.items) { // move up instead of growing
		k := copy(f.items, f.items[f.head:])
		clear(f.items[k:])
		f.items, f.head = f.items[:k], 0
	}
	f.items = append(f.items, x)
}

// Pop takes the oldest; there must be one.
func (f *FIFO[T]) Pop() T {
	var zero T
	x := f.items[f.head]
	f.items[f.head] = zero
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return x
}

// Keep drops all for which keep is false.
func (f *FIFO[T]) Keep(keep func(*T) bool) {
	left := f.items[:0]
	for i := f.head; i < len(f.items); i++ {
		if keep(&f.items[i]) {
			left = append(left, f.items[i])
		}
	}
	clear(f.items[len(left):])
	f.items, f.head = left, 0
}

// Clear drops all, and the memory.
func (f *FIFO[T]) Clear() { f.items, f.head = nil, 0 }
