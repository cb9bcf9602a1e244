package vipl

import (
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// What a listener keeps of requests, so that nobody who floods it, or who asks in the
// name of others, shuts it:
//
//   - Anybody can send a request in another's name. Each is answered by a Retry, and
//     proves by its repetition with the token that its sender is reached where it says
//     it is; see package guard. It need not wait for that: the first few, doubtfulMax, are
//     queued as they come, so that connecting takes no round trip more. Of the others
//     nothing is kept, nor of any with RequireProof. Those that are proven are taken first.
//   - To a requester that is not proven go at most three times the bytes that have come
//     in its name (as in RFC 9000, section 8.1).
//   - A client repeats its request until it is accepted. One that does not has gone: others
//     are taken first, and it goes when the queue is full. A server that waits for it
//     in Request.Accept gives it up when others wait.
//   - Decided requests are remembered so long that a repetition, which has been on its
//     way, is not taken for a new one; the oldest go before new ones would be refused.
const (
	doubtfulMax   = 16 // requests
	doubtfulTime  = 250 * time.Millisecond
	silentMax     = 1000 * time.Millisecond // in which a requester repeats its request ten times
	amplification = 3
)

// room reports whether there is room for a request. It forgets decided ones that
// nobody can repeat any more, or the oldest if there are too many, and one that waits
// and whose requester has given up if too many wait.
func (l *Listener) room() bool {
	for len(l.decided) > 0 && (l.nic.conns.Now-l.decided[0].at > decidedLife || len(l.pending) >= decidedMax) {
		l.decided[0].drop()
		l.decided = l.decided[1:]
	}
	if len(l.queue) >= backlogMax {
		i := slices.IndexFunc(l.queue, (*Request).silent)
		if i < 0 {
			return false
		}
		l.queue[i].drop()
		l.queue = slices.Delete(l.queue, i, i+1)
		l.notice.Limit(len(l.queue))
	}
	return len(l.pending) < decidedMax
}

// again notes that the request has come, with size bytes of payload.
func (r *Request) again(size int, proven bool) {
	r.heard = r.listener.nic.conns.Now
	r.credit += amplification*(ethertype.HeaderSize+size) - ethertype.HeaderSize // of a Retry
	if proven {
		r.proves()
	}
}

// proves notes that something has come from the requester that only who hears what is
// sent there can know.
func (r *Request) proves() {
	r.heard, r.proven = r.listener.nic.conns.Now, true
	r.clearDoubt()
}

// clearDoubt has the request not be counted as a doubtful one any more.
func (r *Request) clearDoubt() {
	if r.doubtful {
		r.doubtful = false
		r.listener.doubtful--
	}
}

// affords reports whether a frame with size bytes of payload may be sent to the
// requester.
func (r *Request) affords(size int) bool {
	if r.proven {
		return true
	}
	left := r.credit - ethertype.HeaderSize - size
	if left < 0 {
		return false
	}
	r.credit = left
	return true
}

// drop has the listener take the request for a new one if it comes again.
func (r *Request) drop() {
	r.clearDoubt()
	if r.listener.pending[r.key] == r {
		delete(r.listener.pending, r.key)
	}
}

// decide notes that the request has been accepted or rejected.
func (r *Request) decide() {
	l := r.listener
	r.decided, r.at = true, l.nic.conns.Now
	l.decided = append(l.decided, r)
}

// silent reports whether the requester seems to have given up.
func (r *Request) silent() bool { return r.listener.nic.conns.Now-r.heard > int64(silentMax) }

// holdsUp reports whether a server that waits until the requester is connected keeps
// others waiting in vain.
func (r *Request) holdsUp() bool {
	limit, n := int64(silentMax), r.listener.nic
	if r.doubtful {
		limit = int64(doubtfulTime)
	} else if !r.silent() {
		return false
	}
	return n.conns.Now-r.at > limit && len(r.listener.queue) > 0
}
