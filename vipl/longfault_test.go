package vipl_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/transport/trace"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestFaultyLong sends 100 MB each way at the same time in long frames, the default
// on veth, while 2 % of the frames are lost, doubled and reordered each, between
// NICs of which one has the faults on its way in.
func TestFaultyLong(t *testing.T) {
	const size = 1 << 20
	count := 96
	if !need.Full() {
		count = 8
	}
	for _, level := range reliableLevels {
		t.Run(level.String(), func(t *testing.T) {
			o := fault.Options{Drop: 0.02, Dup: 0.02, Reorder: 0.02}
			nics := vethNICs(t, 1500, vipl.Config{}, func(side int, l transport.Link) transport.Link {
				o := o
				o.Seed = uint64(side) + 1
				if side == 1 {
					o.Dir = fault.Both
				}
				return fault.New(l, o)
			})
			a, b := join(t, nics, &vipl.Attributes{Reliability: level})
			widen(t, a, b)
			there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
			within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
			if t.Failed() {
				return
			}
			least := uint64(count * size / framing.LongMTU / 2)
			for side, v := range []*vipl.VI{a, b} {
				if n := nics[side].Fetched(); !v.Wide() || n < least {
					t.Errorf("side %d: %d frames went straight to where they belong, want %d; long frames: %t", side, n, least, v.Wide())
				}
				if v.Snapshot().Retransmits == 0 || nics[side].Snapshot().Link.Faults == 0 {
					t.Errorf("side %d has sent nothing again: there were no faults", side)
				}
			}
		})
	}
}

// widen waits until the side that has asked the other to connect knows that the path carries long
// frames. Faults can lose the probe that asks, which goes again after half a second at first.
func widen(t *testing.T, a, b *vipl.VI) {
	within(t, "a probe as long as a long frame", func() error {
		for !a.Wide() && !b.Wide() {
			runtime.Gosched()
		}
		return nil
	})
}

// TestCorruptLong: a link that corrupts frames, though it has long ones, gives the NIC
// none: their CRC leaves the data out.
func TestCorruptLong(t *testing.T) {
	nics := vethNICs(t, 1500, vipl.Config{}, func(_ int, l transport.Link) transport.Link {
		return fault.New(l, fault.Options{Seed: 1, Corrupt: 0.02})
	})
	a, b := join(t, nics, nil)
	there := newFlow(t, a, b, 4, 1<<20, 1)
	within(t, "the transfer", func() error { return all(there.send, there.receive) })
	if a.Wide() || b.Wide() || nics[1].Fetched() > 0 {
		t.Error("long frames are sent:", a.Wide(), b.Wide())
	}
}

// TestSealedLong: sealed, long frames are used on links that corrupt them, too: those that were changed
// count as lost, whether the data are decrypted to where they belong at once (side 0), or the link within
// gives so little of a frame that all of it is fetched first (side 1).
func TestSealedLong(t *testing.T) {
	const count, size = 24, 1 << 20
	nics := vethNICs(t, 1500, vipl.Config{Key: seal.Fixed(sealKey(1))}, func(side int, l transport.Link) transport.Link {
		o := fault.Options{Drop: 0.01, Dup: 0.01, Reorder: 0.01, Corrupt: 0.02, Seed: uint64(side) + 1}
		if side == 1 {
			o.Dir = fault.Both
		}
		return fault.New(l, o)
	})
	a, b := join(t, nics, nil)
	widen(t, a, b)
	there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
	within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
	const least = count * size / framing.LongMTU / 2
	for side, v := range []*vipl.VI{a, b} {
		s, _ := nics[side].SealStats()
		if n := nics[side].Fetched(); !v.Wide() || n < least || s.Altered == 0 {
			t.Errorf("side %d: %d frames went straight to where they belong, want %d; long frames: %t; %d were changed", side, n, least, v.Wide(), s.Altered)
		}
	}
}

// TestCapturedLong: to write down what passes changes nothing of what is sent, long
// frames included.
func TestCapturedLong(t *testing.T) {
	for name, wrap := range map[string]func(transport.Link) transport.Link{
		"trace": func(l transport.Link) transport.Link { return trace.New(l, io.Discard) },
		"pcap":  func(l transport.Link) transport.Link { return pcap.New(l, io.Discard) },
	} {
		t.Run(name, func(t *testing.T) {
			const count, size = 8, 1 << 20
			nics := vethNICs(t, 1500, vipl.Config{}, func(_ int, l transport.Link) transport.Link { return wrap(l) })
			a, b := join(t, nics, nil)
			there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
			within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
			const least = count * size / framing.LongMTU / 2
			for side, v := range []*vipl.VI{a, b} {
				if n := nics[side].Fetched(); !v.Wide() || n < least {
					t.Errorf("side %d: %d frames went straight to where they belong, want %d; long frames: %t", side, n, least, v.Wide())
				}
			}
		})
	}
}
