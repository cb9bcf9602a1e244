package splitc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestModel: random programs of all primitives, bulk and strided forms, atomic procedures
// and collectives leave in every heap, and return everywhere, what a sequential model
// says, over every layer, on wires that lose, double and reorder frames.
func TestModel(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		seeds(t, 20, func(seed uint64) error {
			m := newModel(seed)
			rng := m.rng
			opts := sim.Options{Seed: seed}
			if rng.IntN(2) == 0 {
				opts.Loss, opts.Dup, opts.Reorder, opts.ReorderBy = 0.1*rng.Float64(), 0.1*rng.Float64(), 0.2*rng.Float64(), 1+rng.IntN(64)
			}
			return errors.Join(runProgram(m.procs, opts, splitc.Config{Layer: layer}, m.run), m.chained())
		})
	})
}

// model is a random program, as it is before it runs, and what has to come of it.
type model struct {
	rng    *rand.Rand
	procs  int
	cells  int // of each process
	rounds []*round
	adds   [][]added // by process, what its FetchAdds have returned
	upset  upset
}

// upset is what happens before an operation of a process, once.
type upset struct {
	round *round
	proc  int
	at    int // of the process's operations in the round
	do    func()
}

// reached does it, if a process has come so far.
func (u *upset) reached(r *round, proc, at int) {
	if u.do != nil && u.round == r && u.proc == proc && u.at == at {
		u.do()
		u.do = nil
	}
}

// added is a FetchAdd that was done.
type added struct {
	owner      int
	old, delta int64
}

// round is what all processes do between two looks at their memory.
type round struct {
	ops      [][]op     // by process
	after    [][]uint64 // cells, by process
	bytes    []int      // stored at each process
	all      bool       // ends by AllStoreSync
	together int        // which collective there is
	amid     []int      // before which of its operations each process is in that; nil: when all are complete
	root     int
	values   []uint64 // of the processes in it
	starts   []bool
}

// op is an operation of a process.
type op struct {
	kind  int
	proc  int
	at, n int
	every int // of strided ones: one in so many cells
	id    uint64
	want  []uint64 // of those that read
	delta int64
}

// The kinds of operations: those that write come first.
const (
	opWrite = iota
	opPut
	opStore
	opRead
	opGet
	opAdd
	opPoll
)

// newModel makes a program of two to eight processes.
func newModel(seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 99))
	return modelOf(rng, 2+rng.IntN(7))
}

func modelOf(rng *rand.Rand, procs int) *model {
	m := &model{rng: rng, procs: procs, cells: 32 + rng.IntN(200)}
	if rng.IntN(8) == 0 {
		m.cells = 3000
	}
	m.adds = make([][]added, m.procs)
	now := make([][]uint64, m.procs)
	for p := range now {
		now[p] = make([]uint64, m.cells)
	}
	for range 2 + rng.IntN(3) {
		m.rounds = append(m.rounds, m.round(now))
	}
	return m
}

// round makes a round that begins with the cells as now has them, and changes these. No
// cell that a round writes is written twice or read in it, since operations of a round
// have no order.
func (m *model) round(now [][]uint64) *round {
	rng := m.rng
	r := &round{ops: make([][]op, m.procs), bytes: make([]int, m.procs), all: rng.IntN(2) == 0, together: rng.IntN(togethers), root: rng.IntN(m.procs)}
	for proc := range m.procs {
		for at := 0; at < m.cells; {
			n := min(1+rng.IntN(1+rng.IntN(m.cells)), m.cells-at)
			if rng.IntN(3) > 0 {
				n = 1
			}
			o := op{kind: rng.IntN(opAdd), proc: proc, at: at, n: n, every: 1 + rng.IntN(3), id: rng.Uint64()}
			o.apply(now[proc], r)
			by := rng.IntN(m.procs)
			r.ops[by] = append(r.ops[by], o)
			at += n
		}
		for range rng.IntN(6) {
			by := rng.IntN(m.procs)
			r.ops[by] = append(r.ops[by], op{kind: opAdd, proc: proc, delta: 1 + rng.Int64N(100)}, op{kind: opPoll})
		}
		r.values = append(r.values, rng.Uint64())
		r.starts = append(r.starts, rng.IntN(3) == 0)
	}
	for _, ops := range r.ops {
		rng.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	}
	if rng.IntN(2) == 0 {
		for _, ops := range r.ops {
			r.amid = append(r.amid, rng.IntN(len(ops)+1))
		}
	}
	for _, cells := range now {
		r.after = append(r.after, slices.Clone(cells))
	}
	return r
}

// apply does to the model's cells what o does, or says what o will read.
func (o *op) apply(cells []uint64, r *round) {
	part := cells[o.at:][:o.n]
	if o.kind >= opRead {
		o.want = slices.Clone(part)
		return
	}
	for i, v := range o.values() {
		part[i*o.every] = v
		if o.kind == opStore {
			r.bytes[o.proc] += 8
		}
	}
}

// values returns what o writes: a value for each of its blocks.
func (o *op) values() []uint64 {
	v := make([]uint64, (o.n+o.every-1)/o.every)
	for i := range v {
		v[i] = o.id + uint64(i)*0x9e3779b97f4a7c15
	}
	return v
}

func (o *op) stride() splitc.Stride {
	return splitc.Stride{Blocks: (o.n + o.every - 1) / o.every, Len: 1, Local: 1, Remote: o.every}
}

// run is the program of a process.
func (m *model) run(w *splitc.World) error {
	a, err := splitc.AllSpreadMalloc[uint64](bg, w, m.procs, m.cells)
	if err != nil {
		return err
	}
	count, err := splitc.AllSpreadMalloc[int64](bg, w, m.procs, 1)
	if err != nil {
		return err
	}
	for i, r := range m.rounds {
		if err := m.do(w, a, count, r); err != nil {
			return fmt.Errorf("rank %d, round %d: %w", w.MyProc(), i, err)
		}
	}
	if err := splitc.AllSpreadFree(bg, w, a); err != nil {
		return err
	}
	return splitc.AllSpreadFree(bg, w, count)
}

// do does a process's part of a round.
func (m *model) do(w *splitc.World, a splitc.Array[uint64], count splitc.Array[int64], r *round) error {
	me := w.MyProc()
	type read struct {
		o   *op
		got []uint64
	}
	var reads []read
	for i := range r.ops[me] {
		m.upset.reached(r, me, i)
		if err := m.amid(w, r, i); err != nil {
			return err
		}
		o := &r.ops[me][i]
		switch o.kind {
		case opPoll:
			if err := w.Poll(); err != nil {
				return err
			}
		case opAdd:
			old, err := splitc.FetchAdd(bg, w, count.On(o.proc), o.delta)
			if err != nil {
				return err
			}
			m.adds[me] = append(m.adds[me], added{o.proc, old, o.delta})
		case opRead, opGet:
			got := make([]uint64, o.n)
			if err := o.fetch(w, a.On(o.proc).Add(o.at), got); err != nil {
				return err
			}
			reads = append(reads, read{o, got})
		default:
			if err := o.send(w, a.On(o.proc).Add(o.at)); err != nil {
				return err
			}
		}
	}
	m.upset.reached(r, me, len(r.ops[me]))
	if err := m.amid(w, r, len(r.ops[me])); err != nil {
		return err
	}
	if err := m.end(w, r); err != nil {
		return err
	}
	for _, got := range reads {
		for i, v := range got.got {
			if i%got.o.every == 0 && v != got.o.want[i] {
				return fmt.Errorf("cell %d of %d: read %x, want %x, of %+v", got.o.at+i, got.o.proc, v, got.o.want[i], got.o.kind)
			}
		}
	}
	if !slices.Equal(a.Local(w), r.after[me]) {
		return fmt.Errorf("its cells differ from the model's")
	}
	if err := w.Barrier(bg); err != nil || r.amid != nil { // nobody begins the next round before
		return err
	}
	return m.together(w, r)
}

// amid does the round's collective, if it belongs before a process's operation i, while
// others are under way.
func (m *model) amid(w *splitc.World, r *round, i int) error {
	if r.amid == nil || r.amid[w.MyProc()] != i {
		return nil
	}
	return m.together(w, r)
}

// end completes a round's operations.
func (m *model) end(w *splitc.World, r *round) error {
	if err := w.Sync(bg); err != nil {
		return err
	}
	if r.all {
		return w.AllStoreSync(bg)
	}
	if err := w.StoreSync(bg, r.bytes[w.MyProc()]); err != nil {
		return err
	}
	return w.Barrier(bg)
}

// send does an operation that writes, by one of its forms.
func (o *op) send(w *splitc.World, p splitc.Global[uint64]) error {
	values := o.values()
	switch {
	case o.n == 1 && o.id%3 == 0: // in halves
		for i := range 2 {
			q, half := splitc.Cast[uint32](p).Add(i), uint32(values[0]>>(32*i))
			if err := [...]func() error{
				opWrite: func() error { return splitc.Write(bg, w, q, half) },
				opPut:   func() error { return splitc.Put(bg, w, q, half) },
				opStore: func() error { return splitc.Store(bg, w, q, half) },
			}[o.kind](); err != nil {
				return err
			}
		}
		return nil
	case o.n == 1:
		return [...]func() error{
			opWrite: func() error { return splitc.Write(bg, w, p, values[0]) },
			opPut:   func() error { return splitc.Put(bg, w, p, values[0]) },
			opStore: func() error { return splitc.Store(bg, w, p, values[0]) },
		}[o.kind]()
	case o.every == 1:
		return [...]func() error{
			opWrite: func() error { return splitc.BulkWrite(bg, w, p, values) },
			opPut:   func() error { return splitc.BulkPut(bg, w, p, values) },
			opStore: func() error { return splitc.BulkStore(bg, w, p, values) },
		}[o.kind]()
	}
	return [...]func() error{
		opWrite: func() error { return splitc.StridedWrite(bg, w, p, values, o.stride()) },
		opPut:   func() error { return splitc.StridedPut(bg, w, p, values, o.stride()) },
		opStore: func() error { return splitc.StridedStore(bg, w, p, values, o.stride()) },
	}[o.kind]()
}

// fetch does an operation that reads, by one of its forms.
func (o *op) fetch(w *splitc.World, p splitc.Global[uint64], got []uint64) (err error) {
	s := o.stride()
	s.Local = o.every
	switch {
	case o.n == 1 && o.kind == opRead:
		got[0], err = splitc.Read(bg, w, p)
	case o.n == 1:
		err = splitc.Get(bg, w, &got[0], p)
	case o.every == 1 && o.kind == opRead:
		err = splitc.BulkRead(bg, w, got, p)
	case o.every == 1:
		err = splitc.BulkGet(bg, w, got, p)
	case o.kind == opRead:
		err = splitc.StridedRead(bg, w, got, p, s)
	default:
		err = splitc.StridedGet(bg, w, got, p, s)
	}
	return err
}

// chained returns an error unless the FetchAdds of each counter were done one after the
// other: what one has left the next has found.
func (m *model) chained() error {
	byOwner := make([][]added, m.procs)
	for _, adds := range m.adds {
		for _, a := range adds {
			byOwner[a.owner] = append(byOwner[a.owner], a)
		}
	}
	for owner, adds := range byOwner {
		sort.Slice(adds, func(i, j int) bool { return adds[i].old < adds[j].old })
		next := int64(0)
		for _, a := range adds {
			if a.old != next {
				return fmt.Errorf("counter of rank %d: a FetchAdd has found %d, want %d", owner, a.old, next)
			}
			next += a.delta
		}
	}
	return nil
}

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

// blackHole is how long a process hears nobody, and nobody hears it.
const blackHole = 5 * time.Second

// TestModelStorm: TestModel's programs where 30 % of the frames are lost, 10 % doubled and
// 20 % overtaken by up to 64 others, and where a process is in a black hole for five seconds,
// from a random place of its program on. What they return and leave behind is the same.
func TestModelStorm(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		seeds(t, 3, func(seed uint64) error {
			m := newModel(seed)
			opts := sim.Options{Seed: seed, Loss: 0.3, Dup: 0.1, Reorder: 0.2, ReorderBy: 64}
			p := newProgram(m.procs, opts, splitc.Config{Layer: layer})
			p.start(m.run)
			healed := false
			m.upset = anywhere(rand.New(rand.NewPCG(seed, 98)), m)
			victim := m.upset.proc
			m.upset.do = func() {
				p.Isolate(p.stations[victim])
				p.At(p.Now()+int64(blackHole), func() { healed = true; p.Heal() })
			}
			err := errors.Join(p.run(), m.chained())
			if err == nil && !healed {
				err = fmt.Errorf("the program ended before the black hole of rank %d did", victim)
			}
			return err
		})
	})
}

// anywhere returns a random place of a model's program.
func anywhere(rng *rand.Rand, m *model) upset {
	u := upset{round: m.rounds[rng.IntN(len(m.rounds))], proc: rng.IntN(m.procs)}
	u.at = rng.IntN(len(u.round.ops[u.proc]) + 1)
	return u
}
