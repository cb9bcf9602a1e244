package vipl_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestAckNow: a message that asks for its acknowledgement completes as soon as its receiver has
// polled, whatever its length and whatever it shares a frame with; without that it waits for
// the delay of acknowledgements.
func TestAckNow(t *testing.T) {
	attr := &vipl.Attributes{Reliability: reliability.ReliableDelivery, EnableRDMAWrite: true}
	for _, asks := range []bool{false, true} {
		for _, size := range []int{16, 1000, 2000} {
			for _, write := range []bool{false, true} {
				for _, behind := range []int{0, 1} { // messages that follow it
					t.Run(fmt.Sprintf("asks=%v/%d/write=%v/%d", asks, size, write, behind), func(t *testing.T) {
						d := newDuo(t, attr, attr)
						ackNow(d, asks, size, write, behind)
					})
				}
			}
		}
	}
}

func ackNow(d *duo, asks bool, size int, write bool, behind int) {
	d.t.Helper()
	target, h := d.buffer(d.nb, size, &vipl.MemAttributes{EnableRDMAWrite: true})
	data, lh := d.buffer(d.na, size, nil)
	s := &vipl.Descriptor{AckNow: asks, HasImmediate: write, Segs: []vipl.Segment{{Data: data, Handle: lh}}}
	if write {
		s.Op, s.Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: vipl.VirtualAddress(target), Handle: h}
	}
	for range 1 + behind {
		d.post(d.b, size)
	}
	if err := seam.PostLate(d.a, s); err != nil {
		d.t.Fatal(err)
	}
	for range behind {
		d.send(d.a, 16)
	}
	d.na.Poll()
	d.nb.Poll()
	got, err := d.a.SendDone()
	if asks && (got != s || err != nil) {
		d.t.Errorf("not acknowledged at once: %v", err)
	}
	if !asks && !errors.Is(err, vipl.ErrNotDone) {
		d.t.Errorf("acknowledged at once, without being asked to: %v", err)
	}
	d.run()
}
