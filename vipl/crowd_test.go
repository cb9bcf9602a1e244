package vipl_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// crowd is how many idle VIs are connected on each NIC.
const crowd = 1000

// crowdTogether connects idle VIs between two NICs.
func crowdTogether(t testing.TB, nics [2]*vipl.NIC) (vis []*vipl.VI) {
	for range crowd {
		a, b := join(t, nics, nil)
		vis = append(vis, a, b)
	}
	return vis
}

// TestCrowdMemory connects a thousand VIs over a real link: the library keeps
// at most 4 KiB for each, and all stay connected while one of them works.
func TestCrowdMemory(t *testing.T) {
	const limit = 4 << 10
	nics := vethNICs(t, 1500, vipl.Config{}, nil)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	join(t, nics, nil) // what a NIC needs once
	before := heap()
	vis := crowdTogether(t, nics)
	per := (int64(heap()) - int64(before)) / int64(len(vis))
	t.Logf("%d bytes for each of %d connected VIs", per, len(vis))
	if per > limit {
		t.Errorf("an idle VI keeps %d bytes, want at most %d", per, limit)
	}
	a, b := vis[0], vis[1]
	f := newFlow(t, a, b, 100, 1000, 1)
	within(t, "the transfer", func() error { return all(f.send, f.receive) })
	for i, v := range vis {
		if v.State() != vipl.StateConnected {
			t.Fatalf("VI %d is %v: %v", i, v.State(), v.Err())
		}
	}
}

// BenchmarkCrowd bounces a message over a VI that is alone on its NIC and, in
// turns, over one among a thousand idle ones, and reports both round trips and
// their ratio:
//
//	go test ./vipl -run '^$' -bench Crowd -benchtime 20000x
func BenchmarkCrowd(b *testing.B) {
	alone, among := newBouncePair(b, false), newBouncePair(b, true)
	var aloneNs, amongNs []time.Duration
	const turn = 50
	for b.Loop() {
		for range turn {
			aloneNs = append(aloneNs, alone.bounce(b))
		}
		for range turn {
			amongNs = append(amongNs, among.bounce(b))
		}
	}
	slices.Sort(aloneNs)
	slices.Sort(amongNs)
	x, y := aloneNs[len(aloneNs)/2], amongNs[len(amongNs)/2]
	b.ReportMetric(float64(x), "alone-ns")
	b.ReportMetric(float64(y), "among-ns")
	b.ReportMetric(float64(y)/float64(x), "ratio")
}

// bouncePair is a ping-pong between two VIs of one process, driven by the
// benchmark's goroutine alone, so that nothing but the engine's work counts.
type bouncePair struct {
	vis  [2]*vipl.VI
	bufs [2]*buffers
}

func newBouncePair(b *testing.B, crowded bool) *bouncePair {
	nics := vethNICs(b, 1500, vipl.Config{}, nil)
	p := &bouncePair{}
	if crowded {
		crowdTogether(b, nics)
	}
	p.vis[0], p.vis[1] = join(b, nics, nil)
	for i, n := range nics {
		var err error
		if p.bufs[i], err = newBuffers(n, 2, 64); err != nil {
			b.Fatal(err)
		}
	}
	return p
}

// bounce sends a message there and back and returns how long it took.
func (p *bouncePair) bounce(b *testing.B) time.Duration {
	start := p.vis[0].NIC().Now()
	for side := range 2 {
		from, to := p.vis[side], p.vis[1-side]
		if err := to.PostRecv(&p.bufs[1-side].descs[0]); err != nil {
			b.Fatal(err)
		}
		if err := from.PostSend(&p.bufs[side].descs[1]); err != nil {
			b.Fatal(err)
		}
		if _, err := to.RecvWait(bg); err != nil {
			b.Fatal(err)
		}
		if to.Snapshot().SendQueue == 0 { // its first message is yet to come
			continue
		}
		if _, err := to.SendWait(bg); err != nil { // acknowledged by what has just come
			b.Fatal(err)
		}
	}
	return time.Duration(p.vis[0].NIC().Now() - start)
}
