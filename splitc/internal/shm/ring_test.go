package shm

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
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
			some, err := take.dequeue(&e)
			want := bytes.Repeat([]byte{byte(i + round)}, i*layer.MaxControl/slots)
			if err != nil || !some || e.kind != kindCall || e.fn != uint32(round) || e.op != uint32(i) || !bytes.Equal(e.data[:e.n], want) {
				t.Fatalf("round %d: entry %d is %d/%d of %d bytes: %t, %v", round, i, e.fn, e.op, e.n, some, err)
			}
		}
		if some, err := take.dequeue(&e); some || err != nil {
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
		if _, err := take.dequeue(&e); err != nil {
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

// TestNudgesKept: a neighbour goes to sleep again and again and answers no nudge, until there
// is no credit for another one. Nobody waits for it, and that is no failure.
func TestNudgesKept(t *testing.T) {
	h := &layertest.Hostility{Open: Open, Attack: sleeper, MaxControl: layer.MaxControl, Check: func(l layer.Layer) error {
		s := l.(*Layer)
		if s.err != nil || s.list[0].nudge == (s.Stats().CreditWaits == 0) {
			return errors.New("the victim has failed, or has had a credit for each nudge")
		}
		return nil
	}}
	layertest.Hostile(t, func(t *testing.T, _ int, run func(seed uint64) error) {
		if err := run(1); err != nil {
			t.Fatal(err)
		}
	}, h)
}

// sleeper calls procedures and sleeps, and serves its own calls but not the layer below, by
// which nudges come.
func sleeper(f *layertest.Foe, c layer.Config) error {
	defer func() { f.Over = true }()
	opened, err := Open(context.Background(), c)
	if err != nil {
		return err
	}
	defer opened.Close()
	l := opened.(*Layer)
	n := l.list[0]
	for i := range 400 {
		l.sleep.Store(1)
		if room, _ := n.requests.room(); room {
			i := uint32(i % slots)
			n.calls[i] = waiting{true, make([]byte, layer.MaxCall)}
			n.requests.put(kindCall, 1, i, nil)
		}
		if l.look(); l.err != nil || f.Over {
			return l.err
		}
		c.NIC.Poll()
		if err := f.Sleep(30 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
