package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestPackedSizes sends messages of every length around those at which packing
// changes its way, in one to a few segments, some with immediate data, over a
// network that loses frames, so that packed ones are built more than once.
func TestPackedSizes(t *testing.T) {
	const count = 300
	seeds(t, 60, func(seed uint64) error {
		mtu := []int{1500, 9000, 65535}[seed%3]
		return pair(sim.Options{Seed: seed, MTU: mtu, Loss: 0.05, Delay: 5 * time.Microsecond}, &vipl.Attributes{Reliability: reliableLevels[seed/3%2], QueueDepth: count},
			func(v *vipl.VI) error { return receiveMixed(v, seed, count) },
			func(v *vipl.VI) error { return v.PostRecv(&vipl.Descriptor{}) },
			func(v *vipl.VI) error { return sendMixed(v, seed, count) })
	})
}

// mixed returns how message i of a seed is sent.
func mixed(seed uint64, i int) (size, segments int, immediate bool) {
	rng := rand.New(rand.NewPCG(seed, uint64(i)))
	edges := []int{0, 1, 7, 8, 64, 256, 257, 600, 1023, 1024, 1025, 1400, 2000, 4095, 4096, 5000, 9000, 20000}
	return edges[rng.IntN(len(edges))], 1 + rng.IntN(vipl.MaxSegments), rng.IntN(4) == 0
}

func receiveMixed(v *vipl.VI, seed uint64, count int) error {
	in, err := newBuffers(v.NIC(), count, 20000)
	if err != nil {
		return err
	}
	for i := range in.descs {
		if err := v.PostRecv(&in.descs[i]); err != nil {
			return err
		}
	}
	if err := sayReady(v); err != nil {
		return err
	}
	for i := range count {
		d, err := v.RecvWait(bg)
		if err != nil {
			return fmt.Errorf("receive %d: %w (%v)", i, err, v.Err())
		}
		size, _, immediate := mixed(seed, i)
		if int(d.Length) != size || d.HasImmediate != immediate || immediate && d.Immediate != uint32(i) {
			return fmt.Errorf("message %d: %d bytes, immediate %v %d; want %d, %v", i, d.Length, d.HasImmediate, d.Immediate, size, immediate)
		}
		if err := check(seed, i, d.Segs[0].Data[:size]); err != nil {
			return err
		}
	}
	return nil
}

// sayReady sends an empty message.
func sayReady(v *vipl.VI) error {
	if err := v.PostSend(&vipl.Descriptor{}); err != nil {
		return err
	}
	_, err := v.SendWait(bg)
	return err
}

func sendMixed(v *vipl.VI, seed uint64, count int) error {
	if _, err := v.RecvWait(bg); err != nil { // the receives are posted
		return err
	}
	for i := range count {
		size, segments, immediate := mixed(seed, i)
		out, err := newBuffers(v.NIC(), 1, size)
		if err != nil {
			return err
		}
		d := &out.descs[0]
		content(seed, i, d.Segs[0].Data[:size])
		d.Segs = d.Segs[:0]
		for k := range segments {
			from, to := size*k/segments, size*(k+1)/segments
			d.Segs = append(d.Segs, vipl.Segment{Data: out.mem[from:to], Handle: out.h})
		}
		d.HasImmediate, d.Immediate = immediate, uint32(i)
		if err := v.PostSend(d); err != nil {
			return err
		}
	}
	return drain(v)
}

// TestPackedFrames counts the frames of a stream of messages that are posted
// while others are under way.
func TestPackedFrames(t *testing.T) {
	for _, tt := range []struct{ mtu, size, posted, frames int }{
		{1500, 64, 80, 4},     // 20 to a frame, and four frames wait
		{1500, 600, 8, 4},     // two to a frame
		{65535, 64, 112, 2},   // 56 fill a slot; short ones are copied always
		{1500, 1400, 5, 5},    // none fits with another
		{1500, 2000, 2, 4},    // longer than a frame: nothing waits
		{9000, 4096, 6, 3},    // by reference, three frames wait
		{65535, 4096, 15, 1},  // long frames go one by one
		{65535, 1024, 40, 3},  // 19 to a frame: three copied, and as many parts as it may have
		{65535, 30000, 4, 2},  // two to a frame
		{65535, 65000, 3, 3},  // one
		{65535, 100000, 1, 2}, // longer than a frame
	} {
		t.Run(fmt.Sprintf("mtu=%d,size=%d", tt.mtu, tt.size), func(t *testing.T) {
			a, link, out := packedStream(t, tt.mtu, tt.size, tt.posted+2)
			for i := range out.descs {
				if i == 2 { // two are under way, so that others are corked
					link.frames = 0
				}
				if err := a.PostSend(&out.descs[i]); err != nil {
					t.Fatal(err)
				}
			}
			a.Flush()
			if link.frames != uint64(tt.frames) {
				t.Errorf("%d messages of %d bytes took %d frames, want %d", tt.posted, tt.size, link.frames, tt.frames)
			}
		})
	}
}

// packedStream returns a VI that has count messages to send, the link they leave by,
// and the messages; the peer has posted receives for them.
func packedStream(t *testing.T, mtu, size, count int) (*vipl.VI, *memLink, *buffers) {
	d := &duo{t: t}
	d.links[0], d.links[1] = memPair(mtu)
	d.na, d.nb = d.open(0), d.open(1)
	d.a, _ = d.na.CreateVI(nil, nil, nil)
	d.b, _ = d.nb.CreateVI(nil, nil, nil)
	d.connect()
	out, _ := newBuffers(d.na, count, size)
	for range count {
		d.post(d.b, size)
	}
	return d.a, d.links[0], out
}

// TestPackedWaits: what is corked goes when nothing else is posted, by the
// next poll, and a full load goes without one.
func TestPackedWaits(t *testing.T) {
	a, link, out := packedStream(t, 9000, 4096, 9)
	var sent []uint64
	for i := range 8 {
		if err := a.PostSend(&out.descs[i]); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, link.frames)
	}
	first := sent[0]
	for i, want := range []uint64{0, 1, 1, 1, 1, 1, 1, 4} { // two alone, then three frames of two
		if sent[i]-first != want {
			t.Errorf("after %d messages %d frames have gone, want %d: %v", i+1, sent[i]-first, want, sent)
			break
		}
	}
	if err := a.PostSend(&out.descs[8]); err != nil {
		t.Fatal(err)
	}
	before := link.frames
	if _, err := a.SendDone(); err != nil && err != vipl.ErrNotDone {
		t.Fatal(err)
	}
	if link.frames != before+1 {
		t.Errorf("a poll sent %d frames, want 1", link.frames-before)
	}
}

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
