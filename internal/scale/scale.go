// Package scale runs MPLite jobs of many ranks on a simulated segment and reports their cost:
// connections, memory, the time of the start and of collectives, frames and broadcasts. Times are
// virtual: they include the network, but not the processor time of the ranks.
package scale

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Limits of the number of ranks.
const (
	MinRanks = 2
	MaxRanks = job.MaxRanks
)

// Bandwidth is the bit rate of each link of the segment, and Delay the time of a frame from a station through
// the switch to another one, in addition to its length.
const (
	Bandwidth = 10_000_000_000
	Delay     = 2 * time.Microsecond
)

// Cost is the cost of a job. All values except Ranks, Start, Collectives and End are per rank.
type Cost struct {
	Ranks       int
	Start       time.Duration // from the first Init to the end of the last one
	Frames      float64       // average number of frames that a rank sends until the end of the start
	Broadcasts  float64       // average number of broadcasts among these frames; negative: unknown
	Connections int           // largest number on any rank, after the collectives
	Heap        int           // average bytes of live objects, including those of the simulator
	Buffers     int           // largest number of bytes of registered memory on any rank, including pages that were never used
	Collectives []Collective
	End         time.Duration // from the first Finalize to the end of the last one
}

// Collective is an operation of all ranks with its time from the last rank's call to the last
// rank's result: First for the first call, which opens connections, and Again for the second call.
// Times of 0 mean that the operation was not called, because its simulation takes too long for this
// number of ranks.
type Collective struct {
	Name         string
	First, Again time.Duration
}

// kind is an operation of all ranks.
type kind struct {
	name string
	run  func(c *mplite.Comm) error
	most int // maximum number of ranks; 0: no limit
}

// collectives are the operations that a job runs, in this order.
var collectives = []kind{
	{name: "barrier", run: func(c *mplite.Comm) error { return c.Barrier(bg) }},
	{name: "allreduce of 8 B", run: allreduce(1)},
	{name: "allreduce of 64 KiB", run: allreduce(8 << 10)},
	{name: "broadcast of 64 KiB", run: func(c *mplite.Comm) error { return c.Bcast(bg, make([]byte, 64<<10), 0) }},
	{name: "broadcast of 1 MiB", run: func(c *mplite.Comm) error { return c.Bcast(bg, message[:], 0) }, most: 256}, // the ring sends ranks squared messages
	{name: "allgather of 8 B", run: func(c *mplite.Comm) error {
		return mplite.Allgather(bg, c, []int64{1}, make([]int64, c.Size()))
	}},
	{name: "all-to-all of 8 B", run: func(c *mplite.Comm) error {
		return mplite.Alltoall(bg, c, make([]int64, c.Size()), make([]int64, c.Size()))
	}},
	{name: "halo of 1 KiB", run: halo},
}

// message is the data of a long broadcast. All ranks use the same memory, because all have the same
// bytes.
var message [1 << 20]byte

// halo exchanges edges of 1 KiB with the four neighbours in a grid of all ranks, which is about square and wraps
// around.
func halo(c *mplite.Comm) error {
	dims := make([]int, 2)
	if err := mplite.DimsCreate(c.Size(), dims); err != nil {
		return err
	}
	rows, columns := dims[0], dims[1]
	row, column := c.Rank()/columns, c.Rank()%columns
	at := func(r, col int) int { return (r+rows)%rows*columns + (col+columns)%columns }
	var edge, ghost [1 << 10]byte
	for tag, ends := range [][2]int{
		{at(row-1, column), at(row+1, column)}, {at(row+1, column), at(row-1, column)},
		{at(row, column-1), at(row, column+1)}, {at(row, column+1), at(row, column-1)},
	} {
		if _, err := c.Sendrecv(bg, edge[:], ends[0], tag, ghost[:], ends[1], tag); err != nil {
			return err
		}
	}
	return nil
}

var bg = context.Background()

// allreduce returns a sum of n numbers.
func allreduce(n int) func(c *mplite.Comm) error {
	return func(c *mplite.Comm) error {
		sum := make([]int64, n)
		for i := range sum {
			sum[i] = int64(c.Rank())
		}
		if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int64]()); err != nil {
			return err
		}
		if want := int64(c.Size()) * int64(c.Size()-1) / 2; sum[n-1] != want {
			return fmt.Errorf("scale: the ranks add up to %d, want %d", sum[n-1], want)
		}
		return nil
	}
}

// run is a simulated job.
type run struct {
	*sim.World
	cost    Cost
	kinds   []kind
	inited  int
	through int
	ends    span
	spans   [][2]span // of each collective, both calls
	before  uint64    // bytes of live objects
	errs    []error
}

// span is the time of an operation of all ranks.
type span struct{ begun, ended int64 }

// Measure runs a job with the given number of ranks, each on a separate station with the default
// configuration. If ctx ends, Measure returns its error soon afterwards.
func Measure(ctx context.Context, ranks int) (Cost, error) { return measure(ctx, ranks, collectives) }

// measure is Measure for a job that runs the given collectives.
func measure(ctx context.Context, ranks int, kinds []kind) (Cost, error) {
	if ranks < MinRanks || ranks > MaxRanks {
		return Cost{}, fmt.Errorf("scale: a job of %d ranks is not in %d..%d", ranks, MinRanks, MaxRanks)
	}
	r := &run{
		World:  sim.New(sim.Options{Bandwidth: Bandwidth, Delay: Delay}),
		cost:   Cost{Ranks: ranks},
		kinds:  kinds,
		spans:  make([][2]span, len(kinds)),
		before: heap(),
	}
	stations := make([]*sim.Station, ranks)
	for rank := range stations {
		stations[rank] = r.Station(fmt.Sprint("rank ", rank))
		r.Go(fmt.Sprint("rank ", rank), func() {
			if err := r.rank(stations[rank], rank); err != nil {
				r.errs = append(r.errs, fmt.Errorf("rank %d: %w", rank, err))
			}
		})
	}
	r.watch(ctx, stations)
	err := r.Run()
	if ctx.Err() != nil {
		return Cost{}, ctx.Err()
	}
	if err := errors.Join(append(r.errs, err)...); err != nil {
		return Cost{}, err
	}
	r.cost.End = time.Duration(r.ends.ended - r.ends.begun)
	for i, both := range r.spans {
		first, again := both[0], both[1]
		r.cost.Collectives = append(r.cost.Collectives, Collective{
			Name: kinds[i].name, First: time.Duration(first.ended - first.begun), Again: time.Duration(again.ended - again.begun),
		})
	}
	return r.cost, nil
}

// lookEvery is the interval, in virtual time, at which the world checks whether its caller's
// context has ended.
const lookEvery = int64(100 * time.Microsecond)

// watch ends all processes when ctx has ended.
func (r *run) watch(ctx context.Context, stations []*sim.Station) {
	var look func()
	look = func() {
		switch {
		case ctx.Err() != nil:
			for _, s := range stations {
				r.Kill(s)
			}
		case r.through < len(stations):
			r.At(r.Now()+lookEvery, look)
		}
	}
	r.At(r.Now(), look)
}

// rank is the process of a rank.
func (r *run) rank(link *sim.Station, rank int) (err error) {
	nic, err := vipl.Open(bg, &vipl.Config{Link: link, Seed: uint64(rank) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	cfg := job.Config{Job: "plan", Rank: rank, Size: r.cost.Ranks, NIC: nic}
	c, err := mplite.Init(bg, &mplite.Config{Config: cfg})
	if err != nil {
		return err
	}
	defer func() {
		if r.ends.begun == 0 {
			r.ends.begun = r.Now()
		}
		err = errors.Join(err, c.Close())
		r.ends.ended = r.Now()
	}()
	if r.inited++; r.inited == r.cost.Ranks {
		r.started()
	}
	for i := range r.kinds {
		if most := r.kinds[i].most; most > 0 && r.cost.Ranks > most {
			continue
		}
		for call := range 2 {
			if i+call > 0 {
				if err := c.Barrier(bg); err != nil {
					return err
				}
			}
			s := &r.spans[i][call]
			s.begun = max(s.begun, r.Now())
			if err := r.kinds[i].run(c); err != nil {
				return fmt.Errorf("%s: %w", r.kinds[i].name, err)
			}
			s.ended = max(s.ended, r.Now())
		}
	}
	has := nic.Snapshot()
	r.cost.Connections = max(r.cost.Connections, len(has.VIs))
	r.cost.Buffers = max(r.cost.Buffers, has.RegionBytes)
	if r.through++; r.through == r.cost.Ranks {
		r.cost.Heap = int(heap()-r.before) / r.cost.Ranks
	}
	return nil
}

// started records the frames that were sent before the last rank had joined.
func (r *run) started() {
	n, sent := float64(r.cost.Ranks), r.Stats()
	r.cost.Start = time.Duration(r.Now() - sim.Start)
	r.cost.Frames, r.cost.Broadcasts = float64(sent.Sent)/n, -1
	if n > 2 { // the switch copies a broadcast to all other stations
		r.cost.Broadcasts = float64(sent.Copies-sent.Sent) / (n - 2) / n
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
