package test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/cg"
	"github.com/bobnet-go/bobnet/internal/examples/cholesky"
	"github.com/bobnet-go/bobnet/internal/examples/em3d"
	"github.com/bobnet-go/bobnet/internal/examples/fft3d"
	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// stored is what a program has stored: how often, and how many bytes.
type stored struct{ stores, bytes int }

// storesOf runs an application of the examples in the simulator. Rank 0's report says what
// all ranks have stored.
func storesOf(t *testing.T, ranks int, run func(ctx context.Context, w *splitc.World) (stored, error)) (s stored) {
	t.Helper()
	world := sim.New(sim.Options{Seed: 1})
	errs := make([]error, ranks)
	for rank := range ranks {
		link := world.Station(fmt.Sprint("host", rank))
		world.Go(fmt.Sprint("rank", rank), func() {
			errs[rank] = func() error {
				nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: uint64(rank) + 1})
				if err != nil {
					return err
				}
				defer nic.Close()
				w, err := splitc.Start(t.Context(), &splitc.Config{Config: job.Config{Job: t.Name(), Rank: rank, Size: ranks, NIC: nic}, Layer: "reliable", HeapSize: 4 << 20})
				if err != nil {
					return err
				}
				got, err := run(t.Context(), w)
				if rank == 0 {
					s = got
				}
				return errors.Join(err, w.Exit(t.Context()))
			}()
		})
	}
	if err := errors.Join(world.Run(), errors.Join(errs...)); err != nil {
		t.Fatal(err)
	}
	return s
}

// direct is a skeleton's link whose requests are there at once.
type direct struct {
	w     *sim.World
	me    *skeleton.Rank
	wait  *sim.Waiter
	links []*direct
}

func (l *direct) Request(to int, kind skeleton.Kind, value int32, bytes int) error {
	if answer := l.links[to].me.Arrived(kind, value, bytes); kind == skeleton.Add {
		l.me.Answered(answer)
	}
	l.links[to].wait.Wake()
	return l.w.Sleep(time.Microsecond)
}

func (l *direct) Await() error { return l.wait.Wait(l.w.Now() + int64(time.Second)) }
func (l *direct) Poll() error  { return nil }
func (l *direct) Segment() int { return 4096 }

// Compute has each rank take about as long for the same work as the others.
func (l *direct) Compute(operations int) error { return l.w.Sleep(time.Duration(operations)) }

// storesOfSkeleton runs a skeleton.
func storesOfSkeleton(t *testing.T, ranks int, run func(r *skeleton.Rank) error) (s stored) {
	t.Helper()
	world := sim.New(sim.Options{Seed: 1, Limit: time.Hour})
	links, errs := make([]*direct, ranks), make([]error, ranks)
	for i := range links {
		links[i] = &direct{w: world, wait: world.Waiter(), links: links}
		links[i].me = skeleton.New(links[i], i, ranks)
	}
	for i, l := range links {
		world.Go(fmt.Sprint("rank", i), func() { errs[i] = run(l.me) })
	}
	if err := errors.Join(world.Run(), errors.Join(errs...)); err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		s.stores += l.me.Stores
		s.bytes += l.me.Bytes
	}
	return s
}

// TestSkeletonsStoreAlike: the skeletons by which bobnet paper repeats figure 6-5 of the
// Split-C paper store as often and as much as the applications under examples, on several
// numbers of ranks. EM3D's graph is random in both, so that it may differ a little. Ray
// tracing is left out: where drawing takes no virtual time, rank 0 draws all and stores
// nothing.
func TestSkeletonsStoreAlike(t *testing.T) {
	for _, ranks := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(ranks, " ranks"), func(t *testing.T) {
			regularSkeletons(t, ranks)
			graphSkeletons(t, ranks)
		})
	}
}

// alike compares an application and its skeleton. Counts may differ by a share.
func alike(t *testing.T, what string, app, bones stored, nearStores, nearBytes float64) {
	t.Helper()
	far := func(a, b int, near float64) bool { return math.Abs(float64(a-b)) > near*float64(b) }
	if app.stores == 0 || far(bones.stores, app.stores, nearStores) || far(bones.bytes, app.bytes, nearBytes) {
		t.Errorf("%s: the skeleton stores %+v, the application %+v", what, bones, app)
	}
}

// regularSkeletons compares the applications that store the same whatever the values are.
func regularSkeletons(t *testing.T, ranks int) {
	app := storesOf(t, ranks, func(ctx context.Context, w *splitc.World) (stored, error) {
		rep, _, err := fft3d.Run(ctx, w, fft3d.Config{N: 16, Seed: 1}, false)
		if err != nil {
			return stored{}, err
		}
		return stored{int(rep.Traffic.Store.Operations), int(rep.Traffic.Store.Bytes)}, nil
	})
	alike(t, "fft3d", app, storesOfSkeleton(t, ranks, skeleton.FFT3D{N: 16}.Run), 0, 0)

	steps := 0
	app = storesOf(t, ranks, func(ctx context.Context, w *splitc.World) (stored, error) {
		rep, result, err := cg.Run(ctx, w, cg.Config{N: 64, Row: 6, Seed: 1, Tolerance: 1e-6, MaxSteps: 1000})
		if err != nil {
			return stored{}, err
		}
		steps = result.Steps
		return stored{int(rep.Traffic.Store.Operations), int(rep.Traffic.Store.Bytes)}, nil
	})
	alike(t, "cg", app, storesOfSkeleton(t, ranks, skeleton.CG{N: 64, Row: 6, Steps: steps}.Run), 0, 0)

	app = storesOf(t, ranks, func(ctx context.Context, w *splitc.World) (stored, error) {
		rep, _, err := cholesky.Run(ctx, w, cholesky.Config{N: 160, Down: 3, Over: 2, Seed: 1}, false)
		if err != nil {
			return stored{}, err
		}
		return stored{int(rep.Traffic.Store.Operations), int(rep.Traffic.Store.Bytes)}, nil
	})
	alike(t, "cholesky", app, storesOfSkeleton(t, ranks, skeleton.Cholesky{N: 160, Down: 3, Over: 2}.Run), 0, 0)
}

// graphSkeletons compares EM3D, whose ranks store values one by one, or together.
func graphSkeletons(t *testing.T, ranks int) {
	for _, single := range []bool{false, true} {
		app := storesOf(t, ranks, func(ctx context.Context, w *splitc.World) (stored, error) {
			rep, _, err := em3d.Run(ctx, w, em3d.Config{Particles: 500, Degree: 5, Remote: 0.3, Steps: 3, Single: single, Seed: 1}, false)
			if err != nil {
				return stored{}, err
			}
			return stored{int(rep.Traffic.Store.Operations), int(rep.Traffic.Store.Bytes)}, nil
		})
		bones := storesOfSkeleton(t, ranks, skeleton.EM3D{Particles: 500, Degree: 5, Remote: 0.3, Steps: 3, Single: single}.Run)
		near := 0.05
		if !single {
			near = 0
		}
		alike(t, fmt.Sprint("em3d, single stores: ", single), app, bones, near, 0.05)
	}
}
