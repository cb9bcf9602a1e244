package mplite

import (
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/job"
)

// Mismatched collectives. Each message of a collective carries its sender's signature of the call.
// A rank compares it when it matches the message, when the message arrives and no receive matches
// it, and when the rank makes a call for which the message is early. A rank that waits for long
// asks the rank that it waits for. So the ranks also find a mismatch if all of them wait. The rank
// that finds a mismatch notifies all ranks of the communicator. So does a rank that takes no part
// in a call because its arguments are invalid.

// callSig is the signature in messages: function, operation, root and size in one word, and the
// element type.
type callSig struct {
	call uint64
	elem uint32
}

const (
	sigOpAt   = 5
	sigRootAt = 10
	sigSizeAt = 22

	elemUnknown = 0xffffffff // elements of which nothing is known
)

// pack returns the signature under the name of call k: the collective itself, or the call that
// contains it.
func (s signature) pack(k call) callSig {
	return callSig{uint64(k) | uint64(s.op)<<sigOpAt | uint64(s.root)&(job.MaxRanks-1)<<sigRootAt | uint64(s.size)<<sigSizeAt, s.typ.sig}
}

// differs reports whether ranks with these signatures cannot take part in one call. Where sizes may
// differ, the elements are compared with each message.
func (s callSig) differs(t callSig) bool {
	return s.call != t.call || s.call>>sigSizeAt != 0 && s.elem != t.elem && s.elem != sigRaw && t.elem != sigRaw
}

// String describes the call for error messages.
func (s callSig) String() string {
	k, op := call(s.call&(1<<sigOpAt-1)), opCode(s.call>>sigOpAt&(1<<(sigRootAt-sigOpAt)-1))
	if k == 0 || k >= numCalls || op >= numOps {
		return "an unknown collective"
	}
	text := k.String()
	if k.composed() {
		return text
	}
	if op != opNone {
		text += fmt.Sprintf(" (%v)", op)
	}
	if size := s.call >> sigSizeAt; size > 0 {
		text += " of " + elementsName(size, s.elem)
	}
	switch root := s.call >> sigRootAt & (job.MaxRanks - 1); k {
	case callBcast, callScatter, callScatterv:
		text += fmt.Sprintf(" from root %d", root)
	case callReduce, callGather, callGatherv:
		text += fmt.Sprintf(" to root %d", root)
	}
	return text
}

func elementsName(size uint64, elem uint32) string {
	switch {
	case elem == sigRaw:
		return fmt.Sprintf("%d bytes", size)
	case elem == elemUnknown:
		return fmt.Sprintf("%d bytes of elements", size)
	case elem&sigStruct != 0 || numberSize(elem) == 0:
		return fmt.Sprintf("%d bytes of %s", size, sigName(elem))
	}
	return fmt.Sprintf("%d %s", size/uint64(numberSize(elem)), sigName(elem))
}

// callLog is the state of a communicator's collective calls.
type callLog struct {
	turn   int32                // number of the latest call, 0 before the first
	recent [recentCalls]callSig // signatures of the latest calls, by number
	ahead  list[inbound]        // messages for calls that this rank has not made
	broken *MismatchError       // an error that ends its call and all later calls
	failed []*MismatchError     // errors that end one call each
}

const recentCalls = 64

// before reports whether call number a comes before b. Numbers wrap around.
func before(a, b int32) bool {
	d := (b - a) & MaxTag
	return d != 0 && d < 1<<30
}

// at returns the signature of a call that this rank has made, if it is known.
func (l *callLog) at(turn int32) (callSig, bool) {
	if (l.turn-turn)&MaxTag >= recentCalls {
		return callSig{}, false
	}
	s := l.recent[turn%recentCalls]
	return s, s.call != 0
}

// verdict returns the error that ends a call, or nil.
func (l *callLog) verdict(turn int32) *MismatchError {
	if l.broken != nil && !before(turn, l.broken.turn) {
		return l.broken
	}
	for _, v := range l.failed {
		if v.turn == turn {
			return v
		}
	}
	return nil
}

// overruled returns the error that ends a call which is about to start something. So this rank's
// program receives it.
func (l *callLog) overruled(turn int32) error {
	if l.broken == nil && len(l.failed) == 0 {
		return nil
	}
	if v := l.verdict(turn); v != nil {
		v.said = true
		return v
	}
	return nil
}

// enter counts a call and compares it with the reports of other ranks. It returns the error that
// ends the call. It returns over if the call ends because another rank's arguments are invalid. The
// caller's arguments may be invalid too, and then the caller gets that error instead.
func (c *Comm) enter(mine callSig) (over, err error) {
	w, l := c.w, c.log
	l.turn = (l.turn + 1) & MaxTag
	l.recent[l.turn%recentCalls] = mine
	if len(l.failed) > 0 {
		c.reviewFailed()
	}
	if err := l.overruled(l.turn); err != nil {
		if l.broken == nil {
			return err, nil
		}
		return nil, err
	}
	for n := l.ahead.head; n != nil; {
		in := n.of
		n = n.next
		if before(l.turn, in.env.tag) {
			continue
		}
		l.ahead.remove(&in.inLog)
		in.ahead = nil
		if theirs := (callSig{in.call, in.sig}); in.env.tag == l.turn && mine.differs(theirs) {
			return nil, c.differ(l.turn, mine, theirs, c.index[in.env.src], "", nil)
		}
	}
	return nil, w.compareAsked(c, mine)
}

// reviewFailed examines the calls that have failed on other ranks. If this rank has returned from
// one of them without an error, the communicator ends, because ranks would not agree on the
// completed calls.
func (c *Comm) reviewFailed() {
	l := c.log
	left := l.failed[:0]
	for _, v := range l.failed {
		switch {
		case !before(v.turn, l.turn):
		case !v.said:
			c.extend(v)
		case (l.turn-v.turn)&MaxTag >= recentCalls:
			continue
		}
		left = append(left, v)
	}
	clear(l.failed[len(left):])
	l.failed = left
}

// extend applies v, the error of a call that this rank has returned from, to the latest and all
// later calls.
func (c *Comm) extend(v *MismatchError) {
	v.said = true
	if c.log.broken != nil {
		return
	}
	all := *v
	all.turn, all.only = c.log.turn, false
	c.apply(&all)
	c.tell(&all)
}

// differ reports to all ranks that this rank's call and another rank's do not match. r, if not nil,
// is the receive that has matched the other's message.
func (c *Comm) differ(turn int32, mine, theirs callSig, src int32, reason string, r *request) error {
	v := c.log.verdict(turn)
	found := v == nil
	if found {
		v = newMismatch(turn, [2]int32{int32(c.rank), src}, [2]callSig{mine, theirs}, reason)
	}
	v.said = true
	if r != nil {
		c.w.complete(r, v)
	}
	if found {
		c.apply(v)
		c.tell(v)
	}
	return v
}

// conflict ends r if it has matched a message of a different call. It returns false if the calls
// match.
func (w *world) conflict(r *request, p *peer, h *header) bool {
	mine, theirs := callSig{r.call, r.typ.sig}, callSig{h.call, h.recvID}
	if !mine.differs(theirs) {
		return false
	}
	if h.kind == kindReady {
		p.say(control{kind: kindClear, sendID: h.sendID})
	}
	r.c.differ(r.env.tag, mine, theirs, r.c.index[p.rank], "", r)
	return true
}

// wrong notifies all other ranks that this rank takes no part in a call, because its arguments are
// invalid.
func (c *Comm) wrong(turn int32, mine callSig, reason string) {
	if len(c.group) == 1 || c.log.verdict(turn) != nil {
		return
	}
	v := newMismatch(turn, [2]int32{int32(c.rank), noRank}, [2]callSig{mine, {}}, reason)
	v.only, v.said = true, true
	c.apply(v)
	c.tell(v)
}

// apply ends the calls that v concerns, and drops their messages.
func (c *Comm) apply(v *MismatchError) {
	w, l := c.w, c.log
	switch {
	case !v.only && (l.broken == nil || before(v.turn, l.broken.turn)):
		l.broken = v
	case v.only && l.verdict(v.turn) == nil && len(l.failed) < maxFailed:
		l.failed = append(l.failed, v)
	default:
		return
	}
	for _, r := range w.requests {
		if r.coll && r.state != stateFree && r.state != stateDone && r.c.log == l && l.verdict(r.env.tag) == v {
			if r.state == sendReady {
				r.peer.say(v.word(c)) // must arrive before the message that withdraws the announcement
			}
			v.said = w.cancel(r, v) || v.said
		}
	}
	for in := c.overruledMessage(); in != nil; in = c.overruledMessage() {
		w.discard(in)
	}
	if v.only && !v.said && before(v.turn, l.turn) {
		c.extend(v)
	}
	w.notify()
}

const maxFailed = 2 * recentCalls

// overruledMessage returns a message of a call that v has ended, or nil.
func (c *Comm) overruledMessage() *inbound {
	for n := c.w.match.all.head; n != nil; n = n.next {
		if in := n.of; in.env.context == c.context|1 && c.log.verdict(in.env.tag) != nil {
			return in
		}
	}
	return nil
}

// discard drops an unexpected message of a collective, and lets its sender continue.
func (w *world) discard(in *inbound) {
	w.match.removeMessage(in)
	if in.kind == kindReady {
		in.from.say(control{kind: kindClear, sendID: in.sendID})
	}
	w.drop(in)
}

// inspect checks an unexpected message of a collective that no receive matches.
func (w *world) inspect(in *inbound) {
	c := w.comms[in.env.context&^1]
	if c == nil { // this rank has not created the communicator yet
		return
	}
	l, turn := c.log, in.env.tag
	switch {
	case l.verdict(turn) != nil:
		w.discard(in)
	case before(l.turn, turn):
		l.ahead.push(&in.inLog, in)
		in.ahead = &l.ahead
	default:
		theirs := callSig{in.call, in.sig}
		if mine, ok := l.at(turn); ok && mine.differs(theirs) && c.contains(int(in.env.src)) {
			c.differ(turn, mine, theirs, c.index[in.env.src], "", nil)
		}
	}
}

// newMismatch creates the error that all ranks receive. The second rank may be noRank.
func newMismatch(turn int32, ranks [2]int32, sigs [2]callSig, reason string) *MismatchError {
	v := &MismatchError{Call: int(turn), Reason: reason, turn: turn, ranks: ranks, sigs: sigs}
	for i, s := range sigs {
		v.Ranks[i] = int(ranks[i])
		v.Calls[i] = s.String()
	}
	if ranks[1] == noRank {
		v.Ranks[1], v.Calls[1] = None, ""
	}
	return v
}

const noRank = -1

// The body of a differ message: two signatures, then words.
const (
	differSize = 24
	differText = 160
)

func isMismatch(err error) bool {
	_, ok := err.(*MismatchError)
	return ok
}

// tell sends v to all other ranks of c.
func (c *Comm) tell(v *MismatchError) {
	m := v.word(c)
	for _, g := range c.group {
		if int(g) != c.w.rank {
			c.w.peer(int(g)).say(m)
		}
	}
}

// word returns the message that reports v.
func (v *MismatchError) word(c *Comm) control {
	body := make([]byte, differSize, differSize+differText)
	for i, s := range v.sigs {
		binary.LittleEndian.PutUint64(body[12*i:], s.call)
		binary.LittleEndian.PutUint32(body[12*i+8:], s.elem)
	}
	body = append(body, v.Reason[:min(len(v.Reason), differText)]...)
	m := control{kind: kindDiffer, context: c.context, tag: v.turn, sendID: uint32(v.ranks[0]), recvID: uint32(v.ranks[1]), body: body}
	if v.only {
		m.size = 1
	}
	return m
}

// differed handles another rank's report of a mismatch.
func (p *peer) differed(h *header, body []byte) {
	w := p.w
	var sigs [2]callSig
	for i := range sigs {
		sigs[i] = callSig{binary.LittleEndian.Uint64(body[12*i:]), binary.LittleEndian.Uint32(body[12*i+8:])}
	}
	v := newMismatch(h.tag, [2]int32{int32(h.sendID), int32(h.recvID)}, sigs, string(body[differSize:]))
	v.only = h.size == 1
	c := w.comms[h.context]
	switch {
	case c == nil && len(w.told) < maxTold: // this rank may not have created the communicator yet
		w.told = append(w.told, toldOf{h.context, v})
	case c == nil || !c.contains(p.rank) || v.only && (c.log.turn-v.turn)&MaxTag >= recentCalls && before(v.turn, c.log.turn):
		w.stats.Strays++
	default:
		c.apply(v)
	}
}

// toldOf holds reports about a communicator that this rank has not created yet.
type toldOf struct {
	context uint32
	v       *MismatchError
}

const maxTold = 64

// Collective names a collective operation in Stats.
type Collective uint8

// The collectives, indices of Stats.Collectives.
const (
	collBarrier Collective = iota
	collBcast
	collReduce
	collAllreduce
	collGather
	collScatter
	collAllgather
	collAlltoall
	collReduceScatter
	collScan
	collExscan
	numCollectives
)

var collectiveNames = [numCollectives]string{
	"barrier", "bcast", "reduce", "allreduce", "gather", "scatter",
	"allgather", "alltoall", "reduce_scatter", "scan", "exscan",
}

// String returns the name as metrics use it.
func (k Collective) String() string { return collectiveNames[k] }

// call is a collective function. Functions with counts for each rank are separate, because their
// ranks cannot communicate with those of the plain functions. So are the functions that create
// communicators; each uses several collectives; see Comm.within.
type call uint8

const (
	callBarrier call = iota + 1
	callBcast
	callReduce
	callAllreduce
	callGather
	callGatherv
	callScatter
	callScatterv
	callAllgather
	callAllgatherv
	callAlltoall
	callAlltoallv
	callReduceScatter
	callScan
	callExscan
	callSplit
	callDup
	callCommCreate
	callCartCreate
	callCartSub
	callSplitShared
	numCalls
)

var calls = [numCalls]struct {
	name       string
	collective Collective
}{
	callBarrier:       {"barrier", collBarrier},
	callBcast:         {"bcast", collBcast},
	callReduce:        {"reduce", collReduce},
	callAllreduce:     {"allreduce", collAllreduce},
	callGather:        {"gather", collGather},
	callGatherv:       {"gatherv", collGather},
	callScatter:       {"scatter", collScatter},
	callScatterv:      {"scatterv", collScatter},
	callAllgather:     {"allgather", collAllgather},
	callAllgatherv:    {"allgatherv", collAllgather},
	callAlltoall:      {"alltoall", collAlltoall},
	callAlltoallv:     {"alltoallv", collAlltoall},
	callReduceScatter: {"reduce_scatter", collReduceScatter},
	callScan:          {"scan", collScan},
	callExscan:        {"exscan", collExscan},
	callSplit:         {name: "split"}, // this call and the following ones are counted as the collectives that they consist of
	callDup:           {name: "dup"},
	callCommCreate:    {name: "comm_create"},
	callCartCreate:    {name: "cart_create"},
	callCartSub:       {name: "cart_sub"},
	callSplitShared:   {name: "split_shared"},
}

func (k call) String() string         { return calls[k].name }
func (k call) collective() Collective { return calls[k].collective }

// composed reports whether the call consists of several collectives, whose elements and operations
// are not the user's.
func (k call) composed() bool { return k >= callSplit }

// signature holds the arguments that must be equal on all ranks of a collective call.
type signature struct {
	call call
	op   opCode
	root int
	size int // in bytes; 0 if the size may differ between ranks
	typ  *element
}

// within returns c for the collectives inside a call. Other ranks, and errors, then refer to the
// call that the user made.
func (c *Comm) within(k call) *Comm {
	if c.outer != 0 { // c is already inside another call
		return c
	}
	inner := *c
	inner.outer = k
	return &inner
}

// sign returns the signature of a call with n elements of T.
func sign[T any](k call, root int, op opCode, n int) signature {
	return signature{call: k, op: op, root: root, size: n * sizeOf[T](), typ: elementOf[T]()}
}
