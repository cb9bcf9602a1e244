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
	posted  []requestQueue // by source
	wild    requestQueue   // from any source
	arrived []msgQueue     // by source
	all     msgQueue       // in order of arrival
	next    uint64         // number of the next posted receive
	waiting int            // messages in all
	waitMax int            // its maximum so far
}

func (m *matcher) init(ranks int) {
	m.posted = make([]requestQueue, ranks)
	m.arrived = make([]msgQueue, ranks)
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
func (m *matcher) post(r *Request) *inbound {
	if in := m.peek(r.env); in != nil {
		m.removeMessage(in)
		return in
	}
	m.next++
	r.number = m.next
	m.queueOf(r).push(r)
	return nil
}

// peek returns the oldest message that a receive of e would take, or nil.
func (m *matcher) peek(e envelope) *inbound {
	if e.src != AnySource {
		for in := m.arrived[e.src].head; in != nil; in = in.nextSrc {
			if e.takes(&in.env) {
				return in
			}
		}
		return nil
	}
	for in := m.all.head; in != nil; in = in.nextAll {
		if e.takes(&in.env) {
			return in
		}
	}
	return nil
}

// arrive returns the oldest receive that takes a message of envelope e and
// removes it, or returns nil: then the caller keeps the message with hold.
func (m *matcher) arrive(e *envelope) *Request {
	r := m.posted[e.src].first(e)
	if m.wild.head != nil {
		if w := m.wild.first(e); w != nil && (r == nil || w.number < r.number) {
			r = w
		}
	}
	if r != nil {
		m.queueOf(r).remove(r)
	}
	return r
}

// hold queues a message that no receive took.
func (m *matcher) hold(in *inbound) {
	m.arrived[in.env.src].pushSrc(in)
	m.all.pushAll(in)
	m.waiting++
	m.waitMax = max(m.waitMax, m.waiting)
}

// removeMessage takes a held message out.
func (m *matcher) removeMessage(in *inbound) {
	m.arrived[in.env.src].removeSrc(in)
	m.all.removeAll(in)
	m.waiting--
}

// removeRecv takes a posted receive out.
func (m *matcher) removeRecv(r *Request) { m.queueOf(r).remove(r) }

func (m *matcher) queueOf(r *Request) *requestQueue {
	if r.env.src == AnySource {
		return &m.wild
	}
	return &m.posted[r.env.src]
}

// requestQueue is a list of posted receives, or of sends that wait for credits,
// oldest first.
type requestQueue struct{ head, tail *Request }

func (q *requestQueue) first(e *envelope) *Request {
	for r := q.head; r != nil; r = r.next {
		if r.env.takes(e) {
			return r
		}
	}
	return nil
}

func (q *requestQueue) push(r *Request) {
	r.next, r.prev = nil, q.tail
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
}

func (q *requestQueue) remove(r *Request) {
	if r.prev == nil {
		q.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
}

// inbound is a message, or the announcement of one, that waits for its receive.
type inbound struct {
	env    envelope
	kind   kind
	flags  uint8
	unit   uint8
	size   uint64
	sendID uint32
	data   []byte   // payload of an eager message
	from   *peer    // nil if from this rank itself
	rx     *rxBuf   // receive buffer that data lies in, nil if it was moved out
	self   *Request // a send of this rank to itself that is not buffered

	nextSrc, prevSrc *inbound
	nextAll, prevAll *inbound
}

// msgQueue is a list of messages, oldest first. Each message is in two: by
// source and in all.
type msgQueue struct{ head, tail *inbound }

func (q *msgQueue) pushSrc(in *inbound) {
	in.nextSrc, in.prevSrc = nil, q.tail
	if q.tail == nil {
		q.head = in
	} else {
		q.tail.nextSrc = in
	}
	q.tail = in
}

func (q *msgQueue) removeSrc(in *inbound) {
	if in.prevSrc == nil {
		q.head = in.nextSrc
	} else {
		in.prevSrc.nextSrc = in.nextSrc
	}
	if in.nextSrc == nil {
		q.tail = in.prevSrc
	} else {
		in.nextSrc.prevSrc = in.prevSrc
	}
	in.nextSrc, in.prevSrc = nil, nil
}

func (q *msgQueue) pushAll(in *inbound) {
	in.nextAll, in.prevAll = nil, q.tail
	if q.tail == nil {
		q.head = in
	} else {
		q.tail.nextAll = in
	}
	q.tail = in
}

func (q *msgQueue) removeAll(in *inbound) {
	if in.prevAll == nil {
		q.head = in.nextAll
	} else {
		in.prevAll.nextAll = in.nextAll
	}
	if in.nextAll == nil {
		q.tail = in.prevAll
	} else {
		in.nextAll.prevAll = in.prevAll
	}
	in.nextAll, in.prevAll = nil, nil
}
