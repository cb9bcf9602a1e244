package lanai

import (
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// send is a write in progress. It consists of one request for each piece of memory of at most
// longData, or of several short requests, and ends when all of them have ended.
type send struct {
	mem    [provider.CopyMax]byte
	bounce []byte   // a copy, if source and destination are aligned differently
	mapped [][]byte // memory that its requests name
	x      *region
	token  any
	left   int
	err    error

	notifies bool // with its last request
}

// part is a request that waits for a slot. data holds a short request's data.
type part struct {
	s      *send
	short  bool
	notify bool
	at     uint64 // in the region
	data   []byte
	turn   uint32 // number of the region's redirections before it
}

const wordSize = 8

// record returns an unused send.
func (p *process) record() *send {
	last := len(p.spare) - 1
	if last < 0 {
		return &send{}
	}
	s := p.spare[last]
	p.spare[last], p.spare = nil, p.spare[:last]
	return s
}

// Post implements provider.Provider.
func (p *process) Post(w *provider.Write) error {
	x := w.Region.Link.(*region)
	k := x.k
	switch {
	case w.Region.Err != nil:
		return w.Region.Err
	case !w.More && (k.busy >= p.cfg.Sends || k.notes.waiting.Len() >= p.cfg.Sends):
		return provider.ErrFull
	}
	notify := w.Notify && k.mayNotify(x)
	if w.Size == 0 && !notify {
		if w.Token != nil {
			p.up.Done(w.Token, nil)
		}
		return nil
	}
	s := p.record()
	s.x, s.token, s.notifies = x, w.Token, notify
	x.Busy++
	k.busy++
	p.count.Writes++
	p.count.Bytes += uint64(w.Size)
	if w.Size > 0 {
		x.Lo, x.Hi = min(x.Lo, w.Offset), max(x.Hi, w.Offset+uint64(w.Size))
		x.Count++
	}
	if w.Copy {
		p.count.Copied++
	}
	p.h.host.Engine.Lock()
	p.cut(s, w, notify)
	p.push()
	if w.Later {
		p.h.host.Engine.WakeBefore(p.h.host.Engine.Now())
	} else {
		p.h.drive()
	}
	p.h.host.Engine.Unlock()
	return nil
}

// cut splits a write into requests. The caller must hold the host's lock.
func (p *process) cut(s *send, w *provider.Write, notify bool) {
	at := w.Offset
	switch {
	case w.Size == 0:
		p.queueRequest(part{s: s, short: true, at: at})
	case w.Copy:
		b := w.Gather(s.mem[:])
		p.short(s, at, b)
	case s.x.aligned(at, w) && p.inReach(w):
		skip, left := w.Skip, w.Size
		for _, b := range w.Data {
			if skip >= len(b) {
				skip -= len(b)
				continue
			}
			b = b[skip:]
			b = b[:min(len(b), left)]
			p.long(s, at, b, longData)
			at += uint64(len(b))
			if skip, left = 0, left-len(b); left == 0 {
				break
			}
		}
	default:
		p.copied(s, at, w)
	}
	p.backlog.At(p.backlog.Len() - 1).notify = notify
}

// inReach reports whether the card can read all data of a write in place.
func (p *process) inReach(w *provider.Write) bool {
	if p.guest == nil {
		return true
	}
	for _, b := range w.Data {
		if _, ok := p.space.reaches(b); !ok {
			return false
		}
	}
	return true
}

// copied sends a copy of the data, aligned like the destination.
func (p *process) copied(s *send, at uint64, w *provider.Write) {
	if p.guest == nil {
		p.long(s, at, s.copy(at, w), longData)
		return
	}
	p.long(s, at, s.copy(at, w), stageData) // each part is copied again when it has a slot
}

// queueRequest queues a request for a slot.
func (p *process) queueRequest(x part) {
	x.s.left++
	x.turn = x.s.x.turn
	p.backlog.Push(x)
}

// short sends data in short requests, without tearing a word.
func (p *process) short(s *send, at uint64, b []byte) {
	for len(b) > 0 {
		n := len(b)
		if n > shortData {
			n = shortData - int((s.x.base()+at+shortData)%wordSize)
		}
		p.queueRequest(part{s: s, short: true, at: at, data: b[:n:n]})
		at, b = at+uint64(n), b[n:]
	}
}

// long sends data in place, at most so many bytes in a request.
func (p *process) long(s *send, at uint64, b []byte, most int) {
	if p.guest == nil {
		p.space.enter(vipl.VirtualAddress(b), b)
		s.mapped = append(s.mapped, b)
	}
	for len(b) > 0 {
		n := len(b)
		if n > most {
			n = most - int((s.x.base()+at+uint64(most))%wordSize)
		}
		p.queueRequest(part{s: s, at: at, data: b[:n:n]})
		at, b = at+uint64(n), b[n:]
	}
}

// aligned reports whether chunks of the source, which end at page boundaries, and its pieces tear
// no word of the destination.
func (x *region) aligned(at uint64, w *provider.Write) bool {
	skip, left := w.Skip, w.Size
	to := x.base() + at
	for _, b := range w.Data {
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		b = b[skip:]
		b = b[:min(len(b), left)]
		if (vipl.VirtualAddress(b)-to)%wordSize != 0 {
			return false
		}
		to += uint64(len(b))
		if skip, left = 0, left-len(b); left == 0 {
			return true
		}
		if to%wordSize != 0 {
			return false
		}
	}
	return true
}

// copy gathers a write into a buffer that is aligned like the destination.
func (s *send) copy(at uint64, w *provider.Write) []byte {
	if cap(s.bounce) < w.Size+2*wordSize {
		s.bounce = make([]byte, w.Size+2*wordSize)
	}
	b := s.bounce[:cap(s.bounce)]
	shift := int((s.x.base() + at - vipl.VirtualAddress(b)) % wordSize)
	return w.Gather(b[shift:])
}

// push writes requests into free slots. The caller must hold the host's lock.
func (p *process) push() {
	for p.backlog.Len() > 0 && p.queue.open {
		slot := &p.slots[(p.next-1)%slots]
		x := p.backlog.At(0)
		r := x.s.x
		if *slot != nil || r.moving && x.turn == r.turn {
			return
		}
		q := request{number: p.next, short: x.short, notify: x.notify, size: len(x.data), data: x.data}
		q.proxy = r.first<<pageShift + uint32(uint64(r.offset)+x.at)
		*slot = x.s
		p.next = after(p.next)
		if p.guest != nil {
			p.guest.put(&q, x)
		} else {
			if !x.short {
				q.at = vipl.VirtualAddress(x.data)
			}
			q.write(p.page)
		}
		p.backlog.Pop()
	}
}

// post calls push; the caller must not hold the host's lock.
func (p *process) post() {
	p.h.host.Engine.Lock()
	p.push()
	p.h.drive()
	p.h.host.Engine.Unlock()
}

// requestEnded handles the end of a request.
func (p *process) requestEnded(number uint32, how ending) {
	p.h.host.Engine.Lock()
	slot := &p.slots[(number-1)%slots]
	s := *slot
	if *slot = nil; p.backlog.Len() > 0 {
		p.push()
		p.h.drive()
	}
	p.h.host.Engine.Unlock()
	if s == nil {
		return
	}
	if how == endRefused { // the credit for its notification is lost with it, if it had one
		s.x.k.refused()
	}
	if how != endDone && s.err == nil {
		s.err = s.x.why(how)
	}
	if s.left--; s.left == 0 {
		p.ends(s, s.err)
	}
}

// why returns the error for the result of a request.
func (x *region) why(how ending) error {
	switch {
	case x.Err != nil:
		return x.Err
	case how == endLost:
		return provider.ErrPeer
	}
	return fmt.Errorf("%w: the card has refused the request (%d)", provider.ErrPeer, how)
}

// ends ends a write.
func (p *process) ends(s *send, err error) {
	x, token, notified := s.x, s.token, s.notifies
	x.Busy--
	x.k.busy--
	if x.drain > 0 {
		x.drain--
	}
	p.h.host.Engine.Lock()
	for i, b := range s.mapped {
		p.space.leave(vipl.VirtualAddress(b), b)
		s.mapped[i] = nil
	}
	p.h.host.Engine.Unlock()
	if cap(s.bounce) > mostBounce {
		s.bounce = nil
	}
	s.mapped, s.x, s.token, s.left, s.err, s.notifies = s.mapped[:0], nil, nil, 0, nil, false
	p.spare = append(p.spare, s)
	if notified {
		x.k.notified()
	}
	if token != nil {
		p.up.Done(token, err)
	}
	x.writesEnded()
}

// mostBounce is the size of the largest copy that is kept for the next write.
const mostBounce = 1 << 16

// under returns the writes in progress, each once.
func (p *process) under() (all []*send) {
	add := func(s *send) {
		if s != nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, s := range p.slots {
		add(s)
	}
	for i := range p.backlog.Len() {
		add(p.backlog.At(i).s)
	}
	p.slots = [slots]*send{}
	p.backlog.Clear()
	return all
}
