package job

import (
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/vipl"
)

// Connections on first use. A program on a Member may connect two ranks when one of them first has
// a message for the other, because every rank knows the addresses of all others. Its request
// carries a Hello of this run and one more byte, the purpose. The Member receives the request and
// passes it to the program, so a rank accepts requests while its program computes.

// Purposes of a request: the byte after its Hello.
const (
	forLink    = 1 // a link of the Member's tree that replaces one to a failed rank
	forProgram = 2 // a connection of the program on the Member
)

// Event is an event for a program that connects on first use: a rank's connection request, the
// failure of a rank, or that all ranks leave.
type Event struct {
	Rank    int           // -1: all ranks leave
	Request *vipl.Request // nil if Rank has failed
	Params  [2]uint32     // parameters of the program of the requesting rank
	Err     error         // the RankError
}

// events holds the events that the program on a Member has not taken yet.
type events struct {
	kick     func() // function of the program; nil if it has not requested events
	queue    []Event
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

func (e *events) add(ev Event) {
	e.queue = append(e.queue, ev)
	e.fresh = true
}

func (e *events) died(rank int, err error) {
	if e.kick != nil {
		e.add(Event{Rank: rank, Err: err})
	}
}

func (e *events) left() {
	if e.kick != nil {
		e.add(Event{Rank: -1})
	}
}

// OnUse lets the program of j connect to other ranks by Dial, in place of Meet. All ranks must have
// opened its Member. The Member calls kick, without a lock, when Next returns something, also while
// the program computes.
func (j *Job) OnUse(kick func()) {
	t := j.member.t
	j.nic = t.nic
	t.Lock()
	defer t.Unlock()
	t.events.kick = kick
	for rank, p := range t.peers {
		if p != nil && p.state == Dead {
			t.events.died(rank, p.err)
		}
	}
}

// Next returns the next event of the Member. The lock of Links may be held.
func (j *Job) Next() (ev Event, ok bool) {
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

// Dial starts to connect vi with the program of another rank, and returns at once; see
// VI.ConnectDone.
func (j *Job) Dial(vi *vipl.VI, rank int) error {
	return vi.ConnectStart(j.member.Addr(rank), j.member.t.job.request(forProgram, j.links.Params()))
}

// Failed makes the Member report to all ranks that one has failed. The lock of Links may be held.
func (j *Job) Failed(rank int, cause error) {
	t := j.member.t
	t.Lock()
	defer t.Unlock()
	t.Fail(rank, cause)
}

// Say makes the Member report to all ranks that this one fails, and why. The lock of Links may be
// held.
func (j *Job) Say(why string) {
	t := j.member.t
	t.Lock()
	defer t.Unlock()
	t.Tell(Report{Rank: j.Rank, Why: why})
}

// Leave makes the Member tell all ranks that this one leaves. An Event follows when all living
// ranks leave.
func (j *Job) Leave() {
	t := j.member.t
	t.Lock()
	defer t.Unlock()
	t.leaving = true
	t.part()
}

// request returns the private data of a request after Meet.
func (j *Job) request(purpose byte, params [2]uint32) []byte {
	var b [HelloSize + 1]byte
	mine := j.Hello(params)
	mine.Put(b[:])
	b[HelloSize] = purpose
	return b[:]
}

// isLate reports whether a request has been sent after Meet, by another rank of this job.
func (j *Job) isLate(req *vipl.Request) (h Hello, late bool) {
	h = j.ParseHello(req.Data())
	return h, len(req.Data()) == HelloSize+1 && j.Claims(&h) && int(h.Rank) != j.Rank
}

// late handles such a request, when this rank knows the run. The caller must hold the lock.
func (t *tree) late(req *vipl.Request, h *Hello) {
	j, rank := t.job, int(h.Rank)
	why := j.Check(h)
	if at := t.address(rank); why == nil && !at.IsZero() && at.MAC != req.Remote().MAC {
		why = fmt.Errorf("rank %d of job %q is at %v", rank, j.Identity.Job, at)
	}
	if p := t.peers[rank]; why == nil && p != nil && p.state >= Dead {
		why = fmt.Errorf("rank %d considers rank %d dead", j.Rank, rank)
	}
	if why != nil || h.Nonce == 0 {
		j.refused++
		req.Reject(fmt.Sprint(why))
		return
	}
	switch purpose := req.Data()[HelloSize]; {
	case purpose == forLink:
		t.takeLink(req, rank)
	case purpose == forProgram && t.events.requests < j.Size+askedMost:
		t.events.requests++
		t.events.add(Event{Rank: rank, Request: req, Params: h.Params})
	default:
		refusal.Busy(req)
	}
}

// Station returns where the Member of another rank listens, and the parameters of its program.
func (j *Job) Station(rank int) (ethertype.Addr, [2]uint32) { return j.member.t.where(rank) }
