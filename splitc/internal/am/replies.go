package am

import (
	"slices"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/job"
)

// replier returns the operation that a reply is to, or nil if it is to none of its rank's that
// has asked for it.
func (l *Layer) replier(t endpoint.Token, number uint32, kind uint8) *operation {
	op := l.ops.find(number, kind)
	if op == nil || op.due == 0 || !l.isOf(t, op.proc) {
		return nil
	}
	return op
}

// isOf reports whether a reply is of a rank: it came over the translation that the
// request was sent by.
func (l *Layer) isOf(t endpoint.Token, proc int) bool { return l.dests[proc] == t.Source() }

// part returns where the data of a segment of a get belong, or nil if they do not.
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

// refused is the handler of a reply that says that the owner does not do it.
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
