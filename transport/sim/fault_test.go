package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// stream sends n numbered frames, a microsecond apart, from one station to
// another through a world of these options and returns the numbers that came.
func stream(t testing.TB, opts Options, n int) ([]int, Stats) {
	t.Helper()
	opts.Seed, opts.RxSlots = seed(t), 2*n
	w := New(opts)
	a, b := w.Station("a"), w.Station("b")
	for i := range uint32(n) {
		send(t, a, b, i)
		if err := w.Sleep(time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, w)
	return numbers(t, b), w.Stats()
}

// about fails the test unless got is within a fifth of want.
func about(t testing.TB, what string, got, want int) {
	t.Helper()
	if got < want*4/5 || got > want*6/5 {
		t.Errorf("%s: %d, want about %d", what, got, want)
	}
}

func TestFaultlessStream(t *testing.T) {
	got, st := stream(t, Options{}, 1000)
	if !slices.Equal(got, count(1000)) || st.Delivered != 1000 {
		t.Errorf("received %d frames, or not in order", len(got))
	}
}

func TestLoss(t *testing.T) {
	got, st := stream(t, Options{Loss: 0.1}, 10_000)
	about(t, "lost", int(st.Lost), 1000)
	if len(got) != 10_000-int(st.Lost) || !slices.IsSorted(got) {
		t.Errorf("%d received, %d lost", len(got), st.Lost)
	}
	if got, _ := stream(t, Options{Loss: 1}, 100); len(got) != 0 {
		t.Errorf("%d received, all should be lost", len(got))
	}
}

func TestDuplicates(t *testing.T) {
	got, st := stream(t, Options{Dup: 0.1}, 10_000)
	about(t, "duplicated", int(st.Duplicated), 1000)
	if len(got) != 10_000+int(st.Duplicated) || !slices.IsSorted(got) {
		t.Errorf("%d received, %d duplicated", len(got), st.Duplicated)
	}
}

func TestReorderIsBounded(t *testing.T) {
	const by = 5
	got, st := stream(t, Options{Reorder: 0.05, ReorderBy: by}, 10_000)
	about(t, "reordered", int(st.Reordered), 500)
	inversions, furthest := 0, 0
	for i, number := range got {
		if i > 0 && number < got[i-1] {
			inversions++
		}
		furthest = max(furthest, i-number)
	}
	about(t, "frames behind a later one", inversions, 500)
	if furthest != by {
		t.Errorf("a frame was overtaken by %d, want at most and at times %d", furthest, by)
	}
	if slices.Sort(got); !slices.Equal(got, count(10_000)) {
		t.Error("reordering lost or copied frames")
	}
}

func TestHeldFrameIsReleasedInTime(t *testing.T) {
	w := New(Options{Seed: seed(t), Reorder: 1, Hold: 70 * time.Microsecond})
	a, b := w.Station("a"), w.Station("b")
	send(t, a, b, 1)
	if err := b.Wait(transport.Forever); err != nil {
		t.Fatal(err)
	}
	if got := w.Now() - Start; got != 80_000 {
		t.Errorf("came after %d ns, want the delay and Hold", got)
	}
}

func TestJitterKeepsOrder(t *testing.T) {
	w := New(Options{Seed: seed(t), Delay: 10 * time.Microsecond, Jitter: 50 * time.Microsecond})
	a, b := w.Station("a"), w.Station("b")
	var took []int64
	for i := range uint32(500) {
		sent := w.Now()
		send(t, a, b, i)
		if err := b.Wait(transport.Forever); err != nil {
			t.Fatal(err)
		}
		took = append(took, w.Now()-sent)
		expect(t, b, int(i))
	}
	if lo, hi := slices.Min(took), slices.Max(took); lo < 10_000 || lo > 12_000 || hi > 60_000 || hi < 58_000 {
		t.Errorf("delays from %d to %d ns, want 10 to 60 µs", lo, hi)
	}
	if got, _ := stream(t, Options{Jitter: time.Millisecond}, 1000); !slices.Equal(got, count(1000)) {
		t.Error("jitter changed the order")
	}
}

func TestBursts(t *testing.T) {
	// The mean burst has 1/Leave = 20 frames, the mean gap 1/Enter = 200.
	got, st := stream(t, Options{Burst: Burst{Enter: 0.005, Leave: 0.05}}, 40_000)
	bursts := 0
	for i := 1; i < len(got); i++ {
		if got[i] != got[i-1]+1 {
			bursts++
		}
	}
	about(t, "lost", int(st.Lost), 40_000*20/220)
	about(t, "bursts", bursts, 40_000/220)
	_, st = stream(t, Options{Burst: Burst{Enter: 1, Loss: 0.3}}, 10_000)
	about(t, "lost on a bad line", int(st.Lost), 3000)
}

func TestCorruption(t *testing.T) {
	got, st := stream(t, Options{Corrupt: 0.3}, 10_000)
	about(t, "corrupted", int(st.Corrupted), 3000)
	bad := 0
	for _, number := range got {
		if number < 0 {
			bad++
		}
	}
	// Of 100 bytes 38 are payload, which the CRC here does not cover; flips in
	// the address, EtherType or port get the frame filtered.
	if bad < 1000 || st.Filtered < 100 || bad+int(st.Filtered) > int(st.Corrupted) {
		t.Errorf("%d do not parse and %d were filtered, of %d corrupted", bad, st.Filtered, st.Corrupted)
	}
}

func TestCorruptionHitsOneCopy(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b, c := w.Station("a"), w.Station("b"), w.Station("c")
	w.Script(func(_ int64, _, to *Station, _ []byte) Action { return Action{Corrupt: to == b} })
	whole := to(a, ethertype.Broadcast, 1000, 7)
	if _, err := a.Send([]transport.Frame{whole}); err != nil {
		t.Fatal(err)
	}
	settle(t, w)
	views := make([][]byte, 1)
	for s, want := range map[*Station]bool{b: false, c: true} {
		if n, err := s.Recv(views); n != 1 || err != nil {
			t.Fatalf("%s: Recv = %d, %v", s, n, err)
		}
		if same := string(views[0]) == string(whole.Head); same != want {
			t.Errorf("%s: the frame is as it was sent: %v, want %v", s, same, want)
		}
	}
}

func TestScript(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b := w.Station("a"), w.Station("b")
	seen := 0
	w.Script(func(now int64, from, to *Station, frame []byte) Action {
		if from != a || to != b || now != w.Now() || len(frame) != 100 {
			t.Errorf("script was asked about %d bytes from %s to %s at %d", len(frame), from, to, now)
		}
		seen++
		return []Action{{}, {Drop: true}, {Duplicate: true}, {Delay: time.Millisecond}, {}}[seen-1]
	})
	for i := range uint32(5) {
		send(t, a, b, i)
	}
	settle(t, w)
	expect(t, b, 0, 2, 2, 4, 3)
	w.Script(nil)
	send(t, a, b, 9)
	settle(t, w)
	expect(t, b, 9)
	if got := w.Stats().Scripted; got != 1 || seen != 5 {
		t.Errorf("%d dropped by script, %d seen", got, seen)
	}
}

func TestPartitions(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b, c := w.Station("a"), w.Station("b"), w.Station("c")
	all := func(want ...[]int) {
		t.Helper()
		for i, from := range []*Station{a, b, c} {
			f := to(from, ethertype.Broadcast, 100, uint32(i))
			if _, err := from.Send([]transport.Frame{f}); err != nil {
				t.Fatal(err)
			}
		}
		settle(t, w)
		for i, s := range []*Station{a, b, c} {
			expect(t, s, want[i]...)
		}
	}
	all([]int{1, 2}, []int{0, 2}, []int{0, 1})
	w.Partition(a, b, true)
	all([]int{2}, []int{2}, []int{0, 1})
	w.Partition(b, a, false)
	all([]int{1, 2}, []int{0, 2}, []int{0, 1})
	w.Isolate(a, b)
	all([]int{1}, []int{0}, nil)
	w.Partition(a, b, true)
	all(nil, nil, nil)
	w.Heal()
	all([]int{1, 2}, []int{0, 2}, []int{0, 1})
}

// TestEveryCopyIsAccountedFor has all faults at once and holds Stats to its
// promise.
func TestEveryCopyIsAccountedFor(t *testing.T) {
	seen := make(map[string]uint64)
	for i := range uint64(5) {
		w := storm(seed(t) + i)
		run(t, w)
		settle(t, w)
		st := w.Stats()
		drops := map[string]uint64{
			"lost": st.Lost, "scripted": st.Scripted, "partitioned": st.Partitioned, "too long": st.TooLong, "gone": st.Gone,
			"queue full": st.QueueFull, "receive queue full": st.RxFull, "filtered": st.Filtered,
		}
		ends := st.Delivered
		for what, n := range drops {
			seen[what] += n
			ends += n
		}
		if st.Copies+st.Duplicated != ends {
			t.Errorf("%d copies and %d duplicates, but %d came to an end: %+v", st.Copies, st.Duplicated, ends, st)
		}
	}
	for what, n := range seen {
		if n == 0 {
			t.Errorf("the storm does not test: %s", what)
		}
	}
}
