package shm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// pair returns the two sides of a ring in new memory.
func pair(t *testing.T) (put, take ring, mem []byte) {
	t.Helper()
	m, err := newMemory(4096, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.free)
	mem = lane(m.inbox, 1)
	return producer(mem, 0), consumer(mem, 0), mem
}

// TestRing: what was put in comes out, in order, as much as there is room for.
func TestRing(t *testing.T) {
	put, take, _ := pair(t)
	var e entry
	for round := range 100 {
		n := 0
		for ; ; n++ {
			room, err := put.room()
			if err != nil {
				t.Fatal(err)
			}
			if !room {
				break
			}
			put.put(kindCall, uint32(round), uint32(n), bytes.Repeat([]byte{byte(n + round)}, n*layer.MaxControl/slots))
		}
		if n != slots {
			t.Fatalf("round %d had room for %d entries, want %d", round, n, slots)
		}
		for i := range n {
			some, err := take.take(&e)
			want := bytes.Repeat([]byte{byte(i + round)}, i*layer.MaxControl/slots)
			if err != nil || !some || e.kind != kindCall || e.fn != uint32(round) || e.op != uint32(i) || !bytes.Equal(e.data[:e.n], want) {
				t.Fatalf("round %d: entry %d is %d/%d of %d bytes: %t, %v", round, i, e.fn, e.op, e.n, some, err)
			}
		}
		if some, err := take.take(&e); some || err != nil {
			t.Fatalf("an empty ring has an entry: %v", err)
		}
	}
}

// million is how often memory is scribbled over.
func million() int {
	if !need.Full() {
		return 50_000
	}
	return 1_000_000
}

// TestRingScribbled: whatever a neighbour writes over a lane, each side sees an entry within
// its bounds, none, or that it is garbled.
func TestRingScribbled(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	put, take, mem := pair(t)
	var e entry
	garbled := 0
	for range million() {
		for range 4 {
			at := rng.IntN(ringsAt + ringAt + entryHead)
			mem[at] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 { // counts that can be
			put.other.Store(put.at - rng.Uint64N(slots+2))
		} else {
			take.other.Store(take.at + rng.Uint64N(slots+2))
		}
		if room, err := put.room(); err != nil {
			garbled++
		} else if room {
			put.put(kindControl, 0, 0, e.data[:rng.IntN(layer.MaxControl+1)])
		}
		if _, err := take.take(&e); err != nil {
			garbled++
		}
		if e.n < 0 || e.n > layer.MaxControl {
			t.Fatalf("an entry of %d bytes", e.n)
		}
	}
	if garbled == 0 {
		t.Error("nothing was found to be garbled")
	}
}
