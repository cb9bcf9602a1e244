package mplite

import "github.com/bobnet-go/bobnet/internal/sparse"

// The matching rules of MPI, pure. A receive names a context (communicator), a source or
// AnySource, and a tag or AnyTag; a message has all three. Both sides keep order: a
// message takes the oldest receive that it matches, and a receive takes the oldest
// message that it matches.
//
// A receive from one source waits in that source's queue, and a receive from any source
// waits in a separate queue. Each receive is numbered when it is posted, so the older of
// two receives is known. A message waits in its source's queue and in one queue of all
// messages, in order of arrival. Receives from any source search the latter. So the cost
// of a match depends on the number of entries that wait for that source, not on the
// number of ranks.

// matcher holds posted receives and unexpected messages. It is not safe for concurrent use.
type matcher struct {
	sources sparse.Table[source] // by rank; nil before the first use
	wild    list[request]        // receives from any source
	all     list[inbound]        // in order of arrival
	claimed list[inbound]        // taken by matched probes, not received yet
	claims  uint64               // number of claims so far
	next    uint64               // number of the next posted receive
	waiting int                  // messages in all
	waitMax int                  // its maximum so far
}

// source holds the posted receives and unexpected messages of one rank.
type source struct {
	posted  list[request]
	arrived list[inbound]
}

func (m *matcher) init(ranks int) { m.sources = sparse.New[source](ranks) }

func (m *matcher) of(rank int32) *source {
	s := m.sources.At(int(rank))
	if s == nil {
		s = &source{}
		m.sources.Set(int(rank), s)
	}
	return s
}

// envelope holds the fields that matching compares. In a receive, src may be AnySource and tag
// AnyTag.
type envelope struct {
	context uint32
	src     int32 // rank in the job's first communicator
	tag     int32
}

func (e envelope) takes(m *envelope) bool {
	return e.context == m.context && (e.tag == m.tag || e.tag == AnyTag)
}

// post removes and returns the oldest message that matches r. If there is none, it queues r and
// returns nil.
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

// peek returns the oldest message that matches a receive of e, or nil.
func (m *matcher) peek(e envelope) *inbound {
	if e.src != AnySource {
		return firstOf(&m.of(e.src).arrived, e)
	}
	return firstOf(&m.all, e)
}

// firstOf returns the oldest message in l that matches a receive of e, or nil.
func firstOf(l *list[inbound], e envelope) *inbound {
	for n := l.head; n != nil; n = n.next {
		if e.takes(&n.of.env) {
			return n.of
		}
	}
	return nil
}

// arrive removes and returns the oldest receive that matches a message of envelope e. If there is
// none, it returns nil, and the caller queues the message with enqueue.
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

// firstTaking returns the oldest receive in l that matches a message of envelope e, or nil.
func firstTaking(l *list[request], e *envelope) *request {
	for n := l.head; n != nil; n = n.next {
		if n.of.env.takes(e) {
			return n.of
		}
	}
	return nil
}

// enqueue queues an unexpected message: no receive matches it.
func (m *matcher) enqueue(in *inbound) {
	m.of(in.env.src).arrived.push(&in.bySource, in)
	m.all.push(&in.inOrder, in)
	m.waiting++
	m.waitMax = max(m.waitMax, m.waiting)
}

// removeMessage removes an unexpected message.
func (m *matcher) removeMessage(in *inbound) {
	m.of(in.env.src).arrived.remove(&in.bySource)
	m.all.remove(&in.inOrder)
	if in.ahead != nil {
		in.ahead.remove(&in.inLog)
		in.ahead = nil
	}
	m.waiting--
}

// claim removes an unexpected message from matching, and returns the ticket that receives it.
func (m *matcher) claim(in *inbound) uint64 {
	m.removeMessage(in)
	m.claimed.push(&in.inOrder, in)
	m.claims++
	in.ticket = m.claims
	return in.ticket
}

// unclaim ends the claim: the message is about to be received.
func (m *matcher) unclaim(in *inbound) {
	m.claimed.remove(&in.inOrder)
	in.ticket = 0
}

// removeRecv removes a posted receive.
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
	sig    uint32 // signature of its elements
	call   uint64 // signature of the call, in a message of a collective: see callSig
	size   uint64
	sendID uint32
	data   []byte   // payload of an eager message
	from   *peer    // the sender, nil if that is this rank
	rx     *rxBuf   // receive buffer that data lies in, nil if it lies elsewhere
	slots  uint8    // slots of landing memory that hold data
	self   *request // the send, if this rank sends to itself without buffering

	ticket    uint64 // ticket of the matched probe that has reserved it, or 0
	withdrawn bool   // self was withdrawn while a matched probe had reserved it

	bySource node[inbound] // places in the matcher's lists
	inOrder  node[inbound]
	inLog    node[inbound]  // place in ahead
	ahead    *list[inbound] // the list of messages for later calls that contains it, or nil
}

// list is a list of Ts, oldest first. Its nodes are fields of the Ts, so it never allocates; a T in
// two lists has two nodes. A fifo.Queue does not suffice, because matched elements leave from the
// middle.
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

// remove removes the element of n, which must be in l.
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
