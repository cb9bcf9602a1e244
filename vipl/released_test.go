package vipl_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestClosedVIsAreReleased: the memory of VIs that were accepted and closed is
// free as soon as the program lets go of them, while their listener lives on.
func TestClosedVIsAreReleased(t *testing.T) {
	const count = 20
	d := newDuo(t, nil, nil)
	l, err := d.na.Listen(service + 1)
	if err != nil {
		t.Fatal(err)
	}
	closed := make([]weak.Pointer[vipl.VI], count)
	for i := range closed {
		closed[i] = acceptOne(d, l)
	}
	held := 0
	for range 5 { // cycles: what a finished one has found unreachable is gone
		runtime.GC()
		held = 0
		for _, p := range closed {
			if p.Value() != nil {
				held++
			}
		}
		if held == 0 {
			break
		}
	}
	if held > 1 { // the engine may remember the last one
		t.Errorf("%d of %d closed VIs are still in memory", held, count)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(d)
}

// acceptOne connects two VIs by l, sends a message, and closes both.
//
//go:noinline
func acceptOne(d *duo, l *vipl.Listener) weak.Pointer[vipl.VI] {
	t := d.t
	t.Helper()
	a, b := d.idle(d.na), d.idle(d.nb)
	if err := b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AcceptStart(a); err != nil {
		t.Fatal(err)
	}
	d.run()
	in := d.post(a, 8)
	d.send(b, 8)
	d.run()
	got, err := a.RecvDone()
	d.took(got, err, in, vipl.StatusOpReceive)
	a.Close()
	b.Close()
	d.run()
	return weak.Make(a)
}
