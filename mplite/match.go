package mplite

// The matching rules of MPI, pure. A receive names a context (communicator),
// a source or AnySource, and a tag or AnyTag; a message has all three. Both
// sides keep order: a message takes the oldest receive that it fits, a receive
// takes the oldest message.
//
// Receives from one source wait in that source's queue, those from any source
// in one more queue; numbers given at posting tell which of two is older.
// Messages wait in their source's queue and, all of them, in one queue in
// order of arrival, which receives from any source search. So the cost of a
// match depends on what waits from that source, not on the number of ranks.

// matcher holds what waits for a match. It is not safe for concurrent use.
type matcher struct {
	sources []*source     // by rank; nil before the first use
	wild    list[request] // receives from any source
	all     list[inbound] // in order of arrival
	claimed list[inbound] // taken by matched probes, not received yet
	claims  uint64        // how many ever were
	next    uint64        // number of the next posted receive
	waiting int           // messages in all
	waitMax int           // its maximum so far
}

// source is what waits from one rank.
type source struct {
	posted  list[request]
	arrived list[inbound]
}

func (m *matcher) init(ranks int) { m.sources = make([]*source, ranks) }

func (m *matcher) of(rank int32) *source {
	s := m.sources[rank]
	if s == nil {
		s = &source{}
		m.sources[rank] = s
	}
	return s
}

// envelope is what matching looks at. In a receive, src may be AnySource and
// tag AnyTag.
type envelope struct {
	context uint32
	src     int32 // rank in the job's first communicator
	tag     int32
}

func (e envelope) takes(m *envelope) bool {
	return e.context == m.context && (e.tag == m.tag || e.tag == AnyTag)
}

// post looks for the oldest message that r takes and removes it; when there is
// none it queues r and returns nil.
func (m *matcher) post(r *request) *inbound {
	if in := m.peek(r.env); in != nil {
		m.removeMessage(in)
		return in
	}
	m.next++
	r.number = m.next
	m.queueOf(r).push(&r.place, r)
	return nil
}

// peek returns the oldest message that a receive of e would take, or nil.
func (m *matcher) peek(e envelope) *inbound {
	if e.src != AnySource {
		return firstOf(&m.of(e.src).arrived, e)
	}
	return firstOf(&m.all, e)
}

// firstOf returns the oldest message in l that a receive of e would take, or nil.
func firstOf(l *list[inbound], e envelope) *inbound {
	for n := l.head; n != nil; n = n.next {
		if e.takes(&n.of.env) {
			return n.of
		}
	}
	return nil
}

// arrive returns the oldest receive that takes a message of envelope e and
// removes it, or returns nil: then the caller queues the message with enqueue.
func (m *matcher) arrive(e *envelope) *request {
	r := firstTaking(&m.of(e.src).posted, e)
	if m.wild.head != nil {
		if w := firstTaking(&m.wild, e); w != nil && (r == nil || w.number < r.number) {
			r = w
		}
	}
	if r != nil {
		m.removeRecv(r)
	}
	return r
}

// firstTaking returns the oldest receive in l that takes a message of envelope e,
// or nil.
func firstTaking(l *list[request], e *envelope) *request {
	for n := l.head; n != nil; n = n.next {
		if n.of.env.takes(e) {
			return n.of
		}
	}
	return nil
}

// enqueue queues an unexpected message, which no receive has taken.
func (m *matcher) enqueue(in *inbound) {
	m.of(in.env.src).arrived.push(&in.bySource, in)
	m.all.push(&in.inOrder, in)
	m.waiting++
	m.waitMax = max(m.waitMax, m.waiting)
}

// removeMessage takes an unexpected message out.
func (m *matcher) removeMessage(in *inbound) {
	m.of(in.env.src).arrived.remove(&in.bySource)
	m.all.remove(&in.inOrder)
	if in.ahead != nil {
		in.ahead.remove(&in.inLog)
		in.ahead = nil
	}
	m.waiting--
}

// claim takes an unexpected message out for the one who has the ticket that it returns.
func (m *matcher) claim(in *inbound) uint64 {
	m.removeMessage(in)
	m.claimed.push(&in.inOrder, in)
	m.claims++
	in.ticket = m.claims
	return in.ticket
}

// unclaim ends that: the message is about to be received.
func (m *matcher) unclaim(in *inbound) {
	m.claimed.remove(&in.inOrder)
	in.ticket = 0
}

// removeRecv takes a posted receive out.
func (m *matcher) removeRecv(r *request) { m.queueOf(r).remove(&r.place) }

func (m *matcher) queueOf(r *request) *list[request] {
	if r.env.src == AnySource {
		return &m.wild
	}
	return &m.of(r.env.src).posted
}

// inbound is a message, or the announcement of one, that waits for its receive.
type inbound struct {
	env    envelope
	kind   kind
	flags  uint8
	sig    uint32 // of its elements
	call   uint64 // of a collective: see callSig
	size   uint64
	sendID uint32
	data   []byte   // payload of an eager message
	from   *peer    // nil if from this rank itself
	rx     *rxBuf   // receive buffer that data lies in, nil if it lies elsewhere
	slots  uint8    // of landing memory that it lies in
	self   *request // a send of this rank to itself that is not buffered

	ticket    uint64 // of the matched probe that has it, or 0
	withdrawn bool   // self was, while a matched probe had it

	bySource node[inbound] // places in the matcher's lists
	inOrder  node[inbound]
	inLog    node[inbound]  // and in that of the messages for calls to come,
	ahead    *list[inbound] // if it is in one
}

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
