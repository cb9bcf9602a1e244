package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/safchain/ethtool"
)

// TestLongBlackHole: a path that has carried long frames stops to in the midst of
// messages of all kinds. They arrive all the same, soon, and those behind them in frames
// of the MTU; when it carries long frames again they are used again.
func TestLongBlackHole(t *testing.T) {
	rounds := 3
	if !need.Full() { // the race detector has nothing to find where one goroutine drives both ends
		rounds = 1
	}
	for _, level := range reliableLevels {
		for _, kind := range []string{"Messages", "Packed", "Write", "Read"} {
			t.Run(fmt.Sprint(level, kind), func(t *testing.T) {
				d := newLongDuo(t, [2]bool{}, openTo(level))
				d.exchange(3000)
				if !d.a.Wide() || !d.b.Wide() {
					t.Fatal("no long frames to begin with")
				}
				for round := range rounds {
					d.long[0].opaque, d.long[1].opaque = true, true
					start := *d.links[0].clock
					d.underWay(kind)
					if took := time.Duration(*d.links[0].clock - start); took > time.Second {
						t.Errorf("round %d: what was under way took %v", round, took)
					}
					if sender := map[bool]*vipl.VI{false: d.b, true: d.a}[kind == "Read"]; sender.Wide() {
						t.Errorf("round %d: long frames are sent into a black hole", round)
					}
					d.patience = 6000 // times 100 us
					d.exchange(3000, 20_000)
					d.patience = 0
					d.long[0].opaque, d.long[1].opaque = false, false
					for end := *d.links[0].clock + int64(30*time.Second); *d.links[0].clock < end && !(d.a.Wide() && d.b.Wide()); {
						*d.links[0].clock += int64(50 * time.Millisecond)
						d.run()
					}
					if !d.a.Wide() || !d.b.Wide() {
						t.Fatalf("round %d: long frames are not used again: %v %v", round, d.a.Wide(), d.b.Wide())
					}
					d.exchange(3000)
				}
			})
		}
	}
}

// TestLongProbeLost: when the probes of the handshake that ask for long frames are lost, it is asked again.
func TestLongProbeLost(t *testing.T) {
	for _, level := range reliableLevels {
		d := newLongDuo(t, [2]bool{true, false}, openTo(level))
		d.long[0].opaque = false
		for end := *d.links[0].clock + int64(time.Second); *d.links[0].clock < end; {
			*d.links[0].clock += int64(50 * time.Millisecond)
			d.run()
		}
		if d.exchange(3000); !d.a.Wide() || !d.b.Wide() {
			t.Errorf("%v: long frames are sent: %t, %t", level, d.a.Wide(), d.b.Wide())
		}
	}
}

// underWay has b begin several operations of a kind before a learns anything, and wants
// them to be done.
func (d *duo) underWay(kind string) {
	d.t.Helper()
	const count, size = 6, 9000
	allow := &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}
	var in, out [count][]byte
	var sent [count]*vipl.Descriptor
	for i := range count {
		n := size
		if kind == "Packed" {
			n = 400
		}
		var inH, outH vipl.MemHandle
		in[i], inH = d.buffer(d.na, n, allow)
		out[i], outH = d.buffer(d.nb, n, nil)
		content(uint64(i), n, out[i])
		s := &vipl.Descriptor{Segs: []vipl.Segment{{Data: out[i], Handle: outH}}}
		switch kind {
		case "Write":
			s.Op, s.Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: vipl.VirtualAddress(in[i]), Handle: inH}
		case "Read":
			content(uint64(i), n, in[i])
			clear(out[i])
			s.Op, s.Remote = vipl.OpRDMARead, vipl.RemoteSegment{Addr: vipl.VirtualAddress(in[i]), Handle: inH}
		default:
			if err := d.a.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: in[i], Handle: inH}}}); err != nil {
				d.t.Fatal(err)
			}
		}
		if err := d.b.PostSend(s); err != nil {
			d.t.Fatal(err)
		}
		sent[i] = s
	}
	done := 0
	for range 100_000 {
		d.nb.Poll()
		d.na.Poll()
		*d.links[0].clock += 10_000
		if s, err := d.b.SendDone(); err == nil {
			if s != sent[done] {
				d.t.Fatal("out of order")
			}
			done++
		} else if errors.Is(err, vipl.ErrDescriptor) || done == count {
			break
		}
	}
	for i := range count {
		if done != count || !bytes.Equal(in[i], out[i]) {
			d.t.Fatalf("%d of %d are done; number %d is intact: %v; %v, %v", done, count, i, bytes.Equal(in[i], out[i]), d.a.Err(), d.b.Err())
		}
	}
	if kind == "Messages" || kind == "Packed" {
		for range count {
			d.run()
			if _, err := d.a.RecvDone(); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

// TestLongPathLoss: a path on which many frames are lost, long ones too, is no black
// hole for long.
func TestLongPathLoss(t *testing.T) {
	d := newLongDuo(t, [2]bool{}, openTo(reliability.ReliableDelivery))
	for i := range d.long {
		d.long[i].clumsy = 3
	}
	d.patience = 60
	for range 10 {
		d.exchange(longSizes...)
	}
	if !d.a.Wide() || !d.b.Wide() {
		t.Error(d.a.Wide(), d.b.Wide())
	}
}

// TestLongOffloadsOff switches the offloads of both ends of a veth off in the midst of a
// stream: the kernel then cuts long frames up, which nobody can use. The stream goes on.
func TestLongOffloadsOff(t *testing.T) {
	p := vethtest.New(t, 1500)
	var nics [2]*vipl.NIC
	for side := range nics {
		nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name})
	}
	s := startStream(t, nics, nil)
	if !s.a.Wide() {
		t.Fatal("no long frames to begin with")
	}
	for side := range nics {
		if err := p.In(side, func() error {
			e, err := ethtool.NewEthtool()
			if err != nil {
				return err
			}
			defer e.Close()
			return e.Change(vethtest.Name, map[string]bool{"tx-tcp-segmentation": false, "tx-generic-segmentation": false, "tx-scatter-gather": false})
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.flows(t)
	s.flows(t)
	if s.a.Snapshot().FrameData > 1500 {
		t.Error("it sends long frames")
	}
}
