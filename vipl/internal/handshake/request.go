package handshake

import (
	"github.com/bobnet-go/bobnet/ethertype"
)

// Request is a connection request. Its sender has proven its address.
type Request struct {
	From    ethertype.Addr // the requester
	Port    uint16         // that it was sent to, from which it is answered
	Info    Info
	Refusal []byte // payload of the rejection, once refused, or accepted and given up; else nil

	backlog *Backlog
	decided bool
	at      int64 // when it was decided
	heard   int64 // when the requester was last heard
}

// Heard notes that something has come from the requester.
func (r *Request) Heard(now int64) { r.heard = now }

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
	r.Refusal = body
}

// Forget makes the backlog take the request for a new one if it comes again.
func (r *Request) Forget() {
	if k := (requestKey{r.From, r.Info.Tag}); r.backlog.known[k] == r {
		delete(r.backlog.known, k)
	}
}

// silent reports whether the requester seems to have given up.
func (r *Request) silent(now int64) bool { return now-r.heard > int64(silentMax) }

// HoldsUp reports whether the requester of this request, which the server has accepted, does
// not answer while others wait at the listener.
func (r *Request) HoldsUp(now int64) bool {
	return r.silent(now) && now-r.at > int64(silentMax) && len(r.backlog.waiting) > 0
}
