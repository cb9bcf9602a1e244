package am

import (
	"errors"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// The handlers and their arguments. op is the number of the requester's operation. off is an offset
// in two words, low word first.
const (
	hHello         = 1 + iota // rank
	hGet                      // op, segment, off, length
	hPut                      // op, off, length, data in words
	hPutMedium                // op, off; data
	hStore                    // 0, off, length, data in words
	hStoreMedium              // 0, off; data
	hCall                     // op, procedure, rank; arguments
	hControl                  // rank, number, length, message in words
	hControlMedium            // rank, number; message
	hAsk                      // like hControl, but a control message is the reply
	hAskMedium                // like hControlMedium, but a control message is the reply
	hNudge                    // none: there is something in memory that both ranks share
	// Replies.
	hGot         // op, segment, length, data in words
	hGotMedium   // op, segment; data
	hPutDone     // op
	hStoreDone   // none: the reply to a store has no effect
	hControlDone // none: a control message was delivered
	hTold        // as hControl
	hToldMedium  // as hControlMedium
	hReturn      // op; result
	hRefused     // op, kind: the owner has refused the request
	handlersEnd
)

// errRefused is the error of an operation that the owner of the memory has refused, because the memory lies outside
// the owner's heap. This rank checks addresses against its own heap, so the heaps have different sizes.
var errRefused = errors.New("it refused an operation: the address is outside its heap (do all ranks run the same program with the same Config.HeapSize?)")

// handler handles a message, and reports whether it is valid.
type handler func(t endpoint.Token, a []uint32, data []byte) bool

func (l *Layer) handlers() [handlersEnd]handler {
	return [handlersEnd]handler{
		hHello: l.hello, hGet: l.get, hPut: l.put, hPutMedium: l.putMedium, hStore: l.store, hStoreMedium: l.storeMedium,
		hNudge: l.nudged, hCall: l.call, hControl: l.control(said), hControlMedium: l.controlMedium(said),
		hAsk: l.control(asked), hAskMedium: l.controlMedium(asked), hTold: l.control(told), hToldMedium: l.controlMedium(told),
		hGot: l.got, hGotMedium: l.gotMedium, hPutDone: l.putDone, hStoreDone: func(endpoint.Token, []uint32, []byte) bool { return true },
		hControlDone: l.controlDone, hReturn: l.callDone, hRefused: l.refused,
	}
}

func (l *Layer) setHandlers() error {
	for i, h := range l.handlers() {
		if h == nil {
			continue
		}
		if err := l.ep.SetHandler(uint8(i), func(t endpoint.Token, a []uint32, data []byte) {
			if !h(t, a, data) {
				l.stats.Strays++
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// offset combines two words.
func offset(lo, hi uint32) uint64 { return uint64(lo) | uint64(hi)<<32 }

// reply sends a reply with the given arguments.
func (l *Layer) reply(t endpoint.Token, handler uint8, args ...uint32) bool {
	l.stats.Replies++
	return t.Reply(handler, args...) == nil
}

// refuse sends the reply that a request is refused.
func (l *Layer) refuse(t endpoint.Token, op uint32, kind uint32) bool {
	l.stats.Refused++
	l.reply(t, hRefused, op, kind)
	return true
}

// from returns the rank of a request's sender. ok is false if the sender is not the rank that it
// claims to be.
func (l *Layer) from(t endpoint.Token, rank uint32) (int, bool) {
	if !l.other(rank) || l.names[rank] != t.Source() {
		return 0, false
	}
	return int(rank), true
}

// other reports whether a number is the number of another rank.
func (l *Layer) other(rank uint32) bool {
	return int64(rank) < int64(l.cfg.Procs) && int(rank) != l.cfg.Rank
}

// hello records the endpoint name of a rank. It accepts the name only from the address at which discovery found the
// rank. The run's tag keeps out endpoints of other runs. If the rank was not found yet, claim stores the name until
// the rank is found.
func (l *Layer) hello(t endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) != 1 || !l.other(a[0]) {
		return false
	}
	rank, name := int(a[0]), t.Source()
	if l.dests[rank] == (endpoint.Name{}) {
		return l.claim(rank, name)
	}
	return l.welcome(rank, name) && l.reply(t, hStoreDone)
}

// mostClaims is the most endpoints that may claim to be one rank before that rank is found.
const mostClaims = 8

// claim stores the name of an endpoint that claims to be a rank that was not found yet. The first
// one at each address counts.
func (l *Layer) claim(rank int, name endpoint.Name) bool {
	known := func(c endpoint.Name) bool { return c.Addr == name.Addr }
	if len(l.claims[rank]) >= mostClaims || slices.ContainsFunc(l.claims[rank], known) {
		return false
	}
	l.claims[rank] = append(l.claims[rank], name)
	return true
}

// welcome makes a name the name of a rank, unless the rank has one or was found at another address.
// It compares the address in the name. Over VIs package endpoint proves only its host. So a program
// of bare VIs on the rank's own host could put the rank's name into its connection request. A
// program that uses endpoints cannot.
func (l *Layer) welcome(rank int, name endpoint.Name) bool {
	if l.names[rank] != (endpoint.Name{}) || name.Addr != l.dests[rank].Addr {
		return false
	}
	l.names[rank] = name
	l.met++
	return true
}

// found records the name under which a rank is found, and checks the endpoints that have claimed to
// be that rank.
func (l *Layer) found(rank int, name endpoint.Name) {
	l.dests[rank] = name
	for _, c := range l.claims[rank] {
		if !l.welcome(rank, c) {
			l.stats.Strays++
		}
	}
	l.claims[rank] = nil
}

func (l *Layer) get(t endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) != 5 {
		return false
	}
	off, n := offset(a[2], a[3]), int(a[4])
	if n > segment || !layer.Within(len(l.heap), off, n) {
		return l.refuse(t, a[0], opGet)
	}
	data := l.heap[off:][:n]
	l.stats.Replies++
	if n > shortBytes {
		return t.ReplyMedium(hGotMedium, data, a[0], a[1]) == nil
	}
	w := &l.answer
	w[0], w[1], w[2] = a[0], a[1], uint32(n)
	return t.Reply(hGot, w[:3+l.pack(w[3:], data)]...) == nil
}

// place writes the words of a short request to the heap, and reports whether their offset is valid.
func (l *Layer) place(off uint64, length uint32, words []uint32) (done, sound bool) {
	n := int(length)
	if n > shortBytes || n > 4*len(words) {
		return false, false
	}
	if !layer.Within(len(l.heap), off, n) {
		return false, true
	}
	unpack(l.heap[off:][:n], words)
	return true, true
}

func (l *Layer) put(t endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) < 4 {
		return false
	}
	done, sound := l.place(offset(a[1], a[2]), a[3], a[4:])
	if !done {
		return sound && l.refuse(t, a[0], opPut)
	}
	return l.reply(t, hPutDone, a[0])
}

func (l *Layer) putMedium(t endpoint.Token, a []uint32, data []byte) bool {
	if len(a) != 3 {
		return false
	}
	off := offset(a[1], a[2])
	if !layer.Within(len(l.heap), off, len(data)) {
		return l.refuse(t, a[0], opPut)
	}
	copy(l.heap[off:], data)
	return l.reply(t, hPutDone, a[0])
}

func (l *Layer) store(t endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) < 4 {
		return false
	}
	done, sound := l.place(offset(a[1], a[2]), a[3], a[4:])
	if !done {
		l.stats.Refused++
		return sound
	}
	l.count.Stored += uint64(a[3])
	return l.reply(t, hStoreDone)
}

func (l *Layer) storeMedium(t endpoint.Token, a []uint32, data []byte) bool {
	if len(a) != 3 {
		return false
	}
	off := offset(a[1], a[2])
	if !layer.Within(len(l.heap), off, len(data)) {
		l.stats.Refused++
		return true
	}
	l.count.Stored += uint64(copy(l.heap[off:], data))
	return l.reply(t, hStoreDone)
}

func (l *Layer) call(t endpoint.Token, a []uint32, data []byte) bool {
	if len(a) != 3 || len(data) > layer.MaxCall {
		return false
	}
	rank, ok := l.from(t, a[2])
	if !ok {
		return false
	}
	n := l.cfg.Handler.Call(rank, a[1], data, l.result[:])
	l.stats.Replies++
	return t.ReplyMedium(hReturn, l.result[:n], a[0]) == nil
}

// nudged does nothing: that it has run ends the wait.
func (l *Layer) nudged(t endpoint.Token, a []uint32, _ []byte) bool {
	return len(a) == 0 && l.reply(t, hStoreDone)
}

// replier returns the operation that a reply belongs to, or nil if the reply's sender has none.
func (l *Layer) replier(t endpoint.Token, number uint32, kind uint8) *operation {
	op := l.ops.find(number, kind)
	if op == nil || op.due == 0 || !l.isOf(t, op.proc) {
		return nil
	}
	return op
}

// isOf reports whether a reply is from a rank: it arrived over the translation of the request.
func (l *Layer) isOf(t endpoint.Token, proc int) bool { return l.dests[proc] == t.Source() }

// part returns the destination of the data of a segment of a get, or nil if the segment is invalid.
func (op *operation) part(at uint32, n int) []byte {
	lo := int(at) * segment
	if lo >= len(op.dst) || n != min(segment, len(op.dst)-lo) {
		return nil
	}
	return op.dst[lo:][:n]
}

func (l *Layer) got(t endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) < 3 || a[2] > shortBytes || int(a[2]) > 4*(len(a)-3) {
		return false
	}
	op := l.replier(t, a[0], opGet)
	if op == nil {
		return false
	}
	dst := op.part(a[1], int(a[2]))
	if dst == nil {
		return false
	}
	unpack(dst, a[3:])
	l.ops.replied(&l.count, a[0])
	return true
}

func (l *Layer) gotMedium(t endpoint.Token, a []uint32, data []byte) bool {
	if len(a) != 2 {
		return false
	}
	op := l.replier(t, a[0], opGet)
	if op == nil {
		return false
	}
	dst := op.part(a[1], len(data))
	if dst == nil {
		return false
	}
	copy(dst, data)
	l.ops.replied(&l.count, a[0])
	return true
}

func (l *Layer) putDone(t endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) != 1 || l.replier(t, a[0], opPut) == nil {
		return false
	}
	l.ops.replied(&l.count, a[0])
	return true
}

func (l *Layer) callDone(t endpoint.Token, a []uint32, data []byte) bool {
	if len(a) != 1 {
		return false
	}
	op := l.replier(t, a[0], opCall)
	if op == nil || len(data) > len(op.dst) {
		return false
	}
	copy(op.dst, data)
	l.ops.replied(&l.count, a[0])
	return true
}

// refused is the handler of a reply that the owner has refused the request.
func (l *Layer) refused(t endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) != 2 || !slices.Contains([]uint32{opGet, opPut}, a[1]) {
		return false
	}
	op := l.replier(t, a[0], uint8(a[1]))
	if op == nil {
		return false
	}
	l.failure(&job.RankError{Rank: op.proc, Err: errRefused})
	l.ops.replied(&l.count, a[0])
	return true
}
