package mapper

import (
	"cmp"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// request is a packet that is sent until it is answered or its tries are used up.
type request struct {
	packet func(try int) (route myrinet.Route, m message) // try counts from 0
	needed func() bool                                    // called before each transmission; nil means always needed
	done   func(m *message)                               // m is nil if there was no answer
	reply  kind

	tries    int   // 0 means requests.tries
	patience int64 // timeout of each try, 0 means adaptive

	id       uint32
	try      int
	sent     int64
	deadline int64
	excused  bool // has had its additional time, because this host was late
}

// requests holds the outstanding requests of a mapper, of which a few are in flight at a time. The
// caller that adds them waits until all are done.
type requests struct {
	window, tries int
	least, most   int64 // bounds of the timeout, nanoseconds

	waiting []*request
	flying  []*request
	missed  []*request // given up since the last forget
	late    int        // answers to these
	lastID  uint32
	slowest int64 // adaptive response time: rises at once, falls slowly; at most most/4
}

func (r *requests) add(q *request) { r.waiting = append(r.waiting, q) }

func (r *requests) idle() bool { return len(r.waiting)+len(r.flying) == 0 }

// cancel drops all requests.
func (r *requests) cancel() { r.waiting, r.flying = nil, nil }

// forget drops the requests that were given up.
func (r *requests) forget() { r.missed, r.late = nil, 0 }

// pop returns the request to send now, if any. It drops requests that are no longer needed.
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
		q.sent, q.deadline, q.excused = now, now+min(r.timeout()<<(2*q.try), r.most), false
		if q.patience > 0 {
			q.deadline = now + q.patience
		}
		r.flying = append(r.flying, q)
		return q
	}
	return nil
}

// timeout adapts to the time that answers take, because probes wait behind traffic. Each further
// try has four times as long.
func (r *requests) timeout() int64 { return max(4*r.slowest, r.least) }

// answered handles the answer to any try of a request. It reports false if no request waits for it.
// An answer after the request was given up shows that the timeout was too short.
func (r *requests) answered(now int64, m *message) bool {
	for _, list := range []*[]*request{&r.flying, &r.waiting, &r.missed} {
		i := slices.IndexFunc(*list, func(q *request) bool { return q.id == m.request && q.reply == m.kind && q.id != 0 })
		if i < 0 {
			continue
		}
		q := (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		r.slowest = max(min(now-q.sent, r.most/4), r.slowest-r.slowest/16)
		if list == &r.missed {
			r.late++
			return false
		}
		q.done(m)
		return true
	}
	return false
}

// expire retries or gives up the requests whose timeout has passed, and returns their number. If
// the host had no CPU for a while, an answer may have arrived without being read, so the request
// gets a little more time, once.
func (r *requests) expire(now int64) (n uint64) {
	for i := 0; i < len(r.flying); {
		q := r.flying[i]
		if now < q.deadline {
			i++
			continue
		}
		if now > q.deadline+r.least && !q.excused {
			q.excused, q.deadline = true, now+r.least
			continue
		}
		n++
		r.flying = slices.Delete(r.flying, i, i+1)
		if q.try++; q.try < cmp.Or(q.tries, r.tries) {
			r.waiting = append(r.waiting, q)
			continue
		}
		r.missed = append(r.missed, q)
		r.slowest -= r.slowest / 8 // most unanswered probes go to ports without a host, so silence may not mean slowness
		q.done(nil)
	}
	return n
}

// next returns when expire has work, 0 for never.
func (r *requests) next() (at int64) {
	for _, q := range r.flying {
		if at == 0 || q.deadline < at {
			at = q.deadline
		}
	}
	return at
}

// Upper limit of the timeout: longestTimeout, or longestTimeouts times the least timeout, whichever
// is more.
const (
	longestTimeout  = 50 * time.Millisecond
	longestTimeouts = 500
)
