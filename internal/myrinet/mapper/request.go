package mapper

import (
	"cmp"
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

	tries    int   // 0 means as many as others
	patience int64 // of each try, 0 means what is observed

	id       uint32
	try      int
	sent     int64
	deadline int64
	excused  bool // the host has looked late at what has come once
}

// requests is what a mapper waits for. A few are under way at a time; who adds them waits
// until there are none left.
type requests struct {
	window, tries int
	least, most   int64 // bounds of the time-out, nanoseconds

	waiting []*request
	flying  []*request
	missed  []*request // those given up since forget
	late    int        // answers to these
	lastID  uint32
	slowest int64 // how long answers take: falls slowly, rises at once; at most a quarter of most
}

func (r *requests) add(q *request) { r.waiting = append(r.waiting, q) }

func (r *requests) idle() bool { return len(r.waiting)+len(r.flying) == 0 }

// cancel forgets all requests.
func (r *requests) cancel() { r.waiting, r.flying = nil, nil }

// forget forgets the requests that were given up.
func (r *requests) forget() { r.missed, r.late = nil, 0 }

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
		q.sent, q.deadline, q.excused = now, now+min(r.timeout()<<(2*q.try), r.most), false
		if q.patience > 0 {
			q.deadline = now + q.patience
		}
		r.flying = append(r.flying, q)
		return q
	}
	return nil
}

// timeout adapts to how long answers take, because probes wait behind traffic. Each
// further try has four times as long.
func (r *requests) timeout() int64 { return max(4*r.slowest, r.least) }

// answered takes the answer to a request, also to an earlier try. It reports false if none
// waits for it. One that comes after the request was given up shows that the mapper has not been
// patient enough.
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

// expire sends again, or gives up, what was not answered in time. It returns how many
// time-outs there were. Where the host has had no processor for a while, the answer may have
// come and not been seen: the request has a little more time, once.
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
		r.slowest -= r.slowest / 8 // most silence is that of ports without a host, and may not last
		q.done(nil)
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

// How long answers may take, whatever is observed: as long, or so many times the least time-out.
const (
	longestTimeout  = 50 * time.Millisecond
	longestTimeouts = 500
)
