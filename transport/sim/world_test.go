package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// storm returns a world with all faults at once, in which eight processes send
// to each other at random and one is killed.
func storm(seed uint64) *World {
	w := New(Options{
		Seed: seed, Bandwidth: 1e9, Queue: 4, RxSlots: 6, Jitter: 20 * time.Microsecond, Loss: 0.05,
		Dup: 0.05, Reorder: 0.05, Corrupt: 0.05, Burst: Burst{Enter: 0.01, Leave: 0.1},
	})
	stations := make([]*Station, 8)
	for i := range stations {
		stations[i] = w.StationWith(StationOptions{MTU: 400 + 200*i})
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	w.Script(func(_ int64, from, to *Station, frame []byte) Action {
		return Action{Drop: len(frame)%50 == 1, Delay: time.Duration(len(frame) % 3)}
	})
	for _, s := range stations {
		w.Go(s.String(), func() { chatter(w, s, stations, rng) })
	}
	w.At(Start+int64(200*time.Microsecond), func() { w.Partition(stations[0], stations[1], true) })
	w.At(Start+int64(500*time.Microsecond), func() { w.Kill(stations[7]) })
	return w
}

// chatter sends and receives at random.
func chatter(w *World, s *Station, all []*Station, rng *rand.Rand) {
	views := make([][]byte, 8)
	for range 200 {
		dst := all[rng.IntN(len(all))].MAC()
		if rng.IntN(5) == 0 {
			dst = ethertype.Broadcast
		}
		size := ethertype.HeaderSize + rng.IntN(s.Info().MTU+ethertype.EthernetSize-ethertype.HeaderSize)
		if _, err := s.Send([]transport.Frame{to(s, dst, size, 0)}); err != nil {
			return
		}
		if s.Wait(w.Now()+rng.Int64N(30_000)) != nil {
			return
		}
		if rng.IntN(3) == 0 {
			s.Recv(views)
		}
	}
}

func TestSameSeedSameWorld(t *testing.T) {
	digests := make(map[uint64]uint64)
	for seed := range uint64(4) {
		var first *World
		for range 3 {
			w := storm(seed)
			run(t, w)
			if first == nil {
				first = w
			}
			if w.Digest() != first.Digest() || w.Now() != first.Now() || w.Stats() != first.Stats() {
				t.Errorf("seed %d: digest %x at %d with %+v, then %x at %d with %+v", seed,
					first.Digest(), first.Now(), first.Stats(), w.Digest(), w.Now(), w.Stats())
			}
		}
		if other, ok := digests[first.Digest()]; ok {
			t.Errorf("seeds %d and %d have the same digest", other, seed)
		}
		digests[first.Digest()] = seed
	}
}

// TestDigestSeesEverything changes one thing of a delivery at a time.
func TestDigestSeesEverything(t *testing.T) {
	digest := func(number uint32, delay time.Duration, from, dst int) uint64 {
		w := New(Options{Delay: delay})
		s := []*Station{w.Station(""), w.Station(""), w.Station("")}
		f := to(s[0], ethertype.Broadcast, 100, number)
		w.Partition(s[from], s[3-from-dst], true)
		if _, err := s[from].Send([]transport.Frame{f}); err != nil {
			t.Fatal(err)
		}
		settle(t, w)
		return w.Digest()
	}
	seen := []uint64{
		digest(1, 1000, 0, 1), digest(2, 1000, 0, 1), digest(1, 1001, 0, 1), digest(1, 1000, 2, 1), digest(1, 1000, 0, 2), 0,
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 6 {
		t.Errorf("some digests are the same: %x", seen)
	}
}

func TestProcessesTakeTurnsInOrder(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	var order []string
	for _, name := range []string{"a", "b", "c"} {
		w.Go(name, func() {
			for turn := range 3 {
				order = append(order, fmt.Sprint(name, turn))
				w.Sleep(time.Duration(turn) * time.Second)
			}
			w.Go("child of "+name, func() { order = append(order, name+"!") })
		})
	}
	run(t, w)
	if got, want := strings.Join(order, " "), "a0 b0 c0 a1 b1 c1 a2 b2 c2 a! b! c!"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if got := w.Now() - Start; got != int64(3*time.Second) {
		t.Errorf("took %d", got)
	}
}

func TestWake(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a := w.Station("a")
	var woken []int64
	w.Go("waiter", func() {
		for range 3 {
			if err := a.Wait(transport.Forever); err != nil {
				t.Error(err)
			}
			woken = append(woken, w.Now()-Start)
			w.Sleep(10)
		}
	})
	w.Go("waker", func() {
		w.Sleep(5)
		a.Wake() // ends the wait
		w.Sleep(5)
		a.Wake() // nobody waits: ends the next one, once
		a.Wake()
		w.Sleep(90)
		a.Wake()
	})
	run(t, w)
	if want := []int64{5, 15, 100}; !slices.Equal(woken, want) {
		t.Errorf("woken at %v, want %v", woken, want)
	}
	if st := a.Stats(); st.Wakes != 4 || st.Waits != 2 {
		t.Errorf("stats %+v, want 4 wakes and 2 waits that blocked", st)
	}
}

func TestWaitDeadlines(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b := w.Station("a"), w.Station("b")
	w.Go("waiter", func() {
		check := func(until, want int64) {
			t.Helper()
			if err := a.Wait(until); err != nil || w.Now()-Start != want {
				t.Errorf("Wait(%d) ended at %d with %v, want %d", until-Start, w.Now()-Start, err, want)
			}
		}
		check(0, 0)
		check(Start+50, 50)
		check(Start+1_000_000, 10_000) // a frame comes
		numbers(t, a)
		check(Start+20_000, 20_000) // earlier than the deadline before
		check(Start+2_000_000, 2_000_000)
		check(Start+1_000_000, 2_000_000)
		send(t, b, a, 1)
		check(Start+3_000_000, 2_010_000) // a frame comes
		numbers(t, a)
		check(Start+4_000_000, 4_000_000) // later than the deadline before
	})
	send(t, b, a, 0)
	run(t, w)
}

func TestAtHappensInOrder(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	var got []int64
	for _, at := range []int64{300, 100, 200, 100} {
		w.At(Start+at, func() { got = append(got, w.Now()-Start) })
	}
	w.At(0, func() { got = append(got, -1) })
	settle(t, w)
	if want := []int64{-1, 100, 100, 200, 300}; !slices.Equal(got, want) {
		t.Errorf("happened at %v, want %v", got, want)
	}
}

func TestActionMayNotWait(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	w.At(0, func() { w.Sleep(1) })
	defer func() {
		if recover() == nil {
			t.Error("an action has slept")
		}
	}()
	w.Sleep(time.Second)
}

func TestLimit(t *testing.T) {
	w := New(Options{Seed: 3, Limit: time.Minute})
	w.Go("clock", func() {
		for {
			w.Sleep(time.Second)
		}
	})
	err := w.Run()
	if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "clock sleeps until 1m1s") {
		t.Errorf("Run = %v", err)
	}
}

func TestStandingStill(t *testing.T) {
	w := New(Options{Seed: 3})
	a := w.Station("a")
	w.Go("poller", func() {
		for {
			a.Wait(w.Now())
		}
	})
	if err := w.Run(); !errors.Is(err, ErrStanding) || !strings.Contains(err.Error(), "seed 3") {
		t.Errorf("Run = %v", err)
	}
}

// TestTimeEndsTheCountOfTurns takes many turns, but each at its own instant.
func TestTimeEndsTheCountOfTurns(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	w.Go("busy", func() {
		for range maxTurns + 1 {
			w.Sleep(1)
		}
	})
	run(t, w)
}

func TestPanicIsReported(t *testing.T) {
	w := New(Options{Seed: 42})
	w.Go("clumsy", func() {
		w.Sleep(time.Second)
		panic(io.ErrUnexpectedEOF)
	})
	err := w.Run()
	var p *PanicError
	if !errors.As(err, &p) || p.Process != "clumsy" || p.Seed != 42 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("Run = %v", err)
	}
	for _, want := range []string{"clumsy", "seed 42", "unexpected EOF", "world_test.go"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// TestGoexitEndsTheCaller is what makes t.Fatal work in a process.
func TestGoexitEndsTheCaller(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	w.Go("fatal", func() { runtime.Goexit() })
	ended := true
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run()
		ended = false
	}()
	<-done
	if !ended {
		t.Error("Run has returned")
	}
	if err := w.Sleep(1); err != nil || w.Now() != Start+1 {
		t.Errorf("the world is no longer usable: %v at %d", err, w.Now()-Start)
	}
}

func TestTwoMayNotWaitOnOneStation(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a := w.Station("a")
	w.Go("first", func() { a.Wait(transport.Forever) })
	w.Go("second", func() { a.Wait(transport.Forever) })
	var p *PanicError
	if err := w.Run(); !errors.As(err, &p) || p.Process != "second" || !strings.Contains(err.Error(), "so does first") {
		t.Errorf("Run = %v", err)
	}
}

func TestWaitingOutsideReportsDeadlock(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a := w.Station("a")
	if err := a.Wait(transport.Forever); !errors.Is(err, ErrDeadlock) {
		t.Errorf("Wait = %v", err)
	}
	if err := a.Wait(w.Now() + 5); err != nil || w.Now() != Start+5 {
		t.Errorf("the world is no longer usable: %v at %d", err, w.Now()-Start)
	}
}

// TestSteadyStateDoesNotAllocate sends frames and receives them. A frame that
// is not given back shows as an allocation.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	w := New(Options{Seed: seed(t), Bandwidth: 1e9, Jitter: 10, Dup: 0.1, Reorder: 0.1, Corrupt: 0.1, Loss: 0.1})
	a, b := w.Station("a"), w.Station("b")
	batch := []transport.Frame{to(a, b.MAC(), 1000, 1), to(a, ethertype.Broadcast, 100, 2)}
	views := make([][]byte, 64)
	cycles := func() {
		for range 2000 {
			a.Send(batch)
			w.Sleep(20 * time.Microsecond)
			b.Recv(views)
		}
	}
	if n := testing.AllocsPerRun(1, cycles); n > 10 { // a queue may meet a new maximum
		t.Errorf("%v allocations in 2000 frames", n)
	}
}

// TestEventsHappenInOrder compares the heap with sorting.
func TestEventsHappenInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 2))
	for range 200 {
		var h eventHeap
		var want []event
		for i := range rng.IntN(100) {
			e := event{at: rng.Int64N(20), seq: uint64(i)}
			h.push(e)
			want = append(want, e)
		}
		slices.SortFunc(want, func(a, b event) int { return int(a.at-b.at)*1000 + int(a.seq) - int(b.seq) })
		for i, e := range want {
			if h[0] != e {
				t.Fatalf("event %d is %v, want %v", i, h[0], e)
			}
			h.pop()
		}
	}
}
