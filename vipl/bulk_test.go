package vipl_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// stream sends count messages of size bytes from b to a, by send or by RDMA
// write, checks each, and returns how many frames of them a has received where
// they belong.
func (d *duo) stream(count, size int, rdma bool) (hits uint64) {
	d.t.Helper()
	before := d.na.BulkHits()
	region, h := d.buffer(d.na, size, &vipl.MemAttributes{EnableRDMAWrite: true})
	out, outH := d.buffer(d.nb, size, nil)
	for i := range uint64(count) {
		content(i, 0, out)
		in := &vipl.Descriptor{Segs: []vipl.Segment{{Data: region, Handle: h}}}
		if err := d.a.PostRecv(in); err != nil {
			d.t.Fatal(err)
		}
		s := &vipl.Descriptor{Segs: []vipl.Segment{{Data: out, Handle: outH}}}
		if rdma {
			s.Op, s.HasImmediate, s.Immediate = vipl.OpRDMAWrite, true, uint32(i)
			s.Remote = vipl.RemoteSegment{Addr: vipl.VirtualAddress(region), Handle: h}
		}
		if err := d.b.PostSend(s); err != nil {
			d.t.Fatal(err)
		}
		d.run()
		if got, err := d.a.RecvDone(); got != in || err != nil {
			d.t.Fatalf("message %d: %v, %v", i, got, err)
		}
		if !bytes.Equal(region, out) {
			d.t.Fatalf("message %d is not intact", i)
		}
		d.b.SendDone()
	}
	return d.na.BulkHits() - before
}

// TestBulkHits: in a stream of long messages nearly every frame is received
// where it belongs; short messages do not take part.
func TestBulkHits(t *testing.T) {
	for _, level := range reliableLevels {
		for _, rdma := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/rdma=%v", level, rdma), func(t *testing.T) {
				attr := &vipl.Attributes{Reliability: level, EnableRDMAWrite: true}
				d := newBulkDuo(t, attr, attr)
				const count, size = 20, 100_000
				frames := uint64(count * size / (1500 - ethertype.BaseSize))
				if rdma { // the memory that a write goes to holds something all the time
					frames = 0
				}
				if hits := d.stream(count, size, rdma); hits < frames*8/10 || hits > frames*11/10 {
					t.Errorf("%d of about %d frames were received where they belong", hits, frames)
				}
				if hits := d.stream(count, 900, rdma); hits != 0 {
					t.Errorf("%d frames of short messages", hits)
				}
			})
		}
	}
}

// TestBulkTwoSenders interleaves two streams of long messages to one NIC, so
// that every other guess is wrong.
func TestBulkTwoSenders(t *testing.T) {
	d := newBulkDuo(t, nil, nil)
	other := &duo{t: t, links: d.links, na: d.na, nb: d.nb}
	other.a, _ = d.na.CreateVI(nil, nil, nil)
	other.b, _ = d.nb.CreateVI(nil, nil, nil)
	other.connect()
	const size = 50_000
	var in, out [2]*vipl.Descriptor
	for round := range uint64(20) {
		for i, x := range []*duo{d, other} {
			in[i] = x.post(x.a, size)
			buf, h := x.buffer(x.nb, size, nil)
			content(round, i, buf)
			out[i] = &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
			if err := x.b.PostSend(out[i]); err != nil {
				t.Fatal(err)
			}
		}
		d.run()
		for i, x := range []*duo{d, other} {
			got, err := x.a.RecvDone()
			x.took(got, err, in[i], vipl.StatusOpReceive)
			if !bytes.Equal(in[i].Segs[0].Data, out[i].Segs[0].Data) {
				t.Fatalf("round %d: message %d is not intact", round, i)
			}
			x.b.SendDone()
		}
	}
}

// TestBulkSegments receives into segments that cut across frames: a guess needs
// one piece, so those frames are copied.
func TestBulkSegments(t *testing.T) {
	d := newBulkDuo(t, nil, nil)
	buf, h := d.buffer(d.na, 60_000, nil)
	var segs []vipl.Segment
	for at := 0; at < len(buf); {
		size := min(1+at%4999+at/5+1000, len(buf)-at)
		segs = append(segs, vipl.Segment{Data: buf[at : at+size], Handle: h})
		at += size
	}
	if len(segs) > vipl.MaxSegments {
		t.Fatal(len(segs), "segments")
	}
	in := &vipl.Descriptor{Segs: segs}
	if err := d.a.PostRecv(in); err != nil {
		t.Fatal(err)
	}
	out, outH := d.buffer(d.nb, len(buf), nil)
	content(1, 1, out)
	d.b.PostSend(&vipl.Descriptor{Segs: []vipl.Segment{{Data: out, Handle: outH}}})
	d.run()
	got, err := d.a.RecvDone()
	d.took(got, err, in, vipl.StatusOpReceive)
	if !bytes.Equal(buf, out) {
		t.Error("the message is not intact")
	}
	if hits := d.na.BulkHits(); hits == 0 || hits > 40 {
		t.Errorf("%d frames were received where they belong; 41 make the message", hits)
	}
}

// TestBulkNotAgreed: whole-frame CRCs and the unreliable level go without.
func TestBulkNotAgreed(t *testing.T) {
	for name, attr := range map[string]*vipl.Attributes{
		"WholeCRC":   {WholeCRC: true},
		"Unreliable": {Reliability: reliability.Unreliable},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBulkDuo(t, attr, attr)
			if hits := d.stream(3, 20_000, false); hits != 0 {
				t.Errorf("%d frames were received where they belong", hits)
			}
		})
	}
}
