package vipl_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// asks starts to connect a new VI of b to the listener that a NIC has for a
// discriminator, and returns it.
func (d *duo) asks(from *vipl.NIC, discriminator, data string) *vipl.VI {
	d.t.Helper()
	v := d.idle(from)
	if err := v.ConnectForStart(d.na.Addr(), []byte(discriminator), []byte(data)); err != nil {
		d.t.Fatal(err)
	}
	d.run()
	return v
}

// TestDiscriminators: two listeners of a NIC, told apart by what programs have agreed
// on and not by their ports, get each its own requests, with their private data; from
// another NIC and from their own.
func TestDiscriminators(t *testing.T) {
	d := newDuo(t, nil, nil)
	one, err := d.na.ListenFor([]byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	longest := strings.Repeat("\xff\x00", vipl.MaxDiscriminator/2)
	two, err := d.na.ListenFor([]byte(longest))
	if err != nil {
		t.Fatal(err)
	}
	for i, from := range []*vipl.NIC{d.nb, d.nb, d.na} {
		for _, c := range []struct {
			l    *vipl.Listener
			name string
			data string
		}{{one, "one", strings.Repeat("x", vipl.MaxConnData-4)}, {two, longest, "abcde"}, {one, "one", ""}} {
			v := d.asks(from, c.name, c.data)
			r, err := c.l.Poll()
			if err != nil || string(r.Data()) != c.data || r.Listener() != c.l || string(c.l.Discriminator()) != c.name {
				t.Fatalf("NIC %d, %.5q: %v", i, c.name, err)
			}
			at := d.idle(d.na)
			if err := r.AcceptStart(at); err != nil {
				t.Fatal(err)
			}
			d.run()
			if v.ConnectDone() != nil || v.Remote() != at.Local() || at.Remote() != v.Local() {
				t.Errorf("NIC %d, %.5q: %v, connected with %v and %v", i, c.name, v.ConnectDone(), v.Remote(), at.Remote())
			}
			for _, l := range []*vipl.Listener{one, two} {
				if r, err := l.Poll(); err != vipl.ErrNotDone {
					t.Errorf("%v, %v: a request too many", r, err)
				}
			}
		}
	}
}

// TestDiscriminatorRefused: nobody listens for it, or not any more; the server does
// not want to, and says why.
func TestDiscriminatorRefused(t *testing.T) {
	d := newDuo(t, nil, nil)
	l, err := d.na.ListenFor([]byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"on", "onee", "two"} {
		if err := d.asks(d.nb, name, "").ConnectDone(); !errors.Is(err, vipl.ErrNoMatch) {
			t.Errorf("%q: %v", name, err)
		}
	}
	v := d.asks(d.nb, "one", "")
	r, err := l.Poll()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reject("not today"); err != nil {
		t.Fatal(err)
	}
	d.run()
	if err := v.ConnectDone(); !errors.Is(err, vipl.ErrReject) || !strings.Contains(err.Error(), "not today") {
		t.Errorf("refused: %v", err)
	}
	if _, err := d.na.ListenFor([]byte("one")); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("a second listener: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.asks(d.nb, "one", "").ConnectDone(); !errors.Is(err, vipl.ErrNoMatch) {
		t.Errorf("closed: %v", err)
	}
	if _, err := d.na.ListenFor([]byte("one")); err != nil {
		t.Errorf("the next listener: %v", err)
	}
}

// TestDiscriminatorLimits: what is too long, or empty.
func TestDiscriminatorLimits(t *testing.T) {
	d := newDuo(t, nil, nil)
	v := d.idle(d.nb)
	tooLong := make([]byte, vipl.MaxDiscriminator+1)
	for name, err := range map[string]error{
		"an empty one": v.ConnectFor(bg, d.na.Addr(), nil, nil),
		"a long one":   v.ConnectFor(bg, d.na.Addr(), tooLong, nil),
		"much data":    v.ConnectFor(bg, d.na.Addr(), tooLong[:3], make([]byte, vipl.MaxConnData-3)),
		"to all":       v.ConnectFor(bg, ethertype.Addr{MAC: ethertype.Broadcast, Port: 1}, tooLong[:3], nil),
	} {
		if !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range [][]byte{nil, tooLong} {
		if _, err := d.na.ListenFor(name); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("listening for %d bytes: %v", len(name), err)
		}
	}
	if d.na.Query().MaxDiscriminatorLen != vipl.MaxDiscriminator {
		t.Error(d.na.Query().MaxDiscriminatorLen)
	}
}
