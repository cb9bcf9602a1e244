package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// boundPair returns a pair whose VI b has both queues bound to a CQ.
func boundPair(t *testing.T, entries int) (*duo, *vipl.CQ) {
	d := &duo{t: t}
	d.links[0], d.links[1] = memPair(1500)
	d.na, d.nb = d.open(0), d.open(1)
	cq, err := d.nb.CreateCQ(entries)
	if err != nil {
		t.Fatal(err)
	}
	d.a, _ = d.na.CreateVI(nil, nil, nil)
	if d.b, err = d.nb.CreateVI(nil, cq, cq); err != nil {
		t.Fatal(err)
	}
	d.connect()
	return d, cq
}

// TestCQOrder wants one entry for each completion, in order of completion.
func TestCQOrder(t *testing.T) {
	d, cq := boundPair(t, 16)
	if _, _, err := cq.Done(); err != vipl.ErrNotDone {
		t.Fatalf("empty queue: %v", err)
	}
	for range 3 {
		d.post(d.a, 8)
		d.post(d.b, 8)
	}
	for _, recv := range []bool{true, false, true, true, false} {
		if recv {
			d.send(d.a, 1)
		} else {
			d.send(d.b, 1)
		}
		d.run()
	}
	for i, want := range []bool{true, false, true, true, false} {
		v, recv, err := cq.Wait(bg)
		if err != nil || v != d.b || recv != want {
			t.Fatalf("entry %d: %v, receive %v, %v; want receive %v", i, v, recv, err, want)
		}
		take := v.SendDone
		if recv {
			take = v.RecvDone
		}
		if _, err := take(); err != nil {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	if _, _, err := cq.Done(); err != vipl.ErrNotDone {
		t.Errorf("after the last entry: %v", err)
	}
}

// TestCQLarge: a queue of more entries than its array begins with holds as many as it is
// for, in order, also when the oldest entry does not lie at the array's beginning.
func TestCQLarge(t *testing.T) {
	const entries, early = 300, 40
	d, cq := boundPair(t, entries)
	done, taken := 0, 0
	complete := func(n int) {
		for range n {
			from, to := d.a, d.b
			if done%3 == 2 { // of the send queue
				from, to = d.b, d.a
			}
			d.post(to, 8)
			d.send(from, 1)
			d.run()
			done++
		}
	}
	reap := func(want int) {
		t.Helper()
		done, err := seam.OnQueue(cq, entries+1).Poll()
		if len(done) != want || err != nil {
			t.Fatalf("reaped %d, %v; want %d", len(done), err, want)
		}
		for _, c := range done {
			if c.Recv != (taken%3 != 2) {
				t.Fatalf("entry %d: of the receive queue: %v", taken, c.Recv)
			}
			taken++
		}
	}
	complete(early)
	reap(early)
	complete(entries)
	if n := d.nb.Snapshot().CQOverruns; n != 0 {
		t.Fatalf("%d entries are lost of as many as the queue is for", n)
	}
	complete(1)
	if n := d.nb.Snapshot().CQOverruns; n != 1 {
		t.Errorf("%d overruns counted, want 1", n)
	}
	reap(entries)
}

// TestCQOverrun fills a CQ of two entries: the third is counted as lost, its
// descriptor is not.
func TestCQOverrun(t *testing.T) {
	d, cq := boundPair(t, 2)
	for range 3 {
		d.post(d.b, 8)
	}
	for range 3 {
		d.send(d.a, 1)
	}
	d.run()
	if n := d.nb.Snapshot().CQOverruns; n != 1 {
		t.Errorf("%d overruns counted, want 1", n)
	}
	for range 2 {
		if _, _, err := cq.Done(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := cq.Done(); err != vipl.ErrNotDone {
		t.Errorf("third entry: %v", err)
	}
	for range 3 {
		if _, err := d.b.RecvDone(); err != nil {
			t.Error(err)
		}
	}
}

// TestCQResize makes a CQ larger and smaller while it holds entries that wrap
// around its end; none is lost or changes places.
func TestCQResize(t *testing.T) {
	d, cq := boundPair(t, 4)
	d.post(d.b, 8)
	entry := func(recv bool) { // of a receive or a send of b
		if recv {
			d.post(d.b, 8)
			d.send(d.a, 1)
		} else {
			d.post(d.a, 8)
			d.send(d.b, 1)
		}
		d.run()
	}
	var want []bool
	for i := range 3 {
		want = append(want, i%2 == 0)
		entry(i%2 == 0)
	}
	take := func() {
		t.Helper()
		v, recv, err := cq.Done()
		if err != nil || v != d.b || recv != want[0] {
			t.Fatalf("took %v, %v, %v, want receive %v", v, recv, err, want[0])
		}
		want = want[1:]
	}
	take()
	take()
	for i := range 3 { // the ring wraps
		want = append(want, i == 1)
		entry(i == 1)
	}
	for _, size := range []int{4, 100, 5, 4} {
		if err := cq.Resize(size); err != nil {
			t.Fatalf("to %d: %v", size, err)
		}
		if q := cq.Query(); q != (vipl.CQAttributes{Entries: size, Used: 4, WorkQueues: 2}) {
			t.Errorf("%+v", q)
		}
	}
	for size, want := range map[int]error{3: vipl.ErrResource, 0: vipl.ErrArgument, vipl.MaxCQEntries + 1: vipl.ErrArgument} {
		if err := cq.Resize(size); !errors.Is(err, want) || cq.Query().Entries != 4 {
			t.Errorf("to %d: %v, want %v", size, err, want)
		}
	}
	cq.Resize(5)
	want = append(want, true)
	entry(true)
	for range 5 {
		take()
	}
	if n := d.nb.Snapshot().CQOverruns; n != 0 {
		t.Errorf("%d entries were lost", n)
	}
	d.b.Close()
	cq.Close()
	if err := cq.Resize(8); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestCQClose closes a CQ that VIs are bound to, and one that they have left.
func TestCQClose(t *testing.T) {
	d, cq := boundPair(t, 8)
	if err := cq.Close(); !errors.Is(err, vipl.ErrResource) {
		t.Fatalf("with a VI bound: %v, want ErrResource", err)
	}
	other, err := d.nb.CreateVI(nil, cq, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.post(d.b, 8)
	d.post(d.b, 8)
	if err := d.b.Close(); err != nil { // flushes; nobody must find its entries
		t.Fatal(err)
	}
	if v, _, err := cq.Done(); err != vipl.ErrNotDone {
		t.Errorf("entry of a closed VI: %v, %v", v, err)
	}
	if err := cq.Close(); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("with another VI bound: %v, want ErrResource", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := cq.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, _, err := cq.Wait(bg); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("wait: %v, want ErrClosed", err)
	}
	if _, err := d.nb.CreateVI(nil, cq, nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("VI on a closed CQ: %v", err)
	}
	foreign, _ := d.na.CreateCQ(1)
	if _, err := d.nb.CreateVI(nil, foreign, nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("VI on another NIC's CQ: %v", err)
	}
}

// heap is idle VIs that share a completion queue. What is posted on one's send queue
// is flushed at once, so that each post is an entry.
type heap struct {
	n  *vipl.NIC
	cq *vipl.CQ
}

func newHeap(t testing.TB, entries int) *heap {
	t.Helper()
	link, _ := memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	cq, err := n.CreateCQ(entries)
	if err != nil {
		t.Fatal(err)
	}
	return &heap{n, cq}
}

// vi adds a VI, of which entries are in the queue.
func (h *heap) vi(t testing.TB, entries int) *vipl.VI {
	t.Helper()
	v, err := h.n.CreateVI(nil, h.cq, h.cq)
	if err != nil {
		t.Fatal(err)
	}
	h.flush(t, v, entries)
	return v
}

func (h *heap) flush(t testing.TB, v *vipl.VI, entries int) {
	t.Helper()
	for range entries {
		if err := v.PostSend(&vipl.Descriptor{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloseManyVIs closes the VIs of one queue, which holds entries of all of them,
// in several orders. When entries leave the ring for a VI that closes, all that are
// in the ring are gone through; so their number is how many steps it takes. In all it
// must be in proportion to the entries, and not to their square.
func TestCloseManyVIs(t *testing.T) {
	const vis, each = 500, 8
	for name, order := range map[string]func(list []*vipl.VI){
		"OldestFirst": func([]*vipl.VI) {},
		"NewestFirst": func(list []*vipl.VI) { slices.Reverse(list) },
		"AnyOrder": func(list []*vipl.VI) {
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeap(t, vis*each)
			var list []*vipl.VI
			for range vis {
				list = append(list, h.vi(t, each))
			}
			order(list)
			steps := 0
			for i, v := range list {
				before := h.cq.InRing()
				v.Close()
				if h.cq.InRing() != before {
					steps += before
				}
				if used := h.cq.Query().Used; used != (vis-i-1)*each {
					t.Fatalf("%d VIs are left, and %d entries", vis-i-1, used)
				}
			}
			if limit := 4 * vis * each; steps > limit {
				t.Errorf("%d steps to close %d VIs with %d entries, want %d at the most", steps, vis, vis*each, limit)
			}
			if n := h.cq.InRing(); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}

// TestCloseFullQueue: what closed VIs have left takes no room from others, in a queue
// that is kept nearly full.
func TestCloseFullQueue(t *testing.T) {
	const size = 64
	h := newHeap(t, size)
	stay := h.vi(t, size-1)
	steps := 0
	for range 1000 {
		before := h.cq.InRing()
		h.vi(t, 1).Close()
		if h.cq.InRing() != before+1 {
			steps += before
		}
	}
	if n := h.n.Snapshot().CQOverruns; n != 0 {
		t.Errorf("%d entries were lost", n)
	}
	if limit := 4 * 1000; steps > limit {
		t.Errorf("%d steps for 1000 entries, want %d at the most", steps, limit)
	}
	for range size - 1 {
		if v, recv, err := h.cq.Done(); v != stay || recv || err != nil {
			t.Fatalf("took %v, %v, %v", v, recv, err)
		}
	}
	if v, _, err := h.cq.Done(); err != vipl.ErrNotDone {
		t.Errorf("an entry of a closed VI was told: %v, %v", v, err)
	}
}

// TestCloseAnyTime closes VIs while entries come and go and the queue changes its
// size: the entries of the others stay, in order, and no closed VI is told.
func TestCloseAnyTime(t *testing.T) {
	seeds(t, 200, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHeap(t, 1+rng.IntN(12))
		var vis, want []*vipl.VI
		lost := uint64(0)
		for range 300 {
			switch rng.IntN(7) {
			case 0:
				vis = append(vis, h.vi(t, 0))
			case 1, 2, 3:
				if len(vis) == 0 {
					continue
				}
				v := vis[rng.IntN(len(vis))]
				if h.flush(t, v, 1); len(want) < h.cq.Query().Entries {
					want = append(want, v)
				} else {
					lost++
				}
			case 4:
				v, _, err := h.cq.Done()
				if len(want) == 0 && err == vipl.ErrNotDone {
					continue
				}
				if len(want) == 0 || v != want[0] {
					return fmt.Errorf("took %p (%v) and not the oldest of %d entries", v, err, len(want))
				}
				v.SendDone()
				want = want[1:]
			case 5:
				if len(vis) == 0 {
					continue
				}
				i := rng.IntN(len(vis))
				v := vis[i]
				v.Close()
				vis = slices.Delete(vis, i, i+1)
				want = slices.DeleteFunc(want, func(w *vipl.VI) bool { return w == v })
			case 6:
				if err := h.cq.Resize(max(len(want), 1+rng.IntN(12))); err != nil {
					return err
				}
			}
			if used := h.cq.Query().Used; used != len(want) {
				return fmt.Errorf("the queue holds %d entries, want %d", used, len(want))
			}
		}
		if n := h.n.Snapshot().CQOverruns; n != lost {
			return fmt.Errorf("%d entries were lost, want %d", n, lost)
		}
		return nil
	})
}

// reapPair connects two VIs whose queues at a's side share a completion queue.
func reapPair(t *testing.T) (d *duo, q *seam.Queue, v *vipl.VI) {
	d = newDuo(t, nil, nil)
	cq, err := d.na.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = d.na.CreateVI(nil, cq, cq); err != nil {
		t.Fatal(err)
	}
	d.a.Disconnect()
	d.b.Disconnect()
	d.run()
	other := &duo{t: t, links: d.links, na: d.na, nb: d.nb, a: v, b: d.b}
	other.connect()
	return other, seam.OnQueue(cq, 2), v
}

// TestReap takes entries and descriptors of both queues by one call, in order,
// as many as there is room for.
func TestReap(t *testing.T) {
	d, q, v := reapPair(t)
	var want []*vipl.Descriptor
	for range 3 {
		want = append(want, d.post(v, 100))
	}
	for range 3 {
		d.send(d.b, 60)
	}
	d.run()
	d.post(d.b, 10)
	sent := d.send(v, 10)
	d.run()
	for i := 0; i < 4; {
		done, err := q.Poll()
		if len(done) != 2 || err != nil {
			t.Fatalf("Poll = %d, %v", len(done), err)
		}
		for _, c := range done {
			if i < 3 && (c.VI != v || !c.Recv || c.Descriptor != want[i] || c.Err != nil || c.Descriptor.Length != 60) ||
				i == 3 && (c.VI != v || c.Recv || c.Descriptor != sent) {
				t.Fatalf("completion %d: %+v", i, c)
			}
			i++
		}
	}
	if done, err := q.Poll(); len(done) != 0 || err != vipl.ErrNotDone {
		t.Errorf("Poll of nothing = %d, %v", len(done), err)
	}
}

// TestReapTaken passes over an entry whose descriptor RecvDone has taken, and
// tells of one that completed in error.
func TestReapTaken(t *testing.T) {
	d, q, v := reapPair(t)
	first, second := d.post(v, 100), d.post(v, 100)
	d.send(d.b, 60)
	d.run()
	got, err := v.RecvDone()
	d.took(got, err, first, vipl.StatusOpReceive)
	d.b.Disconnect()
	d.run()
	done, err := q.ReapWait(context.Background())
	if len(done) != 1 || err != nil || done[0].Descriptor != second || !errors.Is(done[0].Err, vipl.ErrDescriptor) {
		t.Errorf("ReapWait = %+v, %v", done, err)
	}
	v.Close()
	q.Close()
	if done, err := q.ReapWait(context.Background()); len(done) != 0 || !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("ReapWait of a closed queue = %d, %v", len(done), err)
	}
	if done, err := q.Poll(); len(done) != 0 || !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("Poll of a closed queue = %d, %v", len(done), err)
	}
}
