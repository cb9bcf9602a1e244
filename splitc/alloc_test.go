package splitc_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

type (
	world = splitc.World
	array = splitc.Array[int64]
)

// steady are rounds of traffic that both of two ranks make. a has 2000 elements on each.
var steady = []struct {
	name  string
	round func(w *world, a array, got, buf []int64) error
}{
	{"read", func(w *world, a array, got, _ []int64) (err error) {
		got[0], err = splitc.Read(bg, w, a.On(1-w.MyProc()))
		return err
	}},
	{"write", func(w *world, a array, _, _ []int64) error { return splitc.Write(bg, w, a.On(1-w.MyProc()), 7) }},
	{"get", func(w *world, a array, got, _ []int64) error {
		for i := range got {
			if err := splitc.Get(bg, w, &got[i], a.On(1-w.MyProc()).Add(i)); err != nil {
				return err
			}
		}
		return w.Sync(bg)
	}},
	{"put", func(w *world, a array, got, _ []int64) error {
		for i := range got {
			if err := splitc.Put(bg, w, a.On(1-w.MyProc()).Add(i), 5); err != nil {
				return err
			}
		}
		return w.Sync(bg)
	}},
	{"store", func(w *world, a array, got, _ []int64) error {
		for i := range got {
			if err := splitc.Store(bg, w, a.On(1-w.MyProc()).Add(i), 5); err != nil {
				return err
			}
		}
		return w.StoreSync(bg, 8*len(got))
	}},
	{"long values", func(w *world, a array, _, _ []int64) error {
		type long [25]int64
		there := splitc.Cast[long](a.On(1 - w.MyProc()))
		for i := range 20 {
			if err := splitc.Put(bg, w, there.Add(i), long{1}); err != nil {
				return err
			}
			if err := splitc.Store(bg, w, there.Add(20+i), long{2}); err != nil {
				return err
			}
		}
		if err := splitc.Write(bg, w, there, long{3}); err != nil {
			return err
		}
		if _, err := splitc.Read(bg, w, there); err != nil {
			return err
		}
		return w.StoreSync(bg, 20*200)
	}},
	{"store to itself", func(w *world, a array, _, _ []int64) error {
		if err := splitc.Store(bg, w, a.On(w.MyProc()), 5); err != nil {
			return err
		}
		return w.StoreSync(bg, 8)
	}},
	{"bulk put and get", func(w *world, a array, _, buf []int64) error {
		if err := splitc.BulkWrite(bg, w, a.On(1-w.MyProc()), buf); err != nil {
			return err
		}
		return splitc.BulkRead(bg, w, buf, a.On(1-w.MyProc()))
	}},
	{"bulk store", func(w *world, a array, _, buf []int64) error {
		if err := splitc.BulkStore(bg, w, a.On(1-w.MyProc()), buf); err != nil {
			return err
		}
		return w.StoreSync(bg, 8*len(buf))
	}},
	{"fetch and add", func(w *world, a array, _, _ []int64) error {
		_, err := splitc.FetchAdd(bg, w, a.On(1-w.MyProc()), 1)
		return err
	}},
	{"all store sync", func(w *world, a array, _, buf []int64) error {
		if err := splitc.BulkStore(bg, w, a.On(1-w.MyProc()), buf); err != nil {
			return err
		}
		return w.AllStoreSync(bg)
	}},
	{"barrier", func(w *world, _ array, _, _ []int64) error { return w.Barrier(bg) }},
}

// TestNoAllocations counts what steady traffic allocates, both ranks and the simulator
// together: nothing.
func TestNoAllocations(t *testing.T) {
	const rounds = 200 // that are counted
	if testing.Short() {
		t.Skip("left out by -short: the race detector takes long to count what is counted without it, too")
	}
	const first = 2 * rounds
	for _, c := range steady {
		eachLayer(t, func(t *testing.T, layer string) {
			var allocs float64
			check(t, runProgram(2, sim.Options{}, splitc.Config{Layer: layer}, func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 2000)
				if err != nil {
					return err
				}
				got, buf := make([]int64, 8), make([]int64, 2000)
				step := func() {
					if err == nil {
						err = c.round(w, a, got, buf)
					}
				}
				for range first {
					step()
				}
				if w.MyProc() == 0 {
					allocs = testing.AllocsPerRun(rounds, step)
				} else {
					for range rounds + 1 {
						step()
					}
				}
				return err
			}))
			if allocs != 0 {
				t.Errorf("%s allocates %v times a round, want 0", c.name, allocs)
			}
		})
	}
}

// idleMost is how many bytes an idle process keeps for each other one at the most, beside
// registered memory.
const idleMost = 64 << 10

// TestIdleMemory: processes that have talked to each other and are idle now keep little
// beside the memory of their buffers. A program of n processes keeps a + b*n + c*n*n
// bytes, and c is asked for: what a process has for another one. Programs of three sizes
// tell it from the rest.
func TestIdleMemory(t *testing.T) {
	need.Simulated(t)
	for _, layer := range []string{"reliable", "unreliable", "rdma"} {
		t.Run(layer, func(t *testing.T) {
			few, some, many := idleHeap(t, layer, 2), idleHeap(t, layer, 5), idleHeap(t, layer, 8)
			each := (many - 2*some + few) / (2 * 3 * 3)
			t.Logf("%d bytes for each other process", each)
			if each > idleMost {
				t.Errorf("an idle process keeps %d bytes for each other one, over the limit of %d", each, idleMost)
			}
		})
	}
}

// idleHeap returns how many bytes of the Go heap a program of so many processes keeps
// beside registered memory, when each has talked to each.
func idleHeap(t *testing.T, layer string, procs int) (bytes int) {
	const burst = 200
	before := heapNow()
	p := newProgram(procs, sim.Options{}, splitc.Config{Layer: layer})
	nics := make([]*vipl.NIC, procs)
	p.start(func(w *splitc.World) error {
		nics[w.MyProc()] = w.NIC()
		a, err := splitc.AllSpreadMalloc[int64](bg, w, procs, burst)
		if err != nil {
			return err
		}
		for proc := range procs {
			for i := range burst {
				if err := splitc.Put(bg, w, a.On(proc).Add(i), 1); err != nil {
					return err
				}
				if err := splitc.Store(bg, w, a.On(proc).Add(i), 1); err != nil {
					return err
				}
			}
			if err := w.Sync(bg); err != nil {
				return err
			}
		}
		if err := w.AllStoreSync(bg); err != nil {
			return err
		}
		if w.MyProc() == 0 { // the others wait
			if err := p.Sleep(time.Second); err != nil {
				return err
			}
			bytes = heapNow() - before
			for _, nic := range nics {
				bytes -= int(nic.Snapshot().RegionBytes)
			}
		}
		return w.Barrier(bg)
	})
	check(t, p.run())
	return bytes
}

// heapNow returns how many bytes of the Go heap are in use.
func heapNow() int {
	var m runtime.MemStats
	for range 2 { // what the first collection finalizes the second one frees
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
