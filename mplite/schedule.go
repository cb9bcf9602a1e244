package mplite

import (
	"cmp"
	"context"
)

// Nonblocking collectives. No algorithm depends on the data: who sends to whom depends on ranks,
// lengths and roots only. In a nonblocking call, the function of the blocking call runs to its end
// at once and records its operations: the schedule. The goroutine that makes progress executes the
// schedule: the next step is due when the sends and receives in progress have ended. A schedule
// needs no goroutine, several schedules proceed concurrently, and both forms share one algorithm.

// schedule is a nonblocking collective in progress.
type schedule struct {
	x       *coll
	req     *request // the request that the user waits for
	apply   func(dst, left, right []byte)
	steps   []step
	next    int        // the step that is due
	parts   []*request // sends and receives that were started and whose results look has not collected
	open    int        // number of parts that have not ended
	err     error      // the first error
	queued  bool       // the schedule is in world.due
	running bool
	meets   bool // it uses shared memory
}

// step starts a send or receive, copies, reduces, or waits for everything started.
type step struct {
	kind stepKind
	peer int
	aim  aim    // what stepReach waits for
	buf  []byte // the data to send, or the destination of a receive, copy or reduction
	from []byte // the source of a copy, or the left operand of a reduction
	with []byte // the right operand of a reduction
}

type stepKind uint8

const (
	stepSend stepKind = iota
	stepRecv
	stepCopy
	stepReduce
	stepReach // shared memory: see shared.go
	stepPost
	stepLeave
	stepWait
)

func (s *schedule) add(st step)              { s.steps = append(s.steps, st) }
func (s *schedule) send(buf []byte, dst int) { s.add(step{kind: stepSend, buf: buf, peer: dst}) }
func (s *schedule) recv(buf []byte, src int) { s.add(step{kind: stepRecv, buf: buf, peer: src}) }
func (s *schedule) copy(dst, src []byte)     { s.add(step{kind: stepCopy, buf: dst, from: src}) }
func (s *schedule) wait()                    { s.add(step{kind: stepWait}) }
func (s *schedule) reduce(dst, left, right []byte) {
	s.add(step{kind: stepReduce, buf: dst, from: left, with: right})
}

// erased returns op for elements that are given as bytes. In the path of blocking calls, op must not escape.
func erased[T any](op Op[T]) func(dst, left, right []byte) {
	return func(dst, left, right []byte) { op.apply(asElements[T](dst), asElements[T](left), asElements[T](right)) }
}

// plan starts a nonblocking call by recording its operations. Reductions use apply.
func (c *Comm) plan(sig signature, apply func(dst, left, right []byte)) (*coll, error) {
	x, err := c.begin(context.Background(), sig)
	if err != nil {
		return nil, err
	}
	own := *c // Free ends the caller's use of the communicator, but not calls in progress
	x.c = &own
	x.sched = &schedule{x: &x, apply: apply}
	return &x, nil
}

// launch starts executing the schedule, unless recording it failed. The request completes after the
// last step.
func (x *coll) launch(err error) (Request, error) {
	if err = cmp.Or(err, x.over); err != nil {
		return Request{}, err
	}
	w, s := x.c.w, x.sched
	w.mu.Lock()
	defer w.mu.Unlock()
	s.req = w.request(x.c, nil, spec{typ: rawBytes})
	s.req.state = collRunning
	if s.meets {
		x.c.meet.enqueue(int32(x.tag))
	}
	s.run()
	return handle(s.req, nil)
}

// canAdvance reports whether advance has something to do.
func (w *world) canAdvance() bool { return len(w.due) > 0 || w.pulls.Len() > 0 }

// advance executes the due steps of all schedules, which may start sends, and then copies messages from
// their senders. It may release the mutex meanwhile.
func (w *world) advance() {
	for w.met(); w.canAdvance(); w.met() {
		if len(w.due) == 0 {
			w.pull()
			w.reap() // completions may have arrived during the long copy
			continue
		}
		s := w.due[0]
		w.due = w.due[:copy(w.due, w.due[1:])]
		s.queued = false
		s.run()
	}
}

// run executes steps until one has to wait. It runs the user's operations without the mutex: they
// may take long, and may call this package.
func (s *schedule) run() {
	w := s.x.c.w
	s.running = true
	s.look()
	for s.err == nil && s.next < len(s.steps) {
		st := &s.steps[s.next]
		if st.kind == stepWait {
			if s.look(); s.open > 0 {
				break
			}
		}
		s.next++
		switch st.kind {
		case stepSend:
			s.beginSend(st)
		case stepRecv:
			s.beginRecv(st)
		case stepCopy:
			copy(st.buf, st.from)
		case stepReduce:
			w.mu.Unlock()
			s.apply(st.buf, st.from, st.with)
			w.mu.Lock()
		case stepReach:
			s.adopt(w.meet(s.x, st.aim))
		case stepPost:
			s.x.c.meet.post(int32(s.x.tag), s.x.mine())
			s.x.c.rouse()
		case stepLeave:
			s.x.c.meet.leave(int32(s.x.tag))
			s.x.c.rouse()
		}
	}
	if s.err != nil {
		s.abandon()
		if s.meets {
			s.x.c.meet.dequeue(int32(s.x.tag))
		}
	}
	s.running = false
	if s.open == 0 && (s.err != nil || s.next == len(s.steps)) {
		s.steps = nil
		w.complete(s.req, s.err)
	}
}

func (s *schedule) beginSend(st *step) {
	x := s.x
	p := x.c.peer(st.peer)
	if p.clearToSend(len(st.buf)) {
		p.sendEager(st.buf, x.tag, x.s, 0)
		return
	}
	s.adopt(x.c.w.beginSend(x.c, p, st.buf, x.tag, x.s))
}

func (s *schedule) beginRecv(st *step) {
	x := s.x
	r, err := x.c.postRecv(st.buf, st.peer, x.tag, x.s)
	if err != nil {
		s.err = err
		return
	}
	s.adopt(r)
}

// adopt adds r, which has started, to the parts.
func (s *schedule) adopt(r *request) {
	s.parts = append(s.parts, r)
	if r.state != stateDone {
		r.sched = s
		s.open++
	}
}

// ended records that a part has ended.
func (s *schedule) ended(r *request) {
	w := s.x.c.w
	r.sched = nil
	s.open--
	if (s.open == 0 || r.err != nil) && !s.running && !s.queued {
		s.queued = true
		w.due = append(w.due, s)
		w.notify()
	}
}

// look collects the results of the parts that have ended.
func (s *schedule) look() {
	w := s.x.c.w
	left := s.parts[:0]
	for _, r := range s.parts {
		if r.state != stateDone {
			left = append(left, r)
			continue
		}
		err := r.err
		if r.env.src != int32(w.rank) { // r is a receive: only receives can have the wrong size
			err = s.x.judged(r.status, err, len(r.buf))
		}
		if s.err == nil {
			s.err = err
		}
		w.release(r)
	}
	clear(s.parts[len(left):])
	s.parts = left
}

// abandon ends the operations in progress, as far as possible: see cancel. The rest end by
// themselves.
func (s *schedule) abandon() {
	w := s.x.c.w
	for _, r := range s.parts {
		w.cancel(r, s.err)
	}
	s.look()
}
