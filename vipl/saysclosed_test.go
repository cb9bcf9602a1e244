package vipl_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// wantClosed wants an ErrClosed that names what is closed.
func wantClosed(t *testing.T, call, what string, err error) {
	t.Helper()
	if !errors.Is(err, vipl.ErrClosed) || !errors.Is(err, vipl.ErrInvalidState) || !strings.Contains(err.Error(), "the "+what+" is closed") {
		t.Errorf("%s: %v; want an ErrClosed that names the %s", call, err, what)
	}
}

// TestSaysWhatIsClosed: calls on a closed VI, completion queue or listener of an open
// NIC say which of them is closed, and those on a closed NIC say that.
func TestSaysWhatIsClosed(t *testing.T) {
	d := newDuo(t, nil, nil)
	cq, err := d.na.CreateCQ(4)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.na.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	q := seam.OnQueue(cq, 1)
	calls := []struct {
		name, what string
		call       func() error
	}{
		{"PostSend", "VI", func() error { return d.a.PostSend(&vipl.Descriptor{}) }},
		{"PostRecv", "VI", func() error { return d.a.PostRecv(&vipl.Descriptor{}) }},
		{"SendDone", "VI", func() error { _, err := d.a.SendDone(); return err }},
		{"RecvWait", "VI", func() error { _, err := d.a.RecvWait(bg); return err }},
		{"SendNotify", "VI", func() error { return d.a.SendNotify(func(*vipl.VI, *vipl.Descriptor, error) {}) }},
		{"Connect", "VI", func() error { return d.a.Connect(bg, d.nb.Addr(), nil) }},
		{"ConnectDone", "VI", func() error { return d.a.ConnectDone() }},
		{"ConnectPeer", "VI", func() error { return d.a.ConnectPeer(bg, d.nb.Addr(), nil) }},
		{"Disconnect", "VI", func() error { return d.a.Disconnect() }},
		{"SetAttributes", "VI", func() error { return d.a.SetAttributes(nil) }},
		{"CQ.Done", "completion queue", func() error { _, _, err := cq.Done(); return err }},
		{"CQ.Wait", "completion queue", func() error { _, _, err := cq.Wait(bg); return err }},
		{"Queue.Poll", "completion queue", func() error { _, err := q.Poll(); return err }},
		{"Queue.ReapWait", "completion queue", func() error { _, err := q.ReapWait(bg); return err }},
		{"CQ.Resize", "completion queue", func() error { return cq.Resize(9) }},
		{"CQ.Notify", "completion queue", func() error { return cq.Notify(func(*vipl.VI, bool) {}) }},
		{"Listener.Poll", "listener", func() error { _, err := l.Poll(); return err }},
		{"Listener.Wait", "listener", func() error { _, err := l.Wait(bg); return err }},
		{"Listener.Bind", "listener", func() error { return l.Bind(nil) }},
	}
	if err := errors.Join(d.a.Close(), cq.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		wantClosed(t, c.name, c.what, c.call())
	}
	d.a, d.na = d.b, d.nb
	if cq, err = d.na.CreateCQ(4); err != nil {
		t.Fatal(err)
	}
	if l, err = d.na.Listen(0); err != nil {
		t.Fatal(err)
	}
	d.nb.Close()
	for _, c := range calls {
		wantClosed(t, c.name, "NIC", c.call())
	}
}

// TestSaysDisconnected: who waits on a VI after its own Disconnect learns that this
// is why nothing comes, and who asks for the outcome of connecting as well. The next
// attempt to connect has it forgotten.
func TestSaysDisconnected(t *testing.T) {
	d := newDuo(t, nil, nil)
	said := func(call string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "Disconnect was called") {
			t.Errorf("%s: %v; want a %v that says so", call, err, want)
		}
	}
	over, cancel := context.WithCancel(bg)
	cancel()
	for _, first := range []func() error{d.a.Disconnect, d.b.Disconnect} { // its own, or after that of the other side
		if err := first(); err != nil {
			t.Fatal(err)
		}
		d.run()
		if err := d.a.Disconnect(); err != nil {
			t.Fatal(err)
		}
		_, err := d.a.RecvWait(bg)
		said("RecvWait of an empty queue", err, vipl.ErrQueueEmpty)
		_, err = d.a.SendWait(bg)
		said("SendWait", err, vipl.ErrQueueEmpty)
		said("ConnectDone", d.a.ConnectDone(), vipl.ErrInvalidState)
		r := d.post(d.a, 8)
		_, err = d.a.RecvWait(over)
		said("RecvWait", err, vipl.ErrTimeout)
		if err := d.b.Disconnect(); err != nil {
			t.Fatal(err)
		}
		d.run()
		d.connect()
		if _, err = d.a.RecvWait(over); !errors.Is(err, vipl.ErrTimeout) || strings.Contains(err.Error(), "Disconnect") {
			t.Errorf("connected again, RecvWait: %v", err)
		}
		d.send(d.b, 8)
		d.run()
		got, err := d.a.RecvDone()
		d.took(got, err, r, vipl.StatusOpReceive)
	}
}
