package vipl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestSlowServer: a server that looks at its NIC five times a second, and whose ring holds
// a few dozen frames, gets all of hundreds that ask at once, although that takes much
// longer than each may try alone. Those that ask later, when it is silent for good, fail
// in the time that they have.
func TestSlowServer(t *testing.T) {
	const clients, slots, step = 400, 64, 200 * time.Millisecond
	d := &duo{t: t}
	d.links[0], d.links[1] = memPairSlots(1500, slots)
	d.links[0].drops = true
	d.na, d.nb = d.open(0), d.open(1)
	l, err := d.na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() *vipl.VI {
		v := d.idle(d.nb)
		if err := v.ConnectStart(l.Addr(), nil); err != nil {
			t.Fatal(err)
		}
		return v
	}
	vis := make([]*vipl.VI, clients)
	for i := range vis {
		vis[i] = ask()
	}
	if left := vis[clients-1].Snapshot().GivesUp; left <= 0 || left > vipl.DefaultConnectTimeout {
		t.Errorf("an attempt that waits for its turn gives up in %v", left)
	}
	began := d.nb.Now()
	for countConnected(vis) < clients {
		d.clientsFor(step)
		d.serve(l)
		if took := time.Duration(d.nb.Now() - began); took > 5*time.Minute {
			t.Fatalf("%d of %d are connected after %v: %v", countConnected(vis), clients, took, vis[clients-1].ConnectDone())
		}
	}
	if took := time.Duration(d.nb.Now() - began); took < 2*vipl.DefaultConnectTimeout {
		t.Fatalf("the server took %v only", took)
	}
	for i := range vis {
		vis[i] = ask()
	}
	for range 4 { // the time that they wait in vain counts
		d.clientsFor(vipl.DefaultConnectTimeout)
	}
	for _, v := range vis {
		if err := v.ConnectDone(); !errors.Is(err, vipl.ErrTimeout) {
			t.Fatalf("asking who is silent: %v, want a time-out", err)
		}
	}
}

// serve takes what has come to side a, and accepts all requests.
func (d *duo) serve(l *vipl.Listener) {
	for range 4 {
		d.na.Poll()
	}
	for {
		r, err := l.Poll()
		if errors.Is(err, vipl.ErrNotDone) {
			return
		} else if err != nil {
			d.t.Fatal(err)
		}
		if err := r.AcceptStart(d.idle(d.na)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// clientsFor drives side b alone for some time.
func (d *duo) clientsFor(t time.Duration) {
	clock := d.links[1].clock
	for end := *clock + int64(t); *clock < end; *clock += int64(time.Millisecond) {
		d.nb.Poll()
	}
}

func countConnected(vis []*vipl.VI) (n int) {
	for _, v := range vis {
		if v.ConnectDone() == nil {
			n++
		}
	}
	return n
}
