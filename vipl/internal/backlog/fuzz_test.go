package backlog

import (
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
)

// rig is a backlog, what its listener has taken from it, and what has gone to and fro.
type rig struct {
	*testing.T
	b     Backlog
	now   int64
	taken []*Request
	came  map[*Request]int // bytes in the requester's name while it was not proven
	went  map[*Request]int // bytes that it was sent then
}

// FuzzBacklog has requesters ask, repeat, prove themselves and fall silent, and a listener
// take, accept, refuse and forget, in any order. What the package's doc promises holds after
// each step.
func FuzzBacklog(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 3, 0, 4, 0, 0, 1, 5, 0, 6, 3})
	f.Add([]byte{2, 0, 2, 100, 3, 0, 7, 200, 2, 200, 3, 0, 4, 0, 3, 0, 5, 0, 8, 0})
	f.Add([]byte{2, 0, 2, 64, 2, 128, 2, 192, 7, 255, 2, 0, 9, 0, 0, 3})
	f.Fuzz(func(t *testing.T, ops []byte) {
		r := &rig{T: t, now: 1, came: map[*Request]int{}, went: map[*Request]int{}}
		for i := 0; i+1 < len(ops) && i < 400; i += 2 {
			r.do(ops[i]%10, int(ops[i+1]))
			r.check()
		}
	})
}

// do does one step.
func (r *rig) do(op byte, x int) {
	pick := func() *Request {
		if len(r.taken) == 0 {
			return nil
		}
		return r.taken[x%len(r.taken)]
	}
	switch op {
	case 0, 1:
		r.ask(x, op == 1)
	case 2: // a crowd
		for i := range 64 {
			r.ask(256+x+i, true)
		}
	case 3:
		r.take()
	case 4, 5, 6, 7:
		q := pick()
		switch {
		case q == nil:
		case op == 4 && !q.Decided():
			q.Decide(r.now)
		case op == 5 && !q.Decided():
			q.Refuse([]byte{byte(x)}, r.now)
		case op == 6:
			r.afford(q, x)
		case op == 7 && x < 128:
			q.Prove(r.now)
		case op == 7 && q.Decided():
			q.Forget()
		}
	case 8:
		r.now += int64(x*x) * ms
	case 9:
		r.b.Strict = x%2 == 0
	}
}

// ask has a requester ask.
func (r *rig) ask(i int, proven bool) {
	h := ethertype.Header{Src: ethertype.MAC{2, 0, 0, 0, 0, byte(i >> 8)}, SrcPort: uint16(i), DstPort: 9}
	size := conninfo.Size + i%7
	before, k := len(r.b.known), key{ethertype.Addr{MAC: h.Src, Port: h.SrcPort}, 1}
	old := r.b.known[k]
	v, q := r.b.Receive(&h, &conninfo.Info{Tag: 1}, size, proven, r.now)
	switch {
	case (q == nil) != (v >= Unproven), v == New && (old != nil || r.b.known[k] != q), v <= Refused && v != New && q != old:
		r.Fatalf("verdict %d with request %p, and %p was there", v, q, old)
	case v == Refused && q.Refusal == nil, v == Known && q.Refusal != nil:
		r.Fatalf("verdict %d on a request with the refusal %v", v, q.Refusal)
	case v == New && r.b.Strict && !proven:
		r.Fatal("a strict backlog has taken a request without proof")
	case v == Unproven && (proven || !r.b.Strict), v == Doubtful && (proven || r.b.doubtful < doubtfulMax):
		r.Fatalf("verdict %d, with %d doubtful ones", v, r.b.doubtful)
	case v == Full && len(r.b.waiting) < waitingMax && before < rememberedMax:
		r.Fatalf("full with %d of %d requests", len(r.b.waiting), before)
	}
	if q != nil && !q.proven {
		r.came[q] += ethertype.HeaderSize + size
		r.went[q] += ethertype.HeaderSize // the Retry
	}
}

// take takes a request, which must be as good as any that is left.
func (r *rig) take() {
	q := r.b.Take(r.now)
	if q == nil {
		if r.b.Waiting() > 0 {
			r.Fatal("nothing was taken, and requests wait")
		}
		return
	}
	if slices.Contains(r.taken, q) {
		r.Fatal("a request was taken twice")
	}
	for _, other := range r.b.waiting {
		if q.silent(r.now) && !other.silent(r.now) || q.doubtful && !other.doubtful && !other.silent(r.now) {
			r.Fatalf("%+v was taken before %+v", q, other)
		}
	}
	r.taken = append(r.taken, q)
}

// afford sends a requester something, if it may be.
func (r *rig) afford(q *Request, size int) {
	if q.Afford(size) && !q.proven {
		r.went[q] += ethertype.HeaderSize + size
	}
}

// check compares the backlog's counts with what it holds.
func (r *rig) check() {
	doubtful := 0
	for _, q := range r.b.known {
		if q.doubtful {
			doubtful++
		}
	}
	if doubtful != r.b.doubtful || doubtful > doubtfulMax || len(r.b.waiting) > waitingMax || len(r.b.known) > rememberedMax {
		r.Fatalf("%d doubtful ones, counted as %d; %d wait, %d are known", doubtful, r.b.doubtful, len(r.b.waiting), len(r.b.known))
	}
	for _, q := range r.b.waiting {
		if q.decided || r.b.known[key{q.From, q.Info.Tag}] != q || slices.Contains(r.taken, q) {
			r.Fatalf("%+v waits", q)
		}
	}
	for q, sent := range r.went {
		if sent > amplification*r.came[q] {
			r.Fatalf("%d bytes went to one who had sent %d and proven nothing", sent, r.came[q])
		}
	}
}
