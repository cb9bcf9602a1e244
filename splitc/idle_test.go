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
