package mapper

import (
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// request is something that is sent until it is answered, or until its tries are used up.
type request struct {
	packet func(try int) (route myrinet.Route, m message) // try counts from 0
	needed func() bool                                    // nil means yes; asked before it is sent
	done   func(m *message)                               // m is nil if there was no answer
	reply  kind

	id       uint32
	try      int
	sent     int64
	deadline int64
}

// requests is what a mapper waits for. A few are under way at a time; who adds them waits
// until there are none left.
type requests struct {
	window, tries int
	least, most   int64 // bounds of the time-out, nanoseconds

	waiting []*request
	flying  []*request
	lastID  uint32
	slowest int64 // how long answers take: falls slowly, rises at once; at most a quarter of most
}

func (r *requests) add(q *request) { r.waiting = append(r.waiting, q) }

func (r *requests) idle() bool { return len(r.waiting)+len(r.flying) == 0 }

// cancel forgets all requests.
func (r *requests) cancel() { r.waiting, r.flying = nil, nil }

// pop returns the request that is to be sent now, if there is one. Those that are not
// needed any more are forgotten.
func (r *requests) pop(now int64) *request {
	for len(r.waiting) > 0 && len(r.flying) < r.window {
		q := r.waiting[0]
		r.waiting = r.waiting[1:]
		if q.needed != nil && !q.needed() {
			continue
		}
		if q.id == 0 {
			r.lastID++
			q.id = r.lastID
		}
		q.sent, q.deadline = now, now+min(r.timeout()<<(2*q.try), r.most)
		r.flying = append(r.flying, q)
		return q
	}
	return nil
}

// timeout adapts to how long answers take, because probes wait behind traffic. Each
// further try has four times as long.
func (r *requests) timeout() int64 { return max(4*r.slowest, r.least) }

// answered takes the answer to a request. It reports false if none waits for it.
func (r *requests) answered(now int64, m *message) bool {
	i := slices.IndexFunc(r.flying, func(q *request) bool { return q.id == m.request && q.reply == m.kind })
	if i < 0 {
		return false
	}
	q := r.flying[i]
	r.flying = slices.Delete(r.flying, i, i+1)
	r.slowest = max(min(now-q.sent, r.most/4), r.slowest-r.slowest/16)
	q.done(m)
	return true
}

// expire sends again, or gives up, what was not answered in time. It returns how many
// time-outs there were.
func (r *requests) expire(now int64) (n uint64) {
	for i := 0; i < len(r.flying); {
		q := r.flying[i]
		if now < q.deadline {
			i++
			continue
		}
		n++
		r.flying = slices.Delete(r.flying, i, i+1)
		if q.try++; q.try < r.tries {
			r.waiting = append(r.waiting, q)
		} else {
			r.slowest -= r.slowest / 8 // most silence is that of ports without a host, and may not last
			q.done(nil)
		}
	}
	return n
}

// next returns when expire has something to do, 0 for never.
func (r *requests) next() (at int64) {
	for _, q := range r.flying {
		if at == 0 || q.deadline < at {
			at = q.deadline
		}
	}
	return at
}

// How long answers may take, whatever is observed.
const longestTimeout = 50 * time.Millisecond
