package backlog

import (
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
)

const (
	waitingMax    = 256
	rememberedMax = 1 << 14                 // requests that wait, are taken, or are decided: as many as a NIC has VIs
	decidedLife   = 10 * 1000e6             // ns
	silentMax     = 1000 * time.Millisecond // in which a requester repeats its request ten times
)

// Backlog holds the requests that have come to a listener. The zero Backlog is empty.
type Backlog struct {
	waiting []*Request
	known   map[key]*Request // taken or not, until decided and a while after
	decided []*Request       // those of known that are decided, in the order of their decisions
}

// key tells repetitions of one request from a new one.
type key struct {
	from ethertype.Addr
	tag  uint32
}

// Verdict says what to do with a request that has come.
type Verdict uint8

// The verdicts.
const (
	Known   Verdict = iota // it has come before, and there is nothing to do
	New                    // it waits now: announce it
	Refused                // it was refused, and its requester did not receive that: see Request.Refusal
	Full                   // it is not kept: too many wait or are remembered
)

// Receive takes in a request whose sender has proven its address. h is the request's header and
// info its contents. The request is nil if it is not kept.
func (b *Backlog) Receive(h *ethertype.Header, info *conninfo.Info, now int64) (Verdict, *Request) {
	k := key{ethertype.Addr{MAC: h.Src, Port: h.SrcPort}, info.Tag}
	if r := b.known[k]; r != nil {
		r.Heard(now)
		if r.Refusal != nil {
			return Refused, r
		}
		return Known, r
	}
	if !b.room(now) {
		return Full, nil
	}
	r := &Request{From: k.from, Port: h.DstPort, Info: *info, backlog: b, heard: now}
	if b.known == nil {
		b.known = map[key]*Request{}
	}
	b.known[k] = r
	b.waiting = append(b.waiting, r)
	return New, r
}

// room reports whether there is room for a request. It forgets decided ones that
// nobody can repeat any more, or the oldest if there are too many, and one that waits
// and whose requester has given up if too many wait.
func (b *Backlog) room(now int64) bool {
	for len(b.decided) > 0 && (now-b.decided[0].at > decidedLife || len(b.known) >= rememberedMax) {
		b.decided[0].Forget()
		b.decided = b.decided[1:]
	}
	if len(b.waiting) >= waitingMax {
		i := slices.IndexFunc(b.waiting, func(r *Request) bool { return r.silent(now) })
		if i < 0 {
			return false
		}
		b.waiting[i].Forget()
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return len(b.known) < rememberedMax
}

// Waiting returns how many requests nobody has taken yet.
func (b *Backlog) Waiting() int { return len(b.waiting) }

// Take takes the request that has waited longest, nil if there is none. Requests whose
// requesters seem to have gone come last.
func (b *Backlog) Take(now int64) *Request {
	if len(b.waiting) == 0 {
		return nil
	}
	i := max(slices.IndexFunc(b.waiting, func(r *Request) bool { return !r.silent(now) }), 0)
	r := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return r
}

// Clear takes all requests that wait, the oldest first.
func (b *Backlog) Clear() []*Request {
	all := b.waiting
	b.waiting = nil
	return all
}
