package job

import (
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/vipl"
)

// Connections on first use. A program on a Member may connect two ranks when one of them first has
// a message for the other, because every rank knows the addresses of all others. Its request
// carries a hello of this run and one more byte, the purpose. The Member receives the request and
// passes it to the program, so a rank accepts requests while its program computes.

// Purposes of a request: the byte after its hello.
const (
	forLink    = 1 // a link of the Member's tree that replaces one to a failed rank
	forProgram = 2 // a connection of the program on the Member
)

// events holds the events that the program on a Member has not taken yet.
type events struct {
	kick     func() // function of the program; nil if it has not requested events
	queue    []joining.Event
	requests int  // number of requests in queue
	fresh    bool // kick must be called
}

// due returns the function to call without the lock, or nil. The caller must hold the lock.
func (e *events) due() func() {
	if !e.fresh || e.kick == nil {
		return nil
	}
	e.fresh = false
	return e.kick
}

func (e *events) add(ev joining.Event) {
	e.queue = append(e.queue, ev)
	e.fresh = true
}

func (e *events) died(rank int, err error) {
	if e.kick != nil {
		e.add(joining.Event{Rank: rank, Err: err})
	}
}

func (e *events) left() {
	if e.kick != nil {
		e.add(joining.Event{Rank: -1})
	}
}

// OnUse implements joining.Job.
func (j *membership) OnUse(kick func()) {
	t := j.member.t
	j.nic = t.nic
	t.Lock()
	defer t.Unlock()
	t.events.kick = kick
	for rank, p := range t.peers.All() {
		if p.state == joining.Dead {
			t.events.died(rank, p.err)
		}
	}
}

// Next implements joining.Job.
func (j *membership) Next() (ev joining.Event, ok bool) {
	t := j.member.t
	t.Lock()
	defer t.Unlock()
	e := &t.events
	if len(e.queue) == 0 {
		return ev, false
	}
	ev = e.queue[0]
	e.queue = slices.Delete(e.queue, 0, 1)
	if ev.Request != nil {
		e.requests--
	}
	return ev, true
}

// Dial implements joining.Job.
func (j *membership) Dial(vi *vipl.VI, rank int) error {
	return vi.ConnectStart(j.member.Addr(rank), j.member.t.job.request(forProgram, j.links.Params()))
}

// Failed implements joining.Job.
func (j *membership) Failed(rank int, cause error) {
	t := j.member.t
	t.Lock()
	defer t.Unlock()
	t.Fail(rank, cause)
}

// Say implements joining.Job.
func (j *membership) Say(why string) {
	t := j.member.t
	t.Lock()
	defer t.Unlock()
	t.Tell(joining.Report{Rank: j.Rank, Why: why})
}

// Leave implements joining.Job.
func (j *membership) Leave() {
	t := j.member.t
	t.Lock()
	defer t.Unlock()
	t.leaving = true
	t.part()
}

// request returns the private data of a request after Meet.
func (j *membership) request(purpose byte, params [2]uint32) []byte {
	var b [joining.HelloSize + 1]byte
	mine := j.describe(params)
	mine.put(b[:])
	b[joining.HelloSize] = purpose
	return b[:]
}

// isLate reports whether a request has been sent after Meet, by another rank of this job.
func (j *membership) isLate(req *vipl.Request) (h hello, late bool) {
	h = j.parseHello(req.Data())
	return h, len(req.Data()) == joining.HelloSize+1 && j.claims(&h) && int(h.Rank) != j.Rank
}

// late handles such a request, when this rank knows the run. The caller must hold the lock.
func (t *tree) late(req *vipl.Request, h *hello) {
	j, rank := t.job, int(h.Rank)
	why := j.check(h)
	if at := t.address(rank); why == nil && !at.IsZero() && at.MAC != req.Remote().MAC {
		why = fmt.Errorf("rank %d of job %q is at %v", rank, j.Identity.Job, at)
	}
	if p := t.peers.At(rank); why == nil && p != nil && p.state >= joining.Dead {
		why = fmt.Errorf("rank %d considers rank %d dead", j.Rank, rank)
	}
	if why != nil || h.Nonce == 0 {
		j.refused++
		req.Reject(fmt.Sprint(why))
		return
	}
	switch purpose := req.Data()[joining.HelloSize]; {
	case purpose == forLink:
		t.takeLink(req, rank)
	case purpose == forProgram && t.events.requests < j.Size+askedMost:
		t.events.requests++
		t.events.add(joining.Event{Rank: rank, Request: req, Params: h.Params})
	default:
		refusal.Busy(req)
	}
}

// Station implements joining.Job.
func (j *membership) Station(rank int) (ethertype.Addr, [2]uint32) { return j.member.t.where(rank) }
