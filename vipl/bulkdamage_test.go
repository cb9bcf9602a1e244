package vipl_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
)

// damager is a link that changes some of the frames that it sends, and says that
// something below finds it, as Ethernet's check sequence does on the wire.
type damager struct {
	transport.Link
	rng    *rand.Rand
	damage func(rng *rand.Rand, f []byte) bool // changes f, or leaves it alone
	count  uint64                              // frames changed; for when nothing is sent any more
	bulk   uint64                              // frames that were marked as bulk
	frame  []byte
}

func (d *damager) Send(frames []transport.Frame) (n int, err error) {
	for i := range frames {
		d.frame = frames[i].AppendTo(d.frame[:0])
		bulk := frameFlags(d.frame)&ethertype.FlagBulk != 0
		changed := d.rng.IntN(20) == 0 && d.damage(d.rng, d.frame)
		if n, err := d.Link.Send([]transport.Frame{{Head: d.frame}}); n == 0 {
			return i, err
		}
		if changed {
			d.count++
		}
		if bulk {
			d.bulk++
		}
	}
	return len(frames), nil
}

// flip changes one to four bits of f.
func flip(rng *rand.Rand, f []byte) {
	first := rng.IntN(8 * len(f))
	f[first/8] ^= 1 << (first % 8)
	for range rng.IntN(4) {
		if bit := rng.IntN(8 * len(f)); bit != first {
			f[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// damageHeader flips bits in the header of a bulk frame, where the kernel's filters
// do not look: behind the version, and not in the port.
func damageHeader(rng *rand.Rand, f []byte) bool {
	if frameFlags(f)&ethertype.FlagBulk == 0 {
		return false
	}
	if rng.IntN(10) == 0 {
		flip(rng, f[ethertype.EthernetSize+1:ethertype.OffsetDstPort])
	} else {
		flip(rng, f[ethertype.OffsetSrcPort:ethertype.HeaderSize])
	}
	return true
}

// damagePayload flips bits in the payload of a frame of a message.
func damagePayload(rng *rand.Rand, f []byte) bool {
	var h ethertype.Header
	payload, err := h.Parse(f)
	if err != nil || h.Kind != ethertype.KindData || len(payload) == 0 {
		return false
	}
	flip(rng, payload)
	return true
}

// bulkNICs opens NICs over a veth of MTU 9000 whose links receive bulk frames apart,
// but for the second one, around which wrap puts something.
func bulkNICs(t *testing.T, wrap func(l transport.Link) transport.Link) [2]*vipl.NIC {
	t.Helper()
	open := opener(overVeth(9000, [2]int{0, 1}, openBulk)(t))
	return open.nics(t, vipl.Config{}, func(side int, l transport.Link) transport.Link {
		if side == 0 {
			return l
		}
		return wrap(l)
	})
}

// damagedStreams sends long messages from b to a into fenced buffers, and as many
// back, and wants all of them whole.
func damagedStreams(t *testing.T, a, b *vipl.VI) {
	t.Helper()
	const size = 1 << 20
	count := 24
	if testing.Short() {
		count = 8
	}
	there, back := newFlow(t, a, b, count/4, size, 1), &flow{from: b, to: a, count: count, size: size, seed: 2, credits: make(chan struct{}, count+flowDepth)}
	in, err := newFenced(a.NIC(), flowDepth, size)
	if err != nil {
		t.Fatal(err)
	}
	back.in = in.buffers
	for i := range in.descs {
		if err := a.PostRecv(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
		back.credits <- struct{}{}
	}
	within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
	if err := in.intact(); err != nil {
		t.Error(err)
	}
}

// refused returns how many frames a NIC has dropped for what Parse finds wrong, and
// how many its link has lost.
func refused(n *vipl.NIC) (dropped, lost uint64) {
	s := n.Snapshot()
	for _, why := range []vipl.Drop{vipl.DropShort, vipl.DropFormat, vipl.DropCRC, vipl.DropRange} {
		dropped += s.Dropped[why]
	}
	return dropped, s.Link.RxDrops
}

// TestBulkHeadersDamaged damages the headers of bulk frames, of which the kernel has
// placed the payload before anybody looks at the header. Each is dropped and counted,
// and the messages come whole.
func TestBulkHeadersDamaged(t *testing.T) {
	for _, level := range reliableLevels {
		t.Run(level.String(), func(t *testing.T) {
			d := &damager{rng: rand.New(rand.NewPCG(1, 1)), damage: damageHeader}
			nics := bulkNICs(t, func(l transport.Link) transport.Link { d.Link = l; return d })
			a, b := join(t, nics, &vipl.Attributes{Reliability: level})
			damagedStreams(t, a, b)
			hits := nics[0].Snapshot().Engine.BulkHits
			if err := errors.Join(b.Close(), nics[1].Close()); err != nil {
				t.Fatal(err)
			}
			nics[0].Poll()
			if dropped, lost := refused(nics[0]); dropped > d.count || dropped+lost < d.count {
				t.Errorf("of %d damaged frames %d were dropped and at most %d lost: %v", d.count, dropped, lost, nics[0].Snapshot().Dropped)
			}
			if d.count < 20 || hits < 20 {
				t.Errorf("%d of %d bulk frames were damaged, %d received where they belong: the test tests nothing", d.count, d.bulk, hits)
			}
		})
	}
}

// TestBulkWholeCRC damages payloads, of which bulk frames have no CRC, on links that
// could receive them apart. Where either side asks for the CRC over whole frames, or
// the link of one is unprotected, no frame is marked as bulk, each damaged one is
// dropped, and the messages come whole, both ways.
func TestBulkWholeCRC(t *testing.T) {
	for name, asks := range map[string][2]bool{"Receiver": {true, false}, "Sender": {false, true}} {
		t.Run(name, func(t *testing.T) {
			d := &damager{rng: rand.New(rand.NewPCG(1, 2)), damage: damagePayload}
			nics := bulkNICs(t, func(l transport.Link) transport.Link { d.Link = l; return d })
			a, b := connectedAs(t, nics, asks)
			damagedStreams(t, a, b)
			if err := errors.Join(b.Close(), nics[1].Close()); err != nil {
				t.Fatal(err)
			}
			nics[0].Poll()
			dropped, lost := refused(nics[0])
			if d.count < 20 || dropped > d.count || dropped+lost < d.count {
				t.Errorf("of %d damaged frames %d were dropped and at most %d lost", d.count, dropped, lost)
			}
			if hits := nics[0].BulkHits(); d.bulk > 0 || hits > 0 {
				t.Errorf("%d frames were sent as bulk, %d received where they belong", d.bulk, hits)
			}
		})
	}
	t.Run("Unprotected", func(t *testing.T) {
		nics := bulkNICs(t, func(l transport.Link) transport.Link {
			return fault.New(l, fault.Options{Seed: 3, Corrupt: 0.05})
		})
		a, b := connectedAs(t, nics, [2]bool{})
		damagedStreams(t, a, b)
		if dropped, _ := refused(nics[0]); dropped < 20 || nics[0].BulkHits() > 0 {
			t.Errorf("%d frames were dropped, %d received where they belong", dropped, nics[0].BulkHits())
		}
	})
}

// connectedAs connects VIs of which some ask for the CRC over whole frames.
func connectedAs(t *testing.T, nics [2]*vipl.NIC, asks [2]bool) (a, b *vipl.VI) {
	t.Helper()
	var vis [2]*vipl.VI
	for i, n := range nics {
		var err error
		attr := &vipl.Attributes{Reliability: reliability.ReliableDelivery, WholeCRC: asks[i], PeerTimeout: 5 * time.Second}
		if vis[i], err = n.CreateVI(attr, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	l, err := nics[0].Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	within(t, "connecting", func() error {
		return all(func() error { return vis[1].Connect(bg, l.Addr(), nil) }, func() error {
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			return r.Accept(bg, vis[0])
		})
	})
	return vis[0], vis[1]
}
