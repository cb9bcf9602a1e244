package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// lossyGoodput sends a message of size bytes over a 10 Gb/s segment that loses
// a share of the frames without need, and returns the goodput as a share of the
// line.
func lossyGoodput(seed uint64, loss float64, size int) (goodput float64, err error) {
	const line = 10e9
	opts := sim.Options{Seed: seed, MTU: 1500, Bandwidth: line, Jitter: 2 * time.Microsecond, Loss: loss}
	in := &inbox{count: 1, size: size, seed: seed}
	var begin, end int64
	err = pair(opts, nil, func(v *vipl.VI) error {
		driveFor(v.NIC(), time.Second) // the client may not know yet that it is connected
		begin = v.NIC().Now()
		return sendAll(v, 1, size, seed)
	}, in.post, func(v *vipl.VI) error {
		err := in.receive(v)
		end = v.NIC().Now()
		driveFor(v.NIC(), time.Second) // the last acknowledgement may be lost
		return err
	})
	return float64(size) * 8 / line * 1e9 / float64(end-begin), err
}

// TestGoodputUnderLoss wants most of the line for a stream over the whole
// stack when frames are lost that no queue was too full for.
func TestGoodputUnderLoss(t *testing.T) {
	const seeds, size = 3, 4 << 20
	for _, c := range []struct{ loss, least float64 }{{0, .9}, {.01, .8}, {.02, .7}, {.05, .55}} {
		t.Run(fmt.Sprint(c.loss), func(t *testing.T) {
			mean := 0.0
			for seed := range uint64(seeds) {
				goodput, err := lossyGoodput(seed+1, c.loss, size)
				if err != nil {
					t.Fatalf("seed %d: %v", seed+1, err)
				}
				mean += goodput / seeds
			}
			t.Logf("%.3f of the line", mean)
			if mean < c.least {
				t.Errorf("%.3f of the line, want %v", mean, c.least)
			}
		})
	}
}

// manySeeds is how many seeds CI runs each simulated survival test under.
const manySeeds = 500

// TestSurvive wants every reliable message exactly once, in order and intact,
// both ways at once, whatever the network does. The seed picks the level.
func TestSurvive(t *testing.T) {
	for _, c := range []struct {
		name string
		opts sim.Options
	}{
		{"Loss30", sim.Options{Loss: 0.3}},
		{"Corruption30", sim.Options{Corrupt: 0.3}},
		{"DuplicationReordering64", sim.Options{Dup: 0.2, Reorder: 0.3, ReorderBy: 64}},
		{"BurstLoss", sim.Options{Burst: sim.Burst{Enter: 0.05, Leave: 0.2, Loss: 0.7}, Jitter: 100 * time.Microsecond}},
		{"SlowShortQueues", sim.Options{Bandwidth: 100e6, Queue: 8, TxSlots: 4, RxSlots: 64}},
		{"Everything", sim.Options{Loss: 0.15, Corrupt: 0.1, Dup: 0.1, Reorder: 0.2, ReorderBy: 64, Jitter: 30 * time.Microsecond, Bandwidth: 1e9, Queue: 64, TxSlots: 16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seeds(t, manySeeds, func(seed uint64) error {
				opts := c.opts
				opts.Seed = seed
				opts.MTU = []int{1500, 400, 9000}[seed%3]
				attr := vipl.Attributes{Reliability: reliableLevels[seed%2], PeerTimeout: time.Minute}
				vis, big := 1+int(seed%4)/3, 0
				if seed%50 == 0 {
					big = 1 << 20
				}
				return converse(opts, attr, vis, 30, big)
			})
		})
	}
}

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

// TestLateAcknowledgement: a message that comes alone is handed over before the
// acknowledgement that came with it is processed; the send that it completes
// is nevertheless found complete by every call that asks.
func TestLateAcknowledgement(t *testing.T) {
	ask := map[string]func(v *vipl.VI) error{
		"SendDone": func(v *vipl.VI) error { _, err := v.SendDone(); return err },
		"SendWait": func(v *vipl.VI) error { _, err := v.SendWait(bg); return err },
		"Snapshot": func(v *vipl.VI) error {
			if n := v.Snapshot().SendsDone; n != 1 {
				t.Errorf("Snapshot: %d sends done, want 1", n)
			}
			return nil
		},
		"Disconnect": func(v *vipl.VI) error {
			if err := v.Disconnect(); err != nil {
				return err
			}
			_, err := v.SendDone() // completed, not flushed
			return err
		},
	}
	for name, call := range ask {
		t.Run(name, func(t *testing.T) {
			x, y := memVIs(t, 1500, reliability.ReliableDelivery)
			xin, _ := newBuffers(x.NIC(), 1, 64)
			yin, _ := newBuffers(y.NIC(), 1, 64)
			out, _ := newBuffers(x.NIC(), 1, 64)
			back, _ := newBuffers(y.NIC(), 1, 64)
			x.PostRecv(&xin.descs[0])
			y.PostRecv(&yin.descs[0])
			if err := x.PostSend(&out.descs[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := y.RecvDone(); err != nil {
				t.Fatal(err)
			}
			if err := y.PostSend(&back.descs[0]); err != nil { // carries the acknowledgement
				t.Fatal(err)
			}
			if _, err := x.RecvDone(); err != nil {
				t.Fatal(err)
			}
			if err := call(x); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSkippedMessage: a packed frame that comes in its turn and begins with
// another message than the next one ends the connection, whether its messages
// have room or not, and completes no receive. In particular none completes with
// the length of a message that was for another.
func TestSkippedMessage(t *testing.T) {
	posted := []int{16, 64, 256} // bytes, ascending: a message for a later receive does not fit an earlier one
	for _, c := range []struct {
		name  string
		skip  int
		sizes []int
		got   []int // messages that arrive
		cause error
	}{
		{"NoReceive", 1, []int{64, 256, 8}, nil, vipl.ErrProtocol},
		{"TooLong", 1, []int{64, 257}, nil, vipl.ErrProtocol},
		{"Fits", 1, []int{64, 256}, nil, vipl.ErrProtocol},
		{"Again", -1, []int{16, 16}, nil, vipl.ErrProtocol},
		{"BeyondAll", 3, []int{8, 8}, nil, vipl.ErrProtocol},
		{"InTurn_NoReceive", 0, []int{16, 64, 256, 8}, []int{16, 64, 256}, vipl.ErrRecvQueue},
		{"InTurn_TooLong", 0, []int{16, 65}, []int{16}, vipl.ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDuo(t, nil, nil)
			h := d.firstMessage()
			var in []*vipl.Descriptor
			for _, size := range posted {
				in = append(in, d.post(d.a, size))
			}
			h.Seq++
			h.Msg += ethertype.Seq(1 + c.skip)
			if n, _ := d.links[1].Send([]transport.Frame{{Head: packed(h, c.sizes)}}); n != 1 {
				t.Fatal("the wire is full")
			}
			d.na.Poll()
			for i, want := range in {
				got, err := d.a.RecvDone()
				switch {
				case got != want:
					t.Fatalf("receive %d: took %v (%v)", i, got, err)
				case i < len(c.got):
					if err != nil || int(got.Length) != c.got[i] {
						t.Errorf("receive %d: %d bytes, %v (%v), want %d bytes", i, got.Length, got.Status, err, c.got[i])
					}
				case err == nil || got.Length != 0:
					t.Errorf("receive %d of %d bytes completed with %d bytes, %v (%v), and no message was for it", i, posted[i], got.Length, got.Status, err)
				}
			}
			d.run()
			d.ended(c.cause)
		})
	}
}

// firstMessage sends a message from b to a and returns its frame's header.
func (d *duo) firstMessage() (h ethertype.Header) {
	d.t.Helper()
	in := d.post(d.a, 10)
	d.links[1].onSend = func(f []byte) {
		var x ethertype.Header
		if _, err := x.Parse(f); err == nil && x.Kind == ethertype.KindData {
			h = x
		}
	}
	d.send(d.b, 10)
	d.run()
	d.links[1].onSend = nil
	got, err := d.a.RecvDone()
	d.took(got, err, in, vipl.StatusOpReceive)
	return h
}

// packed returns a sealed frame like h with messages of the given sizes.
func packed(h ethertype.Header, sizes []int) []byte {
	h.Flags, h.Offset, h.Length, h.Size, h.Count = ethertype.FlagPacked, 0, 0, 0, uint16(len(sizes))
	for _, size := range sizes {
		h.Size += uint16(ethertype.Packed(size))
	}
	f := make([]byte, ethertype.HeaderSize+int(h.Size))
	h.Put(f)
	records := f[ethertype.HeaderSize:]
	for _, size := range sizes {
		ethertype.Record{Size: uint16(size)}.Put(records)
		records = records[ethertype.Packed(size):]
	}
	ethertype.Seal(f)
	return f
}
