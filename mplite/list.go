package mplite

// list is a line of Ts, oldest first. Its nodes are fields of the Ts themselves,
// so that it never allocates, and what is in two lists has two nodes. It is no fifo.Queue
// because what is matched leaves from the middle.
type list[T any] struct{ head, tail *node[T] }

// node is a T's place in a list. In none it is zero.
type node[T any] struct {
	of         *T
	next, prev *node[T]
}

// push appends of, by its node n.
func (l *list[T]) push(n *node[T], of *T) {
	*n = node[T]{of: of, prev: l.tail}
	if l.tail == nil {
		l.head = n
	} else {
		l.tail.next = n
	}
	l.tail = n
}

// remove takes out what n, which is in l, stands for.
func (l *list[T]) remove(n *node[T]) {
	if n.prev == nil {
		l.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	*n = node[T]{}
}
