package shm

import (
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// believer is a Handler that wants what a layer promises it.
type believer struct {
	t     *testing.T
	calls int
	said  int
}

func (b *believer) Call(from int, _ uint32, args, result []byte) int {
	b.calls++
	if from != 1 || len(args) > layer.MaxCall || len(result) < layer.MaxCall {
		b.t.Fatalf("a call of rank %d with %d bytes, %d for the result", from, len(args), len(result))
	}
	return copy(result, args)
}

func (b *believer) Control(from int, msg []byte) {
	b.said++
	if from != 1 || len(msg) > layer.MaxControl {
		b.t.Fatalf("a message of rank %d with %d bytes", from, len(msg))
	}
}

// scribbled returns a layer with a neighbour, and with nothing below.
func scribbled(t *testing.T, h layer.Handler) (*Layer, *neighbour) {
	t.Helper()
	const procs, size = 2, 4096
	var mems [procs]*memory
	for i := range mems {
		m, err := newMemory(size, procs)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.free)
		mems[i] = m
	}
	l := &Layer{cfg: layer.Config{Procs: procs, HeapSize: size, Handler: h}, near: make([]*neighbour, procs), own: mems[0], count: &layer.Counters{}}
	l.join(1, mems[1])
	return l, l.near[1]
}

// TestInboxScribbled: a neighbour that writes anything into both inboxes makes this rank
// count, run and answer within its bounds, or say that it is garbled.
func TestInboxScribbled(t *testing.T) {
	b := &believer{t: t}
	l, n := scribbled(t, b)
	rng := rand.New(rand.NewPCG(3, 4))
	garbled := 0
	var result [layer.MaxCall]byte
	for range million() {
		if i := rng.IntN(slots); !n.calls[i].used {
			n.calls[i] = waiting{true, result[:]}
			l.count.Outstanding++
		}
		for _, r := range []*ring{&n.served, &n.returned} {
			slot := r.slot()
			for range rng.IntN(3) {
				slot[rng.IntN(entryHead)] = byte(rng.Uint32())
			}
			slot[0], slot[5], slot[6], slot[7] = byte(rng.IntN(5)), byte(rng.IntN(10)), 0, 0
			slot[13], slot[14], slot[15] = 0, 0, 0
			r.other.Store(r.at + rng.Uint64N(slots+2))
		}
		n.results.other.Store(n.results.at - rng.Uint64N(slots+2))
		n.came.Store(rng.Uint64() >> rng.IntN(64))
		before := l.count.Stored
		l.look()
		if l.err != nil {
			garbled++
			l.err = nil
		}
		used := 0
		for _, c := range n.calls {
			if c.used {
				used++
			}
		}
		if l.count.Outstanding != used || l.count.Stored-before > mostStored {
			t.Fatalf("%d calls are outstanding, %d of them known; %d bytes were counted", l.count.Outstanding, used, l.count.Stored-before)
		}
	}
	if garbled == 0 || b.calls == 0 || b.said == 0 {
		t.Errorf("%d looks found it garbled, %d calls and %d messages came: want some of each", garbled, b.calls, b.said)
	}
}

// flooder is a Handler beside a neighbour that has put in the next message, or the next call, as
// soon as this rank has taken one.
type flooder struct {
	n      *neighbour
	kind   uint8
	served int
	most   int
}

func (f *flooder) again() {
	if f.served++; f.served < f.most { // that a look without an end ends this test, too
		f.n.served.slot()[0] = f.kind
		f.n.served.other.Store(f.n.served.at + 1)
		f.n.results.other.Store(f.n.results.at)
	}
}

func (f *flooder) Call(int, uint32, []byte, []byte) int { f.again(); return 0 }
func (f *flooder) Control(int, []byte)                  { f.again() }

// TestLookEnds: a neighbour whose requests come as fast as they are taken does not keep this
// rank, and what it sends is taken in by the looks that follow.
func TestLookEnds(t *testing.T) {
	for _, kind := range []uint8{kindControl, kindCall} {
		f := &flooder{kind: kind, most: 1000}
		l, n := scribbled(t, f)
		f.n = n
		n.served.slot()[0] = kind
		n.served.other.Store(1)
		for looks := 1; looks <= 3; looks++ {
			if l.look(); l.err != nil || f.served != looks*slots {
				t.Fatalf("kind %d: %d looks have served %d requests, want %d: %v", kind, looks, f.served, looks*slots, l.err)
			}
		}
	}
}
