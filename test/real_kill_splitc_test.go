package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"golang.org/x/sys/unix"
)

// processWays are what the processes of Split-C do when one of them is killed: the layer, and the
// call. On layers that share memory a barrier is an array in it.
var processWays = []killWay{
	{"shm", "shm", 1, told, []string{"shm/InBarrier", "shm/BeforeBarrier", "shm/Store"}},
	{"ring and shm", "ring", 2, told, []string{"shm/InBarrier"}},
	{"ring", "ring", killRanks, silent, []string{"rdma/InBarrier", "unreliable/Store"}},
}

// processDoings are what a process does until it ends with an error.
var processDoings = map[string]func(ctx context.Context, w *splitc.World, a splitc.Array[int64], ready func()) error{
	// Process 0 keeps the others in the barrier, the one that is killed among them.
	"InBarrier": func(ctx context.Context, w *splitc.World, _ splitc.Array[int64], ready func()) error {
		ready()
		if w.MyProc() == 0 {
			return w.StoreSync(ctx, 8)
		}
		return w.Barrier(ctx)
	},
	// The one that is killed keeps the others in the barrier.
	"BeforeBarrier": func(ctx context.Context, w *splitc.World, _ splitc.Array[int64], ready func()) error {
		ready()
		if w.MyProc() == killed {
			return w.StoreSync(ctx, 8)
		}
		return w.Barrier(ctx)
	},
	// All store to all.
	"Store": func(ctx context.Context, w *splitc.World, a splitc.Array[int64], ready func()) error {
		for i := 0; ; i++ {
			if i == 1000 {
				ready()
			}
			if err := splitc.Store(ctx, w, a.On(i%w.Procs()), int64(i)); err != nil {
				return err
			}
		}
	},
}

// killWorld is a process of Split-C.
func killWorld(ctx, goOn context.Context, cfg *mplite.Config, doing string, ready func()) error {
	layer, doing, _ := strings.Cut(doing, "/")
	w, err := splitc.Start(ctx, &splitc.Config{Config: cfg.Config, Layer: layer, HeapSize: 1 << 20})
	if err != nil {
		return err
	}
	a, err := splitc.AllSpreadMalloc[int64](ctx, w, w.Procs(), 1)
	if err != nil {
		return err
	}
	return outlive(ctx, goOn, processDoings[doing](ctx, w, a, ready), w.Exit)
}

// applications are the programs of which TestKilledApplication kills a process, with
// arguments by which they take so long that it is mostly in time.
var applications = [][]string{
	{"fft3d", "-n", "256"},
	{"cg", "-tolerance", "1e-300", "-steps", "100000000"},
	{"cholesky", "-n", "3072"},
	{"em3d", "-steps", "100000000"},
	{"raytrace", "-width", "4000", "-height", "3000"},
}

// TestKilledApplication: after kill -9 of one process of each application, on two hosts of
// two processes that share memory, the others end with an error that names it, and neither
// sockets nor namespaces nor mapped memory are left.
func TestKilledApplication(t *testing.T) {
	needLab(t)
	dir := commands(t) // built before the clocks start
	for _, args := range applications {
		t.Run(args[0], func(t *testing.T) {
			for range 10 {
				if killApplication(t, dir+"/"+args[0], args) {
					return
				}
			}
			t.Error("it always ends before it can be killed")
		})
	}
}

// killApplication kills process killed of an application, and looks at what is left. It
// reports false if that process has ended before.
func killApplication(t *testing.T, program string, args []string) bool {
	const perHost = 2
	l := newLab(t, lab.Config{N: killRanks, PerHost: perHost})
	var all []*player
	for rank := range killRanks {
		all = append(all, playOne(t, l, rank, &exec.Cmd{Path: program, Args: args}, splitc.EnvLayer+"=shm"))
	}
	victim := all[killed]
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !computes(victim); {
		select {
		case <-tick.C:
		case <-victim.Done():
			if victim.Code() != 0 {
				t.Fatalf("process %d ended with code %d: %s", killed, victim.Code(), &victim.stderr)
			}
			return false
		case <-late:
			t.Fatalf("process %d does not begin to compute", killed)
		}
	}
	shared := sharedMemory(victim)
	victim.Signal(unix.SIGKILL) // unless it has ended
	<-victim.Done()
	if victim.Code() == 0 {
		return false
	}
	awaitAll(all)
	for rank, p := range all {
		switch said := p.stderr.String(); {
		case rank == killed:
		case p.Code() == 0: // it had all that it needed
			return false
		case p.Code() != 1 || !strings.Contains(said, fmt.Sprintf("rank %d ", killed)):
			t.Errorf("process %d ended with code %d, want an error that names %d: %s", rank, p.Code(), killed, said)
		}
	}
	leaktest.None(t, "memory shared with the killed process", func() []string { return stillMapped(shared) })
	noSockets(t, l)
	namespaces := closeLab(t, l)
	leaktest.None(t, "network namespaces", func() []string { return leaktest.Namespaces(namespaces) })
	return true
}

// awaitAll waits until all have ended. One that hangs says where, and is ended.
func awaitAll(all []*player) {
	for _, p := range all {
		select {
		case <-p.Done():
		case <-time.After(patience):
			p.Signal(unix.SIGQUIT)
			<-p.Done()
		}
	}
}

// computes reports whether a process shares memory with its neighbour, and has had some
// processor time.
func computes(p *player) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	_, after, ok := strings.Cut(string(text), ") ")
	if err != nil || !ok || len(sharedMemory(p)) == 0 {
		return false
	}
	user, err := strconv.Atoi(strings.Fields(after)[11]) // field 14, in hundredths of a second
	return err == nil && user >= 5
}
