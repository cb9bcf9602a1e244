package vipl_test

import (
	"errors"
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
