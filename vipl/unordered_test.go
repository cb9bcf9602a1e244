package vipl_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestUnorderedWrite: an RDMA write that comes before what was sent before it is
// placed if it is unordered, and else waits to be sent again. The peer hears of it in
// its turn.
func TestUnorderedWrite(t *testing.T) {
	for name, unordered := range map[string]bool{"ordered": false, "unordered": true} {
		t.Run(name, func(t *testing.T) {
			attr := &vipl.Attributes{Reliability: reliability.ReliableDelivery, EnableRDMAWrite: true}
			d := newDuo(t, attr, attr)
			const size = 5000 // several frames
			buf, h := d.buffer(d.nb, size, &vipl.MemAttributes{EnableRDMAWrite: true})
			first, second := d.post(d.b, 16), d.post(d.b, 0)
			wire := d.links[1]
			sent := wire.tail
			d.send(d.a, 16)
			wire.tail = sent // lost
			data, lh := d.buffer(d.na, size, nil)
			for i := range data {
				data[i] = byte(i * 7)
			}
			w := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Unordered: unordered, HasImmediate: true, Immediate: 9,
				Segs: []vipl.Segment{{Data: data, Handle: lh}}, Remote: vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h}}
			if err := d.a.PostSend(w); err != nil {
				t.Fatal(err)
			}
			d.nb.Poll()
			if placed := bytes.Equal(buf, data); placed != unordered {
				t.Errorf("placed before what is before it: %v", placed)
			}
			if got, err := d.b.RecvDone(); got != nil || !errors.Is(err, vipl.ErrNotDone) {
				t.Fatalf("heard of before its turn: %v, %v", got, err)
			}
			got, err := d.b.RecvDone()
			for i := 0; got == nil && i < 100; i++ {
				d.run()
				got, err = d.b.RecvDone()
			}
			d.took(got, err, first, vipl.StatusOpReceive)
			got, err = d.b.RecvDone()
			d.took(got, err, second, vipl.StatusOpRemoteRDMAWrite|vipl.StatusImmediate)
			if !bytes.Equal(buf, data) || second.Immediate != 9 || second.Length != size {
				t.Errorf("%d bytes and %d arrived, or others", second.Length, second.Immediate)
			}
		})
	}
}

// TestUnorderedLevels: an unordered write arrives as any other does, on every level.
func TestUnorderedLevels(t *testing.T) {
	eachLevel(t, levels, func(t *testing.T, d *duo, _ reliability.Level) {
		buf, h := d.buffer(d.nb, 5000, &vipl.MemAttributes{EnableRDMAWrite: true})
		r := d.post(d.b, 0)
		data, lh := d.buffer(d.na, len(buf), nil)
		for i := range data {
			data[i] = byte(i * 7)
		}
		w := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Unordered: true, HasImmediate: true, Segs: []vipl.Segment{{Data: data, Handle: lh}},
			Remote: vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h}}
		if err := d.a.PostSend(w); err != nil {
			t.Fatal(err)
		}
		d.run()
		got, err := d.b.RecvDone()
		d.took(got, err, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusImmediate)
		if !bytes.Equal(buf, data) {
			t.Error("other data arrived")
		}
	})
}
