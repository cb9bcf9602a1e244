package seal

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
)

// guarded is memory for the parts of a frame, with bytes before, between and behind them that
// nobody may touch.
type guarded struct {
	all   []byte
	parts [][]byte
}

const (
	guardByte = 0xa5
	guardSize = 64
)

func newGuarded(sizes ...int) *guarded {
	n := guardSize
	for _, size := range sizes {
		n += size + guardSize
	}
	g := &guarded{all: bytes.Repeat([]byte{guardByte}, n)}
	at := guardSize
	for _, size := range sizes {
		g.parts = append(g.parts, g.all[at:at+size]) // up to the end of all, as cap says
		at += size + guardSize
	}
	return g
}

// intact reports whether what lies around the parts is as it was.
func (g *guarded) intact() bool {
	around := bytes.Clone(g.all)
	at := guardSize
	for _, p := range g.parts {
		for i := range p {
			around[at+i] = guardByte
		}
		at += len(p) + guardSize
	}
	return bytes.Count(around, []byte{guardByte}) == len(around)
}

// handed hands a frame to l by its Recv, and has what it passes on fetched from byte from on, the
// first bytes apart from the others. It returns the beginning that was passed on, nil if none was,
// and all of the frame, nil if it was not to be had.
func handed(t testing.TB, l *Link, inner *memory, frame []byte, from, first int) (begin, all []byte) {
	t.Helper()
	before := bytes.Clone(frame)
	inner.arrived = append(inner.arrived, frame)
	views := make([][]byte, transport.MaxBatch)
	n, err := l.Recv(views)
	if err != nil || n > 1 || n == 0 && l.Rest() != 0 {
		t.Fatal(n, err, l.Rest())
	}
	if n == 1 {
		begin = bytes.Clone(views[0])
		if all = begin; l.Rest() > 0 {
			from = min(from, len(begin))
			size := len(begin) + l.Rest() - from
			sizes := []int{size}
			if first %= size; first > 0 {
				sizes = []int{first, size - first}
			}
			g := newGuarded(sizes...)
			if all = nil; l.Fetch(from, g.parts) {
				all = append(bytes.Clone(begin[:from]), slices.Concat(g.parts...)...)
			}
			if !g.intact() {
				t.Fatalf("fetched from %d to parts of %d bytes: written outside of them", from, sizes)
			}
			if l.Rest() != 0 || l.Fetch(from, g.parts) {
				t.Fatal("it is fetched twice")
			}
		}
	}
	if !bytes.Equal(frame, before) {
		t.Fatal("a frame that was received was changed")
	}
	return begin, all
}

// changed returns a changed copy of one of two genuine frames.
func changed(r *rand.Rand, one, other []byte) []byte {
	f := bytes.Clone(one)
	switch r.IntN(8) {
	case 0: // cut
		return f[:framing.OuterSize+r.IntN(len(f)-framing.OuterSize)]
	case 1: // longer, than a frame may be perhaps
		return append(f, make([]byte, 1+r.IntN(cmp.Or(r.IntN(2)*100, 70_000)))...)
	case 2: // the parts of two
		return append(f[:framing.SealedRest], other[framing.SealedRest:]...)
	case 3: // cut anywhere, and put together
		return append(f[:framing.OuterSize+r.IntN(len(f)-framing.OuterSize)], other[framing.OuterSize+r.IntN(len(other)-framing.OuterSize):]...)
	case 4: // the counter of another
		copy(f[framing.SealedCounter:framing.SealedBody], other[framing.SealedCounter:])
		return f
	}
	mutate(r, f)
	return f
}

// TestLongMutants changes long frames at random, and hands them to a link in each of the ways in
// which it receives them. None is taken; of one whose beginning is genuine that alone is passed
// on; each is counted; nothing is written but to where the frame was to be fetched; and the
// session goes on.
func TestLongMutants(t *testing.T) {
	const seed = 17
	count := 3000
	if !need.Full() {
		count = 500
	}
	kinds := []ethertype.Kind{ethertype.KindEcho, ethertype.KindData, ethertype.KindReadData, ethertype.KindRDMAWrite}
	for name, first := range waysToReceive {
		t.Run(name, func(t *testing.T) {
			a, b, from, to := longPair(t, Options{}.OneWay())
			to.first = first
			r := rand.New(rand.NewPCG(seed, uint64(first)))
			next := func() (sealed, plain []byte) {
				f := longFrame(a, b, pattern(1500+r.IntN(8000)))
				f.Head[framing.OffsetKind] = uint8(kinds[r.IntN(len(kinds))])
				return sentBy(t, a, from, f), f.AppendTo(nil)
			}
			begins := 0
			for i := range count {
				one, plain := next()
				other, _ := next()
				f := changed(r, one, other)
				if bytes.Equal(f, one) {
					continue
				}
				before := b.SealStats()
				begin, all := handed(t, b, to, f, ethertype.HeaderSize+r.IntN(transport.LongBegin-ethertype.HeaderSize+1), r.IntN(1<<r.IntN(14)))
				if all != nil || begin != nil && !bytes.Equal(begin, plain[:transport.LongBegin]) {
					t.Fatalf("seed %d: frame %d was taken: %s", seed, i, framing.Dump(f))
				}
				if begin != nil {
					begins++
				}
				after := b.SealStats()
				if after.Dropped()+after.Refused != before.Dropped()+before.Refused+1 || after.Sessions != before.Sessions {
					t.Fatalf("seed %d: frame %d: counted %+v, before %+v: %s", seed, i, after, before, framing.Dump(f))
				}
				from.arrived = nil // what b says to that
			}
			if inParts := first == 200; inParts != (begins > 0) {
				t.Errorf("%d beginnings were passed on", begins)
			}
			genuine, plain := next()
			if _, all := handed(t, b, to, genuine, ethertype.HeaderSize, 0); !bytes.Equal(all, plain) {
				t.Error("afterwards a genuine frame is not taken")
			}
		})
	}
}

// FuzzLong: whatever is done to a long frame on its way, a link takes what was sent or nothing.
func FuzzLong(f *testing.F) {
	f.Add(uint16(0), []byte{}, int16(0), uint8(0), uint16(0))
	f.Add(uint16(framing.SealedRest), []byte{1}, int16(0), uint8(1), uint16(80))
	f.Add(uint16(framing.SealedBody), []byte{1, 2}, int16(-1), uint8(2), uint16(100))
	f.Add(uint16(2000), []byte{1}, int16(100), uint8(4), uint16(7))
	a, b, from, to := longPair(f, Options{Random: rand.NewChaCha8([32]byte{3})}.OneWay())
	frame := longFrame(a, b, pattern(2500))
	plain := frame.AppendTo(nil)
	began := to.now
	f.Fuzz(func(t *testing.T, at uint16, change []byte, more int16, how uint8, first uint16) {
		from.now, to.now, from.arrived = began, began, nil
		one, other := sentBy(t, a, from, frame), sentBy(t, a, from, frame)
		forged := bytes.Clone(one)
		if how&4 != 0 {
			forged = append(forged[:framing.SealedRest], other[framing.SealedRest:]...)
		}
		if more >= 0 {
			forged = append(forged, make([]byte, more)...)
		} else {
			forged = forged[:max(len(forged)+int(more), framing.OuterSize)]
		}
		for i := 0; i < len(change) && int(at)+i < len(forged); i++ {
			forged[int(at)+i] ^= change[i]
		}
		to.first = []int{200, framing.SealedRest - 1, 1 << 20}[how&3%3]
		begin, all := handed(t, b, to, forged, ethertype.HeaderSize+int(first)%200, int(first)>>4)
		switch genuine := bytes.Equal(forged, one); {
		case genuine && !bytes.Equal(all, plain):
			t.Fatal("a genuine frame is not taken")
		case !genuine && (all != nil || begin != nil && !bytes.Equal(begin, plain[:len(begin)])):
			t.Fatal("a forged frame is taken")
		}
	})
}
