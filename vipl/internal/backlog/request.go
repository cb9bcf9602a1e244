package backlog

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
)

// Request is a connection request.
type Request struct {
	From    ethertype.Addr // who asks
	Port    uint16         // that it was sent to, from which it is answered
	Info    conninfo.Info
	Refusal []byte // payload of the rejection, once refused, or accepted and given up; else nil

	backlog  *Backlog
	decided  bool
	at       int64 // when it was decided
	heard    int64 // when it has come last
	proven   bool  // the requester is where it says it is
	credit   int   // bytes that may be sent there before
	doubtful bool  // it is not proven yet, nor refused, nor has its handshake ended
}

// again notes that the request has come, with size bytes of payload.
func (r *Request) again(size int, proven bool, now int64) {
	r.heard = now
	r.credit += amplification*(ethertype.HeaderSize+size) - ethertype.HeaderSize // of a Retry
	if proven {
		r.Prove(now)
	}
}

// Prove notes that something has come from the requester that only who hears what is
// sent there can know.
func (r *Request) Prove(now int64) {
	r.heard, r.proven = now, true
	r.ClearDoubt()
}

// ClearDoubt has the request not be counted as a doubtful one any more.
func (r *Request) ClearDoubt() {
	if r.doubtful {
		r.doubtful = false
		r.backlog.doubtful--
	}
}

// Afford reports whether a frame with size bytes of payload may be sent to the
// requester, and counts it.
func (r *Request) Afford(size int) bool {
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

// Decided reports whether the request has been accepted or refused.
func (r *Request) Decided() bool { return r.decided }

// Decide notes that the request is accepted, or refused.
func (r *Request) Decide(now int64) {
	r.decided, r.at = true, now
	r.backlog.decided = append(r.backlog.decided, r)
}

// Refuse notes that the request is refused, and the payload of the rejection.
func (r *Request) Refuse(body []byte, now int64) {
	r.Decide(now)
	r.ClearDoubt()
	r.Refusal = body
}

// Forget has the backlog take the request for a new one if it comes again.
func (r *Request) Forget() {
	r.ClearDoubt()
	if k := (key{r.From, r.Info.Tag}); r.backlog.known[k] == r {
		delete(r.backlog.known, k)
	}
}

// silent reports whether the requester seems to have given up.
func (r *Request) silent(now int64) bool { return now-r.heard > int64(silentMax) }

// HoldsUp reports whether a server that waits until the requester of this request, which it
// has accepted, is connected keeps others waiting in vain.
func (r *Request) HoldsUp(now int64) bool {
	limit := int64(silentMax)
	if r.doubtful {
		limit = int64(doubtfulTime)
	} else if !r.silent(now) {
		return false
	}
	return now-r.at > limit && len(r.backlog.waiting) > 0
}
