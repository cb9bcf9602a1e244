package rdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/vipl"
)

// foe is a hostile rank, which says hello as it must. When the victim calls it, it begins to
// lie.
type foe struct {
	lie   func(f *layertest.Foe, m []byte) int
	send  func(f *layertest.Foe, d *vipl.Descriptor, heap vipl.RemoteSegment) // changes what lie has written; may be nil
	vis   *layertest.VIs
	said  bool
	lying bool
	heap  vipl.RemoteSegment // the victim's
}

func (a *foe) attack(f *layertest.Foe, c layer.Config) error {
	*a = foe{lie: a.lie, send: a.send}
	a.vis = &layertest.VIs{Layer: "rdma", Kinds: 1, Count: 1500, Next: a.next, Heap: true,
		Attrs: vipl.Attributes{EnableRDMARead: true, EnableRDMAWrite: true, ReadDepth: credits}}
	a.vis.Send = func(f *layertest.Foe, d *vipl.Descriptor) {
		if a.lying && a.send != nil {
			a.send(f, d, a.heap)
		}
	}
	return a.vis.Attack(f, c)
}

func (a *foe) next(f *layertest.Foe, _ int, heard, m []byte) int {
	le := binary.LittleEndian
	if len(heard) >= headerSize && heard[0] == kindHello {
		a.heap = vipl.RemoteSegment{Handle: vipl.MemHandle(le.Uint64(heard[8:])), Addr: le.Uint64(heard[16:])}
	}
	if !a.said {
		a.said = true
		h := header{kind: kindHello, a: uint64(a.vis.At.Handle), b: a.vis.At.Addr, c: layertest.FoeHeap}
		h.put(m, 0)
		return headerSize
	}
	a.lying = a.lying || len(heard) > 0 && heard[0] == kindCall
	if !a.lying {
		return 0
	}
	return a.lie(f, m)
}

// TestHostile: a rank says and writes anything, where it may and elsewhere.
func TestHostile(t *testing.T) {
	a := &foe{
		lie: func(f *layertest.Foe, m []byte) int {
			n := headerSize + f.RNG.IntN(layer.MaxControl)
			if f.RNG.IntN(20) == 0 {
				n = f.RNG.IntN(headerSize)
			}
			h := header{kind: uint8(f.RNG.IntN(kindControl + 2)), a: uint64(f.RNG.IntN(100)), b: f.RNG.Uint64() >> f.RNG.IntN(64), c: f.RNG.Uint64()}
			h.put(m, f.RNG.IntN(3))
			return n
		},
		send: func(f *layertest.Foe, d *vipl.Descriptor, heap vipl.RemoteSegment) {
			if f.RNG.IntN(3) == 0 {
				heap.Addr += uint64(f.RNG.IntN(layertest.FoeHeap + 10))
				d.Op, d.Remote, d.HasImmediate, d.Immediate = vipl.OpRDMAWrite, heap, true, uint32(f.RNG.IntN(layertest.FoeHeap+2000))
			}
		},
	}
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: Open, Attack: a.attack, MaxControl: layer.MaxControl})
}

// TestForgedLength: a store's immediate data say more bytes than the heap has. None are
// counted, and its rank is to blame.
func TestForgedLength(t *testing.T) {
	a := &foe{
		lie: func(_ *layertest.Foe, _ []byte) int { return 8 },
		send: func(_ *layertest.Foe, d *vipl.Descriptor, heap vipl.RemoteSegment) {
			d.Op, d.Remote, d.HasImmediate, d.Immediate = vipl.OpRDMAWrite, heap, true, layertest.FoeHeap+1
		},
	}
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: Open, Attack: a.attack, MaxControl: layer.MaxControl, Check: func(l layer.Layer) error {
		if s := l.Stats(); l.Counters().Stored != 0 || s.Strays == 0 {
			return fmt.Errorf("%d bytes were counted, %d messages refused", l.Counters().Stored, s.Strays)
		}
		return nil
	}})
}

// TestNoCreditsBack: a rank calls for procedures, and never says that it has taken a
// result. No more of them are kept for it than maxOwed.
func TestNoCreditsBack(t *testing.T) {
	a := &foe{lie: func(_ *layertest.Foe, m []byte) int {
		h := header{kind: kindCall, a: 1, b: 1}
		h.put(m, 0)
		return headerSize + 8
	}}
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: Open, Attack: a.attack, MaxControl: layer.MaxControl, Check: func(l layer.Layer) error {
		if n := len(l.(*Layer).peers[1].owed); n > maxOwed {
			return fmt.Errorf("%d results are kept for a rank that takes none, want %d at the most", n, maxOwed)
		}
		if l.Stats().Strays == 0 {
			return errors.New("the rank is not found to be one")
		}
		return nil
	}})
}

// above is the side above, which wants no more than a layer promises.
type above struct{ tooLong, calls, controls int }

func (a *above) Call(_ int, _ uint32, args, result []byte) int {
	if a.calls++; len(args) > layer.MaxCall {
		a.tooLong++
	}
	return copy(result, args)
}

func (a *above) Control(_ int, msg []byte) {
	if a.controls++; len(msg) > layer.MaxControl {
		a.tooLong++
	}
}

// TestMillionMutated: a million messages, each right but for a few bytes or its length. The
// owner does what they say or finds them garbled; its heap and what lies beside the results
// of calls do not change, the count of operations stays right, and no more results and
// credits are kept for the other rank than it may have.
func TestMillionMutated(t *testing.T) {
	const heap, margin, mostCalls = 8192, 64, 16
	rounds := 1_000_000
	if !need.Full() {
		rounds = 50_000
	}
	rng := rand.New(rand.NewPCG(9, 10))
	up := new(above)
	l := &Layer{Base: mesh.Base{Config: layer.Config{Handler: up}, Memory: bytes.Repeat([]byte{0xa5}, heap)}}
	p := &peer{size: heap}
	results := bytes.Repeat([]byte{0x5a}, layer.MaxCall+2*margin)
	m := make([]byte, messageSize)
	good, garbled, ended := 0, 0, 0
	for range rounds {
		if l.Count.Outstanding < mostCalls {
			l.calls.begin(p, results[margin:][:layer.MaxCall])
			l.Count.Outstanding++
		}
		was := l.Count.Outstanding
		if l.heard(p, mutated(rng, m, mostCalls)) {
			good++
		} else {
			garbled++
		}
		ended += was - l.Count.Outstanding
		if l.Count.Outstanding < 0 || len(p.owed) > maxOwed || p.credit > credits || p.credit < 0 {
			t.Fatalf("%d operations are outstanding, %d results kept, %d credits", l.Count.Outstanding, len(p.owed), p.credit)
		}
		if len(p.owed) == maxOwed || rng.IntN(8) == 0 {
			p.owed, p.credit = p.owed[:0], 0
		}
	}
	if len(bytes.Trim(l.Memory, "\xa5")) != 0 {
		t.Error("the heap has changed")
	}
	if len(bytes.Trim(results[:margin], "\x5a")) != 0 || len(bytes.Trim(results[margin+layer.MaxCall:], "\x5a")) != 0 {
		t.Error("memory beside the results of calls has changed")
	}
	if up.tooLong > 0 || up.calls == 0 || up.controls == 0 || good == 0 || garbled == 0 || ended == 0 {
		t.Errorf("%+v, %d good, %d garbled, %d calls ended: want some of each, and none too long", *up, good, garbled, ended)
	}
}

// mutated writes a message into b, and changes up to three of its bytes, and at times its
// length.
func mutated(rng *rand.Rand, b []byte, calls int) []byte {
	h := header{kind: uint8(kindHello + rng.IntN(kindControl)), b: uint64(rng.IntN(5))}
	h.a = uint64(rng.IntN(calls)) | uint64(1+rng.IntN(3))<<32
	h.put(b, rng.IntN(2))
	n := headerSize + rng.IntN(layer.MaxCall+1)
	return mutant.Bend(rng, b, n)
}
