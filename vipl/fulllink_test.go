package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// fullLink is a memLink that takes no frames while it is full.
type fullLink struct {
	*memLink
	full bool
}

func (l *fullLink) Send(frames []transport.Frame) (int, error) {
	if l.full {
		return 0, nil
	}
	return l.memLink.Send(frames)
}

// TestFullLinkResend: a frame that turns out to be lost while the link takes
// nothing counts as sent again when it has been, and goes as soon as the link
// takes frames, not when it has been found lost once more.
func TestFullLinkResend(t *testing.T) {
	loose := &vipl.Attributes{Reliability: reliability.Unreliable}
	d := &duo{t: t}
	d.links[0], d.links[1] = memPair(1500)
	link := &fullLink{memLink: d.links[1]}
	d.na = d.open(0)
	var err error
	if d.nb, err = vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 2}); err != nil {
		t.Fatal(err)
	}
	defer d.nb.Close()
	vis := func(attr *vipl.Attributes) {
		d.a, err = d.na.CreateVI(attr, nil, nil)
		if err == nil {
			d.b, err = d.nb.CreateVI(attr, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		d.connect()
	}
	vis(loose)
	flood := d.b
	vis(nil)

	in := []*vipl.Descriptor{d.post(d.a, 10), d.post(d.a, 10)}
	d.send(d.b, 10)
	d.links[0].tail--            // lost
	*d.links[0].clock += 100_000 // enough to tell that from reordering
	d.send(d.b, 10)
	d.na.Poll() // says what it lacks
	link.full = true
	for range 100 { // more than a batch
		d.send(flood, 10)
	}
	for range 4 {
		d.nb.Poll()
	}
	if n := d.b.Snapshot().Retransmits; n != 0 {
		t.Errorf("sent again %d times, by a link that takes nothing", n)
	}
	link.full = false
	for range 16 { // a few microseconds
		d.nb.Poll()
		d.na.Poll()
	}
	for _, want := range in {
		got, err := d.a.RecvDone()
		d.took(got, err, want, vipl.StatusOpReceive)
	}
	if n := d.b.Snapshot().Retransmits; n != 1 {
		t.Errorf("sent again %d times, want once", n)
	}
}
