package vipl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

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
