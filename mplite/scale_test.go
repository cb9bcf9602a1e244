package mplite_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestScale: what a rank has open, and in its heap, after Init, a barrier and an allreduce grows
// with the logarithm of the number of ranks, beside the tables of where all ranks are.
func TestScale(t *testing.T) {
	sizes := []int{16, 64}
	if need.Full() {
		sizes = []int{64, 1024}
	}
	const perRank = 128 // bytes for each other rank: 52 of tables, and what the further connections take
	var last scale
	for _, size := range sizes {
		at := measureScale(t, size)
		t.Logf("%d ranks: %.1f KiB of heap and %d connections a rank, started after %v, %d frames and %d broadcasts a rank, %v of wall time in all",
			size, float64(at.heap)/1024, at.connections, at.started, at.frames/uint64(size), at.broadcasts/uint64(size), at.took.Round(time.Millisecond))
		if most := 4 * int(math.Ceil(math.Log2(float64(size)))); at.connections > most {
			t.Errorf("%d ranks: %d connections of a rank, want %d at the most", size, at.connections, most)
		}
		if more := int(at.heap) - int(last.heap); last.size > 0 && more > perRank*size {
			t.Errorf("a rank of %d has %d bytes more than one of %d, want %d at the most", size, more, last.size, perRank*size)
		}
		if last.size > 0 {
			t.Logf("wall time grows with the %.2fth power of the ranks", math.Log(float64(at.took)/float64(last.took))/math.Log(float64(size)/float64(last.size)))
		}
		last = at
	}
}

// scale is what a job of size ranks has cost.
type scale struct {
	size, connections  int
	heap               uint64        // bytes a rank
	started            time.Duration // to the end of the last Init, in virtual time
	frames, broadcasts uint64        // till then
	took               time.Duration // in real time
}

func measureScale(t *testing.T, size int) scale {
	t.Helper()
	began := time.Now()
	before := heap()
	s := scale{size: size}
	j := newJob(size, sim.Options{}, mplite.Config{Connect: mplite.OnUse})
	inited := 0
	j.start(func(c *mplite.Comm) error {
		if inited++; inited == size {
			s.started = time.Duration(j.Now() - sim.Start)
			st := j.Stats()
			s.frames = st.Sent
			s.broadcasts = (st.Copies - st.Sent) / uint64(size-2) // of each there are size-1 copies
		}
		if err := c.Barrier(bg); err != nil {
			return err
		}
		sum := []int{c.Rank()}
		if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]()); err != nil {
			return err
		}
		if want := size * (size - 1) / 2; sum[0] != want {
			return fmt.Errorf("the ranks add up to %d, want %d", sum[0], want)
		}
		s.connections = max(s.connections, connections(c))
		if j.through++; j.through == size {
			s.heap = (heap() - before) / uint64(size)
		}
		return nil
	})
	check(t, j.run())
	s.took = time.Since(began)
	return s
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
