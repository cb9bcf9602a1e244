package handshake

import (
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

const (
	waitingMax    = 256
	rememberedMax = 1 << 14                 // requests that wait, were taken or decided: as many as a NIC has VIs
	decidedLife   = 10 * 1000e6             // ns
	silentMax     = 1000 * time.Millisecond // in which a requester repeats its request ten times
)

// Backlog holds the connection requests of a listener. A flood of requests, or requests with forged
// sources, cannot shut the listener:
//
//   - The listener answers each request by a Retry. The repetition with the Retry's token proves that
//     the sender is reached at its address (see package guard). Only proven requests come here; the
//     NIC keeps nothing of the others. A Retry is shorter than its request, so a forged source
//     attracts fewer bytes than were sent.
//   - A client repeats its request until it is accepted. If a client stops repeating, other requests
//     are taken first, and its request is dropped when the queue is full. A server that waits for such
//     a client to connect gives it up when others wait.
//   - When the queue is full, a request displaces one of a station that has more requests in it. So no
//     station keeps the requests of others out.
//   - Decided requests are remembered long enough that a late repetition is not taken for a new
//     request. The oldest make room for new ones.
//
// A Backlog is pure: requests and the time in nanoseconds are arguments, the verdict is returned, and
// it sends nothing. The zero Backlog is empty.
type Backlog struct {
	waiting []*Request
	of      map[ethertype.MAC]int   // how many requests of each station are waiting
	known   map[requestKey]*Request // taken or not, until decided and a while after
	decided []*Request              // those of known that are decided, in the order of their decisions
}

// requestKey distinguishes repetitions of a request from a new one.
type requestKey struct {
	from ethertype.Addr
	tag  uint32
}

// Verdict is the decision about a received request.
type Verdict uint8

// The verdicts.
const (
	RequestKnown   Verdict = iota // received before: nothing to do
	RequestNew                    // it waits now: announce it
	RequestRefused                // it was refused, and its requester did not receive the refusal: see Request.Refusal
	RequestFull                   // dropped: too many wait or are remembered
)

// Receive processes a request whose sender has proven its address. h is the request's header and
// info its contents. It returns a nil request if the request is dropped.
func (b *Backlog) Receive(h *ethertype.Header, info *Info, now int64) (Verdict, *Request) {
	k := requestKey{ethertype.Addr{MAC: h.Src, Port: h.SrcPort}, info.Tag}
	if r := b.known[k]; r != nil {
		r.Heard(now)
		if r.Refusal != nil {
			return RequestRefused, r
		}
		return RequestKnown, r
	}
	if !b.room(h.Src, now) {
		return RequestFull, nil
	}
	r := &Request{From: k.from, Port: h.DstPort, Info: *info, backlog: b, heard: now}
	if b.known == nil {
		b.known, b.of = map[requestKey]*Request{}, map[ethertype.MAC]int{}
	}
	b.known[k] = r
	b.waiting = append(b.waiting, r)
	b.of[h.Src]++
	return RequestNew, r
}

// room reports whether there is room for a request of a station. It removes decided requests that can
// no longer be repeated, or the oldest if there are too many. If too many requests wait, it removes
// one whose requester has given up, or else the newest one of a station that has more requests than
// this one.
func (b *Backlog) room(station ethertype.MAC, now int64) bool {
	for len(b.decided) > 0 && (now-b.decided[0].at > decidedLife || len(b.known) >= rememberedMax) {
		b.decided[0].Forget()
		b.decided = b.decided[1:]
	}
	if len(b.waiting) >= waitingMax {
		i := slices.IndexFunc(b.waiting, func(r *Request) bool { return r.silent(now) })
		for own, last := b.of[station]+1, len(b.waiting)-1; i < 0 && last >= 0; last-- {
			if b.of[b.waiting[last].From.MAC] > own {
				i = last
			}
		}
		if i < 0 {
			return false
		}
		b.remove(i).Forget()
	}
	return len(b.known) < rememberedMax
}

// Waiting returns the number of requests that have not been taken.
func (b *Backlog) Waiting() int { return len(b.waiting) }

// Pop removes and returns the request that has waited longest, or nil. Requests whose requesters
// seem to have gone come last.
func (b *Backlog) Pop(now int64) *Request {
	if len(b.waiting) == 0 {
		return nil
	}
	i := max(slices.IndexFunc(b.waiting, func(r *Request) bool { return !r.silent(now) }), 0)
	return b.remove(i)
}

// remove removes the waiting request at index i.
func (b *Backlog) remove(i int) *Request {
	r := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	if b.of[r.From.MAC]--; b.of[r.From.MAC] == 0 {
		delete(b.of, r.From.MAC)
	}
	return r
}

// Clear removes and returns all waiting requests, the oldest first.
func (b *Backlog) Clear() []*Request {
	all := b.waiting
	b.waiting = nil
	clear(b.of)
	return all
}

// Request is a connection request. Its sender has proven its address.
type Request struct {
	From    ethertype.Addr // the requester
	Port    uint16         // its destination, from which it is answered
	Info    Info
	Refusal []byte // payload of the rejection, if it was refused, or accepted and given up; otherwise nil

	backlog *Backlog
	decided bool
	at      int64 // when it was decided
	heard   int64 // time of the requester's last frame
}

// Heard records that a frame of the requester has arrived.
func (r *Request) Heard(now int64) { r.heard = now }

// Decided reports whether the request has been accepted or refused.
func (r *Request) Decided() bool { return r.decided }

// Decide records that the request is accepted or refused.
func (r *Request) Decide(now int64) {
	r.decided, r.at = true, now
	r.backlog.decided = append(r.backlog.decided, r)
}

// Refuse records that the request is refused, with the payload of the rejection.
func (r *Request) Refuse(body []byte, now int64) {
	r.Decide(now)
	r.Refusal = body
}

// Forget makes the backlog treat a repetition of the request as a new one.
func (r *Request) Forget() {
	if k := (requestKey{r.From, r.Info.Tag}); r.backlog.known[k] == r {
		delete(r.backlog.known, k)
	}
}

// silent reports whether the requester seems to have given up.
func (r *Request) silent(now int64) bool { return now-r.heard > int64(silentMax) }

// HoldsUp reports whether the requester of this accepted request does not answer while others wait
// at the listener.
func (r *Request) HoldsUp(now int64) bool {
	return r.silent(now) && now-r.at > int64(silentMax) && len(r.backlog.waiting) > 0
}
