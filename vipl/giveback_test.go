package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestClosedGivesBackOnce: what a closed VI has given back can be posted
// elsewhere, and the closed VI hands it out no more.
func TestClosedGivesBackOnce(t *testing.T) {
	d := newDuo(t, nil, nil)
	taken := map[string]func() (*vipl.Descriptor, error){
		"SendDone": d.a.SendDone, "RecvDone": d.a.RecvDone,
		"SendWait": func() (*vipl.Descriptor, error) { return d.a.SendWait(bg) },
		"RecvWait": func() (*vipl.Descriptor, error) { return d.a.RecvWait(bg) },
	}
	given := []*vipl.Descriptor{d.post(d.a, 8), d.post(d.a, 8), d.send(d.a, 8), d.send(d.a, 8)}
	if err := d.a.Close(); err != nil {
		t.Fatal(err)
	}
	other := d.idle(d.na)
	for _, x := range given {
		if err := other.PostRecv(x); err != nil {
			t.Fatal(err)
		}
	}
	for name, take := range taken {
		if x, err := take(); x != nil || !errors.Is(err, vipl.ErrClosed) {
			t.Errorf("%s: took %p (%v) from the closed VI, which is posted on another", name, x, err)
		}
	}
	for _, x := range given {
		if err := other.PostRecv(x); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("posted twice: %v", err)
		}
	}
}

// TestClosedUnderWaiter is the same for a caller who is blocked when the VI is
// closed.
func TestClosedUnderWaiter(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	w.node("a", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		other, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		x := &vipl.Descriptor{}
		if err := v.PostRecv(x); err != nil {
			return err
		}
		w.Go("closer", func() {
			if err := errors.Join(w.Sleep(time.Second), v.Close(), other.PostRecv(x)); err != nil {
				w.errs = append(w.errs, err)
			}
		})
		if d, err := v.RecvWait(bg); d != nil || !errors.Is(err, vipl.ErrClosed) {
			return fmt.Errorf("took %p (%v), which is posted on another VI", d, err)
		}
		if err := other.PostRecv(x); !errors.Is(err, vipl.ErrArgument) {
			return fmt.Errorf("posted twice: %v", err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestClosedNICKeeps: a closed NIC gives nothing back by itself. What was posted
// can be taken, or comes back when its VI is closed.
func TestClosedNICKeeps(t *testing.T) {
	d := newDuo(t, nil, nil)
	first, second := d.post(d.a, 8), d.post(d.a, 8)
	if err := d.na.Close(); err != nil {
		t.Fatal(err)
	}
	first.Segs, second.Segs = nil, nil // they lie in memory of the other NIC
	if err := d.b.PostRecv(first); !errors.Is(err, vipl.ErrArgument) {
		t.Error("posted although it can still be taken:", err)
	}
	got, err := d.a.RecvDone()
	d.took(got, err, first, vipl.StatusOpReceive|vipl.StatusFlushed)
	if err := d.b.PostRecv(first); err != nil {
		t.Error("was taken and cannot be posted:", err)
	}
	if err := d.a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.b.PostRecv(second); err != nil {
		t.Error("its VI was closed and it cannot be posted:", err)
	}
	if got, err := d.a.RecvDone(); got != nil || !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("took %p (%v), which is posted on another VI", got, err)
	}
}
