package vipl_test

import (
	"context"

	"github.com/bobnet-go/bobnet/transport"

	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// duo is two NICs on a wire in memory, one VI of each connected to the other,
// all driven by the test's goroutine.
type duo struct {
	t        testing.TB
	links    [2]*memLink
	na, nb   *vipl.NIC
	a, b     *vipl.VI
	long     [2]*longLink // if not nil, the links
	bare     [2]bool      // nothing protects the link
	patience int          // times that run goes on, beyond once
}

// newDuo connects VIs with the given attributes; nil means the default.
func newDuo(t testing.TB, attrA, attrB *vipl.Attributes) *duo {
	return (&duo{t: t}).set(attrA, attrB)
}

func (d *duo) set(attrA, attrB *vipl.Attributes) *duo {
	t := d.t
	d.links[0], d.links[1] = memPair(1500)
	t.Cleanup(func() { // when the NICs are closed
		for _, l := range d.links {
			spareMemory.Put(l.memory) //lint:ignore SA6002 the header of a slice is little beside its 1.5 MB
		}
	})
	d.na, d.nb = d.open(0), d.open(1)
	var err error
	if d.a, err = d.na.CreateVI(attrA, nil, nil); err != nil {
		t.Fatal(err)
	}
	if d.b, err = d.nb.CreateVI(attrB, nil, nil); err != nil {
		t.Fatal(err)
	}
	d.connect()
	return d
}

func (d *duo) open(side int) *vipl.NIC {
	var link transport.Link = d.links[side]
	if d.long[side] != nil {
		d.long[side].Link, link = link, d.long[side]
	}
	if d.bare[side] {
		link = bareLink{link}
	}
	n, err := vipl.Open(context.Background(), &vipl.Config{Link: link, Seed: uint64(side) + 1})
	if err != nil {
		d.t.Fatal(err)
	}
	if d.long[side] != nil && d.long[side].slot == 0 {
		n.LongFrames(longMTU)
	}
	d.t.Cleanup(func() { n.Close() })
	return n
}

// connect connects a and b, which are idle.
func (d *duo) connect() {
	d.t.Helper()
	l, err := d.na.Listen(service)
	if err != nil {
		d.t.Fatal(err)
	}
	defer l.Close()
	if err := d.b.ConnectStart(l.Addr(), nil); err != nil {
		d.t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := r.AcceptStart(d.a); err != nil {
		d.t.Fatal(err)
	}
	d.run()
	if d.a.State() != vipl.StateConnected || d.b.State() != vipl.StateConnected {
		d.t.Fatal("not connected:", d.a.State(), d.b.State())
	}
}

// taken returns the request that a client has sent to l. The client asks again with the token of
// the listener's answer first.
func taken(l *vipl.Listener, client *vipl.NIC) (*vipl.Request, error) {
	if r, err := l.Poll(); err != vipl.ErrNotDone {
		return r, err
	}
	client.Poll()
	return l.Poll()
}

// another connects one more VI of each NIC.
func (d *duo) another() {
	d.t.Helper()
	more := *d
	var err error
	if more.a, err = d.na.CreateVI(nil, nil, nil); err != nil {
		d.t.Fatal(err)
	}
	if more.b, err = d.nb.CreateVI(nil, nil, nil); err != nil {
		d.t.Fatal(err)
	}
	more.connect()
}

// run drives both sides until what is under way has arrived. The memory link's
// clock moves only as it is read, so that acknowledgements which wait for
// their delay need many polls.
func (d *duo) run() {
	for range 4 + d.patience {
		for range 8 {
			d.nb.Poll()
			d.na.Poll()
		}
		*d.links[0].clock += 100_000
	}
}

// buffer returns registered memory of n with guard bytes around it, and checks
// the guards when the test ends.
func (d *duo) buffer(n *vipl.NIC, size int, attr *vipl.MemAttributes) ([]byte, vipl.MemHandle) {
	d.t.Helper()
	const guard, fill = 64, 0xA5
	all := make([]byte, size+2*guard)
	for i := range all {
		all[i] = fill
	}
	d.t.Cleanup(func() {
		for i, c := range all {
			if (i < guard || i >= guard+size) && c != fill {
				d.t.Errorf("byte %d beyond a registered region of %d bytes was written", i-guard, size)
				return
			}
		}
	})
	buf := all[guard : guard+size : guard+size]
	h, err := n.RegisterMem(buf, attr)
	if err != nil {
		d.t.Fatal(err)
	}
	return buf, h
}

// post posts a receive of size bytes on v and returns it.
func (d *duo) post(v *vipl.VI, size int) *vipl.Descriptor {
	d.t.Helper()
	buf, h := d.buffer(v.NIC(), max(size, 1), nil)
	r := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[:size], Handle: h}}}
	if err := v.PostRecv(r); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// send posts a send of size bytes on v and returns it.
func (d *duo) send(v *vipl.VI, size int) *vipl.Descriptor {
	d.t.Helper()
	buf, h := d.buffer(v.NIC(), max(size, 1), nil)
	s := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[:size], Handle: h}}}
	if err := v.PostSend(s); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// took wants got, as a Done call returned it, to be the descriptor want with
// the given status bits.
func (d *duo) took(got *vipl.Descriptor, err error, want *vipl.Descriptor, status vipl.Status) {
	d.t.Helper()
	status |= vipl.StatusDone
	if got != want || want != nil && got.Status != status || errors.Is(err, vipl.ErrDescriptor) != status.Failed() {
		if got == nil {
			d.t.Fatalf("took nothing (%v), want %v", err, status)
		}
		d.t.Fatalf("took %p: %v (%v), want %p: %v", got, got.Status, err, want, status)
	}
}

// ended wants both VIs in the Error state for the given cause.
func (d *duo) ended(cause error) {
	d.t.Helper()
	for name, v := range map[string]*vipl.VI{"a": d.a, "b": d.b} {
		if v.State() != vipl.StateError || !errors.Is(v.Err(), cause) {
			d.t.Fatalf("%s: %v, %v; want the error state and %v", name, v.State(), v.Err(), cause)
		}
	}
}

// alive wants both VIs connected.
func (d *duo) alive() {
	d.t.Helper()
	for name, v := range map[string]*vipl.VI{"a": d.a, "b": d.b} {
		if v.State() != vipl.StateConnected {
			d.t.Fatalf("%s: %v, %v; want it connected", name, v.State(), v.Err())
		}
	}
}
