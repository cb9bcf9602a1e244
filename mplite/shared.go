package mplite

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/internal/shared"
	"golang.org/x/sys/unix"
)

// Collectives in shared memory. If all ranks of a job are processes of one user on one host, they share memory
// in which each rank has an area that only this rank writes. In a call, every rank puts its data and the call's
// signature into a slot of its area. Then it reads the slots of the ranks whose data it needs:
//
//	reach(meetRoom)  waits until no rank still reads the slot of an earlier call
//	post             the rank's slot is complete
//	reach(rank)      waits until another rank has posted; meetAll: until all have
//	leave            this rank has read what it needs
//
// The functions for the collectives are as those that exchange messages: one form serves blocking and
// nonblocking calls. A call that waits polls the memory first. Then it is a request in the state recvMeet, as a
// receive is. So a failed rank, a mismatch, the end of a context, and questions of other ranks end or describe it
// as they do a receive. A rank that sleeps announces this in its area. The rank that posts wakes it by an empty
// credit message. So a rank that waits always drives the protocol, or sleeps where any message wakes it.
//
// Other ranks may write anything into the memory at any time. All lengths and offsets are this rank's own. What
// it reads is data, or a word that it compares with what it expects.

const (
	meetSlots = 8         // calls for which a rank can post before all others have left the first
	meetMost  = 512 << 10 // bytes that a slot holds
	meetRanks = 16        // maximum number of ranks
)

// Layout of a rank's area. Words that different ranks write, or that are written at different times, have a
// distance of two cache lines.
const (
	areaEnded = 0   // this rank has left all calls before this one
	areaSleep = 128 // not 0: this rank sleeps
	areaSlots = 256

	slotTurn = 0 // the call that the slot is for; written last
	slotElem = 4
	slotCall = 8
	slotData = 16 // aligned for elements of any type
	slotSize = (slotData + meetMost + 127) &^ 127
	noTurn   = 1<<32 - 1 // in slotTurn: the slot is for no call
	areaSize = areaSlots + meetSlots*slotSize
)

// partSize is the distance of the parts in a slot, if these may have different lengths. A part begins with its length.
// Parts of more than partMost bytes are messages.
const (
	partSize = meetMost / meetRanks
	partData = 8
	partMost = partSize - partData
)

// aim is what a call waits for.
type aim struct {
	from int // a rank, or one of the following
	part int // if want is at least 0: the part in the rank's slot that has so many bytes
	want int
}

const (
	meetAll  = -1 // all ranks
	meetRoom = -2 // room in this rank's slot
)

// meeting is one rank's view of the shared memory of a communicator. It is pure: it reads and writes memory, and
// never waits. The world's mutex guards it, except in a blocking call while open is 0.
type meeting struct {
	mem  *shared.Memory // keeps b mapped; nil in tests
	b    []byte
	rank int
	size int

	ended   int32 // all ranks have left the calls before this one
	checked int32 // the latest call whose signatures have been compared
	seen    int   // all ranks below this one have posted for the present call
	own     [meetSlots]posted
	queue   []int32      // nonblocking calls of this rank that have not ended, the oldest first
	open    atomic.Int32 // their number

	yields   int64         // see meetYields; 0: this rank does not yield
	lacks    int           // the rank that the last ready waited for
	lacked   uint64        // the offset and the value of the word that it waited for
	watch    atomic.Uint64 // the same of the request that can end next, for look; 0: none
	conflict conflict
}

// posted is what this rank has posted in a slot.
type posted struct {
	used bool
	turn int32
	sig  callSig
}

// conflict is a rank with another signature than this one.
type conflict struct {
	found  bool
	turn   int32
	rank   int
	theirs callSig
	reason string
}

func newMeeting(mem *shared.Memory, b []byte, rank, size int) *meeting {
	return &meeting{mem: mem, b: b, rank: rank, size: size}
}

// meetingSize is the size in bytes of the memory for that many ranks.
func meetingSize(ranks int) int { return ranks * areaSize }

func slotAt(rank int, turn int32) int {
	return rank*areaSize + areaSlots + int(turn%meetSlots)*slotSize
}

// data returns the first n bytes that a rank has put into its slot.
func (m *meeting) data(rank int, turn int32, n int) []byte {
	at := slotAt(rank, turn) + slotData
	return m.b[at : at+n : at+n]
}

// ready reports whether a call need not wait for a. It may find a conflict.
func (m *meeting) ready(turn int32, a aim) bool {
	if len(m.queue) > 0 && m.queue[0] != turn {
		m.lacks, m.lacked = m.rank, 0
		return false
	}
	switch a.from {
	case meetRoom:
		return m.room(turn)
	case meetAll:
		for ; m.seen < m.size; m.seen++ {
			if !m.has(m.seen, turn) {
				return false
			}
		}
		m.compare(turn)
		return true
	}
	if !m.has(a.from, turn) {
		return false
	}
	m.compareWith(a.from, turn)
	if a.want >= 0 {
		m.measure(turn, a)
	}
	return true
}

// has reports whether a rank has posted for a call.
func (m *meeting) has(rank int, turn int32) bool {
	at := slotAt(rank, turn) + slotTurn
	was := shared.Load(m.b, at)
	if was == uint32(turn) {
		return true
	}
	m.lack(rank, at, was)
	return false
}

// lack notes for which rank a call waits: until the word at an offset changes.
func (m *meeting) lack(rank, at int, was uint32) {
	m.lacks, m.lacked = rank, uint64(at)<<32|uint64(was)
}

// look reports whether a request may have ended: see progress.Engine.LookElsewhere. Any goroutine may call it.
func (m *meeting) look(sleep bool) bool {
	v := m.watch.Load()
	if v == 0 {
		return false
	}
	if sleep {
		m.sleep(true)
	}
	return shared.Load(m.b, int(v>>32)) != uint32(v)
}

// room reports whether all ranks have left the call that had the slot of call turn before.
func (m *meeting) room(turn int32) bool {
	if m.enter(turn); !before(m.ended, (turn-meetSlots+1)&MaxTag) {
		return true
	}
	least := turn
	for r := range m.size {
		at := r*areaSize + areaEnded
		was := shared.Load(m.b, at)
		ended := int32(was & MaxTag)
		if before(ended, (turn-meetSlots+1)&MaxTag) {
			m.lack(r, at, was)
			return false
		}
		if before(ended, least) {
			least = ended
		}
	}
	m.ended = least
	m.compare((turn - meetSlots) & MaxTag)
	return true
}

// enter notes that this rank has left all calls before turn.
func (m *meeting) enter(turn int32) {
	at := m.rank*areaSize + areaEnded
	if shared.Load(m.b, at) != uint32(turn) {
		shared.Store(m.b, at, uint32(turn))
	}
}

// post makes this rank's slot of a call visible.
func (m *meeting) post(turn int32, sig callSig) {
	m.sign(turn, sig)
	m.seen = 0
	shared.Store(m.b, slotAt(m.rank, turn)+slotTurn, uint32(turn))
}

// sign writes this rank's signature of a call to its slot. Other ranks may compare the signature of the slot's
// earlier call at this moment, so the slot is for no call until post.
func (m *meeting) sign(turn int32, sig callSig) {
	o := &m.own[turn%meetSlots]
	if slot := m.b[slotAt(m.rank, turn):][:slotData]; o.sig != sig {
		shared.Store(slot, slotTurn, noTurn)
		shared.Store(slot, slotElem, sig.elem)
		shared.Store(slot, slotCall, uint32(sig.call))
		shared.Store(slot, slotCall+4, uint32(sig.call>>32))
	}
	*o = posted{true, turn, sig}
}

// leave ends a call.
func (m *meeting) leave(turn int32) {
	m.enter((turn + 1) & MaxTag)
	m.dequeue(turn)
}

// enqueue adds a nonblocking call. Calls use the memory one after the other.
func (m *meeting) enqueue(turn int32) {
	m.queue = append(m.queue, turn)
	m.open.Add(1)
}

// dequeue removes a nonblocking call.
func (m *meeting) dequeue(turn int32) {
	for i, t := range m.queue {
		if t == turn {
			m.queue = append(m.queue[:i], m.queue[i+1:]...)
			m.open.Add(-1)
			return
		}
	}
}

// compare compares the signatures of all ranks, for the calls up to turn that have not been compared. All ranks
// have posted for these calls.
func (m *meeting) compare(turn int32) {
	for i := range m.own {
		if o := &m.own[i]; o.used && before(m.checked, o.turn) && !before(turn, o.turn) {
			for r := range m.size {
				m.compareWith(r, o.turn)
			}
		}
	}
	if before(m.checked, turn) {
		m.checked = turn
	}
}

// compareWith compares a rank's signature of a call with this rank's, unless the slot is in use for another call.
func (m *meeting) compareWith(rank int, turn int32) {
	slot := m.b[slotAt(rank, turn):][:slotData]
	theirs := callSig{uint64(shared.Load(slot, slotCall)) | uint64(shared.Load(slot, slotCall+4))<<32, shared.Load(slot, slotElem)}
	if mine := m.own[turn%meetSlots]; mine.sig.differs(theirs) && shared.Load(slot, slotTurn) == uint32(turn) && !m.conflict.found {
		m.conflict = conflict{found: true, turn: turn, rank: rank, theirs: theirs}
	}
}

// measure compares the length of a part with the length that this rank expects, and the types of the elements.
func (m *meeting) measure(turn int32, a aim) {
	if m.conflict.found {
		return
	}
	mine := m.own[turn%meetSlots].sig
	elem := binary.LittleEndian.Uint32(m.b[slotAt(a.from, turn)+slotElem:])
	got := binary.LittleEndian.Uint64(m.data(a.from, turn, meetMost)[a.part*partSize:])
	reason := ""
	switch {
	case got > 0 && elem != mine.elem && elem != sigRaw && mine.elem != sigRaw:
		reason = otherElements(a.from, m.rank)
	case got != uint64(a.want):
		reason = otherLength(a.from, got, m.rank, a.want)
	default:
		return
	}
	m.conflict = conflict{true, turn, a.from, callSig{mine.call, elemUnknown}, reason}
}

// sleep announces that this rank sleeps, or does not.
func (m *meeting) sleep(yes bool) {
	v := uint32(0)
	if yes {
		v = 1
	}
	shared.Store(m.b, m.rank*areaSize+areaSleep, v)
}

// sleeps reports whether a rank sleeps.
func (m *meeting) sleeps(rank int) bool { return shared.Load(m.b, rank*areaSize+areaSleep) != 0 }

// roused notes that a rank that sleeps is being woken.
func (m *meeting) roused(rank int) { shared.Store(m.b, rank*areaSize+areaSleep, 0) }

// nearby reports whether the call can use shared memory.
func (x *coll) nearby() bool { return x.c.meet != nil && x.among == nil }

// slot returns the data of a rank, of n bytes.
func (x *coll) slot(rank, n int) []byte { return x.c.meet.data(rank, int32(x.tag), n) }

// reach waits for a rank, for meetAll or for meetRoom.
func (x *coll) reach(from int) error { return x.aim(aim{from: from, want: -1}) }

// reachPart waits for a rank and expects a part of n bytes from it.
func (x *coll) reachPart(rank, part, n int) error { return x.aim(aim{rank, part, n}) }

// putPart puts a part of any length into this rank's slot, unless it is too long.
func (x *coll) putPart(part int, b []byte) {
	slot := x.slot(x.rank, meetMost)[part*partSize:][:partSize]
	if x.sched != nil {
		x.copy(slot, binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	} else {
		binary.LittleEndian.PutUint64(slot, uint64(len(b)))
	}
	if len(b) <= partMost {
		x.copy(slot[partData:], b)
	}
}

// takePart copies a part from a rank's slot to b, unless it is a message.
func (x *coll) takePart(b []byte, rank, part int) {
	if len(b) <= partMost {
		x.copy(b, x.slot(rank, meetMost)[part*partSize+partData:][:len(b)])
	}
}

// aim waits for a.
func (x *coll) aim(a aim) error {
	if x.over != nil {
		return x.over
	}
	if x.sched != nil {
		x.sched.meets = true
		x.sched.add(step{kind: stepReach, aim: a})
		x.sched.wait()
		return nil
	}
	m := x.c.meet
	if m.open.Load() > 0 {
		return x.await(a)
	}
	for end := int64(0); ; {
		for range meetLooks {
			if m.ready(int32(x.tag), a) {
				if m.conflict.found {
					return x.await(a)
				}
				return nil
			}
		}
		now := x.c.w.nic.Now()
		if end == 0 {
			end = now + m.yields
		}
		if now >= end {
			return x.await(a)
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

const (
	// meetLooks is how often a wait looks at the memory before it yields, or becomes a request.
	meetLooks = 100
	// meetYields is the time in nanoseconds for which a wait yields to other ranks first, if there are more ranks
	// than processors. The ranks that it waits for can then run at once.
	meetYields = 100_000
)

// await is reach as a request.
func (x *coll) await(a aim) error {
	w := x.c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.finish(x.ctx, w.meet(x, a))
	return err
}

// meet returns the request of a reach. It may have ended.
func (w *world) meet(x *coll, a aim) *request {
	r := w.request(x.c, nil, x.s)
	r.state, r.aim = recvMeet, a
	r.env = envelope{context: x.s.context, src: int32(w.rank), tag: int32(x.tag)}
	w.meets = append(w.meets, r)
	if err := cmp.Or(x.c.log.overruled(r.env.tag), w.fatal, x.c.casualty()); err != nil {
		w.cancel(r, err)
		return r
	}
	w.met()
	return r
}

// met ends the requests that need not wait any more, and reports whether there are some.
func (w *world) met() (some bool) {
	if len(w.meets) == 0 {
		return false
	}
	var next uint64
	for i := 0; i < len(w.meets); {
		r := w.meets[i]
		m := r.c.meet
		if m.ready(r.env.tag, r.aim) {
			some = true
			if c := m.conflict; c.found {
				m.conflict.found = false
				r.c.differ(c.turn, m.own[c.turn%meetSlots].sig, c.theirs, int32(c.rank), c.reason, nil)
			}
			if r.state != stateDone {
				w.unmeet(r)
				w.complete(r, nil)
			}
			i, next = 0, 0 // others may have ended, too
			continue
		}
		if m.lacked != 0 {
			next = m.lacked
		}
		r.env.src = r.c.group[m.lacks]
		if p := w.peers.At(int(r.env.src)); p != nil && p.state >= peerDead {
			w.cancel(r, p.err)
			i, next = 0, 0
			continue
		}
		i++
	}
	if len(w.meets) > 0 {
		w.meets[0].c.meet.watch.Store(next)
	}
	return some
}

// unmeet removes r from the requests that wait for shared memory.
func (w *world) unmeet(r *request) {
	w.meets = slices.DeleteFunc(w.meets, func(q *request) bool { return q == r })
	if len(w.meets) == 0 {
		r.c.meet.watch.Store(0)
		r.c.meet.sleep(false)
	}
}

// post makes the data in this rank's slot visible to the other ranks.
func (x *coll) post() error {
	if x.over != nil {
		return x.over
	}
	if x.sched != nil {
		x.sched.add(step{kind: stepPost})
		return nil
	}
	x.c.meet.post(int32(x.tag), x.mine())
	x.wake()
	return nil
}

// leave ends the call's use of shared memory.
func (x *coll) leave() error {
	if x.sched != nil {
		x.sched.add(step{kind: stepLeave})
		return nil
	}
	x.c.meet.leave(int32(x.tag))
	x.wake()
	return nil
}

// wake wakes the ranks that sleep.
func (x *coll) wake() {
	if x.c.sleepers() {
		x.c.w.mu.Lock()
		x.c.rouse()
		x.c.w.mu.Unlock()
	}
}

// sleepers reports whether other ranks sleep.
func (c *Comm) sleepers() bool {
	for r := range c.meet.size {
		if r != c.rank && c.meet.sleeps(r) {
			return true
		}
	}
	return false
}

// rouse wakes the ranks that sleep. A rank for which a message waits already needs no other one. A rank that never
// waits itself handles completions here: they bring back the credits that these messages need.
func (c *Comm) rouse() {
	if !c.sleepers() {
		return
	}
	c.w.reap()
	for r := range c.meet.size {
		if r != c.rank && c.meet.sleeps(r) {
			c.meet.roused(r)
			if p := c.peer(r); p.pending.Len() == 0 {
				p.say(control{kind: kindCredit})
			}
		}
	}
}
