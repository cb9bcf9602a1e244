package rdma

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
)

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
	for range rng.IntN(4) {
		b[rng.IntN(n)] ^= 1 << rng.IntN(8)
	}
	if rng.IntN(8) == 0 {
		n = rng.IntN(len(b) + 1)
	}
	return b[:n]
}
