package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestPostCatchesUp: a send of one VI takes along the acknowledgement that another owes
// by now, and does not leave it for the next call.
func TestPostCatchesUp(t *testing.T) {
	d := newDuo(t, nil, nil)
	other := *d
	var err error
	if other.a, err = d.na.CreateVI(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if other.b, err = d.nb.CreateVI(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	other.connect()
	other.send(other.a, 8) // so that the next one is not alone
	in := d.post(d.a, 8)
	d.send(d.b, 8)
	x, err := d.a.RecvDone()
	d.took(x, err, in, vipl.StatusOpReceive)
	*d.links[0].clock += 100_000_000
	before := d.links[0].frames
	other.send(other.a, 8)
	if sent := d.links[0].frames - before; sent < 2 {
		t.Errorf("%d frames, want the message and the acknowledgement", sent)
	}
}
