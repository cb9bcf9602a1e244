package handshake

import (
	"maps"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// rig is a backlog, and what its listener has taken from it.
type rig struct {
	*testing.T
	b     Backlog
	now   int64
	taken []*Request
}

// FuzzBacklog makes requesters ask, repeat and fall silent, and a listener take, accept, refuse
// and forget, in any order. What the package's doc promises holds after each step.
func FuzzBacklog(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 3, 0, 4, 0, 0, 1, 5, 0, 6, 3})
	f.Add([]byte{2, 0, 2, 100, 3, 0, 7, 200, 2, 200, 3, 0, 4, 0, 3, 0, 5, 0, 8, 0})
	f.Add([]byte{2, 0, 2, 64, 2, 128, 2, 192, 7, 255, 2, 0, 9, 0, 0, 3})
	f.Fuzz(func(t *testing.T, ops []byte) {
		r := &rig{T: t, now: 1}
		for i := 0; i+1 < len(ops) && i < 400; i += 2 {
			r.do(ops[i]%9, int(ops[i+1]))
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
		r.ask(x)
	case 2: // a crowd
		for i := range 64 {
			r.ask(256 + x + i)
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
			q.Heard(r.now)
		case op == 7 && q.Decided():
			q.Forget()
		}
	case 8:
		r.now += int64(x*x) * ms
	}
}

// ask makes a requester ask.
func (r *rig) ask(i int) {
	h := ethertype.Header{Src: ethertype.MAC{2, 0, 0, 0, 0, byte(i >> 8)}, SrcPort: uint16(i), DstPort: 9}
	before, k := len(r.b.known), requestKey{ethertype.Addr{MAC: h.Src, Port: h.SrcPort}, 1}
	old := r.b.known[k]
	v, q := r.b.Receive(&h, &Info{Tag: 1}, r.now)
	switch {
	case (q == nil) != (v == RequestFull), v == RequestNew && (old != nil || r.b.known[k] != q), v <= RequestRefused && v != RequestNew && q != old:
		r.Fatalf("verdict %d with request %p, and %p was there", v, q, old)
	case v == RequestRefused && q.Refusal == nil, v == RequestKnown && q.Refusal != nil:
		r.Fatalf("verdict %d on a request with the refusal %v", v, q.Refusal)
	case v == RequestFull && len(r.b.waiting) < waitingMax && before < rememberedMax:
		r.Fatalf("full with %d of %d requests", len(r.b.waiting), before)
	}
}

// take takes a request, which must be as good as any that is left.
func (r *rig) take() {
	q := r.b.Pop(r.now)
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
		if q.silent(r.now) && !other.silent(r.now) {
			r.Fatalf("%+v was taken before %+v", q, other)
		}
	}
	r.taken = append(r.taken, q)
}

// check compares the backlog's counts with what it holds.
func (r *rig) check() {
	if len(r.b.waiting) > waitingMax || len(r.b.known) > rememberedMax {
		r.Fatalf("%d wait, %d are known", len(r.b.waiting), len(r.b.known))
	}
	of := map[ethertype.MAC]int{}
	for _, q := range r.b.waiting {
		of[q.From.MAC]++
	}
	if !maps.Equal(of, r.b.of) {
		r.Fatalf("%v wait, and %v are counted", of, r.b.of)
	}
	for _, q := range r.b.waiting {
		if q.decided || r.b.known[requestKey{q.From, q.Info.Tag}] != q || slices.Contains(r.taken, q) {
			r.Fatalf("%+v waits", q)
		}
	}
}
