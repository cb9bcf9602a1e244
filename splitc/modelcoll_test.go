package splitc_test

import (
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/splitc"
)

// The collectives of TestModel.
const (
	withNone = iota
	withBroadcast
	withLongBroadcast
	withReduce
	withReduceToOne
	withScan
	withSegments
	withGather
	withScatter
	togethers
)

// together does a collective with the values of a round, and compares what it returns
// with what follows from them.
func (m *model) together(w *splitc.World, r *round) error {
	me, v := w.MyProc(), r.values[w.MyProc()]
	switch r.together {
	case withBroadcast:
		got, err := splitc.Broadcast(bg, w, r.root, v)
		return is(err, "broadcast", got, r.values[r.root])
	case withLongBroadcast:
		s := slices.Repeat([]uint64{v}, 10_000)
		err := splitc.BroadcastSlice(bg, w, r.root, s)
		return isSlice(err, "long broadcast", s, slices.Repeat([]uint64{r.values[r.root]}, 10_000))
	case withReduce:
		return m.reductions(w, r)
	case withReduceToOne:
		got, err := splitc.ReduceToOne(bg, w, r.root, v, splitc.Xor[uint64]())
		want := uint64(0)
		for i := 0; me == r.root && i < m.procs; i++ {
			want ^= r.values[i]
		}
		return is(err, "reduce to one", got, want)
	case withScan:
		return m.scans(w, r)
	case withSegments:
		got, err := splitc.SegmentedScan(bg, w, v, r.starts[me], splitc.Add[uint64]())
		want := uint64(0)
		for i := range me + 1 {
			if r.starts[i] {
				want = 0
			}
			want += r.values[i]
		}
		return is(err, "segmented scan", got, want)
	case withGather:
		return m.gathers(w, r)
	case withScatter:
		return m.scatter(w, r)
	}
	return nil
}

func (m *model) reductions(w *splitc.World, r *round) error {
	v := r.values[w.MyProc()]
	for _, c := range []struct {
		name string
		op   splitc.Op[uint64]
		f    func(a, b uint64) uint64
	}{
		{"add", splitc.Add[uint64](), func(a, b uint64) uint64 { return a + b }},
		{"mul", splitc.Mul[uint64](), func(a, b uint64) uint64 { return a * b }},
		{"min", splitc.Min[uint64](), func(a, b uint64) uint64 { return min(a, b) }},
		{"max", splitc.Max[uint64](), func(a, b uint64) uint64 { return max(a, b) }},
		{"and", splitc.And[uint64](), func(a, b uint64) uint64 { return a & b }},
		{"or", splitc.Or[uint64](), func(a, b uint64) uint64 { return a | b }},
		{"xor", splitc.Xor[uint64](), func(a, b uint64) uint64 { return a ^ b }},
	} {
		got, err := splitc.ReduceToAll(bg, w, v, c.op)
		want := r.values[0]
		for _, b := range r.values[1:] {
			want = c.f(want, b)
		}
		if err := is(err, c.name, got, want); err != nil {
			return err
		}
	}
	s := slices.Repeat([]uint64{v}, 700) // several messages
	err := splitc.ReduceSliceToAll(bg, w, s, splitc.Max[uint64]())
	return isSlice(err, "reduce of a slice", s, slices.Repeat([]uint64{slices.Max(r.values)}, 700))
}

func (m *model) scans(w *splitc.World, r *round) error {
	me := w.MyProc()
	// This operation is associative, and not commutative.
	last := splitc.OpFunc("last odd", func(a, b uint64) uint64 {
		if b%2 == 1 {
			return b
		}
		return a
	})
	got, err := splitc.Scan(bg, w, r.values[me], last)
	want := r.values[0]
	for _, b := range r.values[1 : me+1] {
		if b%2 == 1 {
			want = b
		}
	}
	if err := is(err, "scan", got, want); err != nil {
		return err
	}
	got, err = splitc.ExclusiveScan(bg, w, r.values[me], splitc.Add[uint64]())
	want = 0
	for _, b := range r.values[:me] {
		want += b
	}
	return is(err, "exclusive scan", got, want)
}

func (m *model) gathers(w *splitc.World, r *round) error {
	me := w.MyProc()
	const n = 9000 // several rounds through the scratch memory
	src := slices.Repeat([]uint64{r.values[me]}, n)
	want := make([]uint64, 0, n*m.procs)
	for _, v := range r.values {
		want = append(want, slices.Repeat([]uint64{v}, n)...)
	}
	var dst []uint64
	if me == r.root {
		dst = make([]uint64, len(want))
	}
	if err := splitc.Gather(bg, w, r.root, src, dst); err != nil {
		return err
	}
	if me == r.root && !slices.Equal(dst, want) {
		return fmt.Errorf("gather: wrong values")
	}
	all := make([]uint64, m.procs)
	err := splitc.AllGather(bg, w, src[:1], all)
	return isSlice(err, "gather to all", all, r.values)
}

func (m *model) scatter(w *splitc.World, r *round) error {
	me := w.MyProc()
	const n = 5000
	var src []uint64
	if me == r.root {
		for _, v := range r.values {
			src = append(src, slices.Repeat([]uint64{v}, n)...)
		}
	}
	dst := make([]uint64, n)
	err := splitc.Scatter(bg, w, r.root, src, dst)
	return isSlice(err, "scatter", dst, slices.Repeat([]uint64{r.values[me]}, n))
}

func is(err error, name string, got, want uint64) error {
	if err == nil && got != want {
		err = fmt.Errorf("%s: got %x, want %x", name, got, want)
	}
	return err
}

func isSlice(err error, name string, got, want []uint64) error {
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%s: wrong values", name)
	}
	return err
}
