package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
)

// The work of one rank in a measurement of collectives. The C program for MPI (c/collectives.c)
// makes the same calls in the same order.

// collective is a collective of mplite as a rank calls it, with n elements in each part.
type collective struct {
	name string
	call func(ctx context.Context, r *collRank, n int) error
}

// collectives are in the order of the output.
var collectives = []collective{
	{"barrier", func(ctx context.Context, r *collRank, _ int) error { return r.comm.Barrier(ctx) }},
	{"bcast", func(ctx context.Context, r *collRank, n int) error { return mplite.Bcast(ctx, r.comm, r.in[:n], 0) }},
	{"reduce", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Reduce(ctx, r.comm, r.in[:n], r.out[:n], r.sum, 0)
	}},
	{"allreduce", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Allreduce(ctx, r.comm, r.in[:n], r.out[:n], r.sum)
	}},
	{"gather", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Gather(ctx, r.comm, r.in[:n], r.all(r.out, n), 0)
	}},
	{"gatherv", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Gatherv(ctx, r.comm, r.in[:n], r.all(r.out, n), r.counts, 0)
	}},
	{"scatter", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Scatter(ctx, r.comm, r.all(r.in, n), r.out[:n], 0)
	}},
	{"scatterv", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Scatterv(ctx, r.comm, r.all(r.in, n), r.counts, r.out[:n], 0)
	}},
	{"allgather", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Allgather(ctx, r.comm, r.in[:n], r.all(r.out, n))
	}},
	{"allgatherv", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Allgatherv(ctx, r.comm, r.in[:n], r.all(r.out, n), r.counts)
	}},
	{"alltoall", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Alltoall(ctx, r.comm, r.all(r.in, n), r.all(r.out, n))
	}},
	{"alltoallv", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Alltoallv(ctx, r.comm, r.all(r.in, n), r.counts, r.all(r.out, n), r.counts)
	}},
	{"reduce_scatter", func(ctx context.Context, r *collRank, n int) error {
		return mplite.ReduceScatter(ctx, r.comm, r.all(r.in, n), r.out[:n], r.counts, r.sum)
	}},
	{"scan", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Scan(ctx, r.comm, r.in[:n], r.out[:n], r.sum)
	}},
	{"exscan", func(ctx context.Context, r *collRank, n int) error {
		return mplite.Exscan(ctx, r.comm, r.in[:n], r.out[:n], r.sum)
	}},
}

// collBarrier is the collective that moves no data: it is measured with one size, 0.
const collBarrier = "barrier"

// The modes of a measurement of collectives.
const (
	CollLoop  = "loop"  // one call after another: a root may run ahead of the other ranks
	CollApart = "apart" // a barrier before each call, which is not timed
)

// CollModes are the modes in the order of the output.
var CollModes = []string{CollLoop, CollApart}

// The number of calls in a sample: as many as fill half of its time.
const (
	collGrowth   = 4
	collMaxCalls = 4096
)

// collElem is the size of an element in bytes: a float64.
const collElem = 8

// collSample is what rank 0 prints for a collective, a size and a mode.
type collSample struct {
	Collective string  `json:"collective"`
	Mode       string  `json:"mode"`
	Size       int     `json:"size"`
	Micros     float64 `json:"us"`
	Calls      int     `json:"calls"`
}

// collRank is one rank of a measurement.
type collRank struct {
	comm    *mplite.Comm
	in, out []float64 // a part for each rank
	counts  []int
	sum     mplite.Op[float64]
}

// all returns the parts of n elements of all ranks in buf.
func (r *collRank) all(buf []float64, n int) []float64 { return buf[:n*r.comm.Size()] }

// collArgs returns the arguments of the program that measures on each rank, in Go or in C.
func collArgs(sample time.Duration, names []string, sizes []int) []string {
	var texts []string
	for _, n := range sizes {
		texts = append(texts, strconv.Itoa(n))
	}
	return []string{strconv.FormatInt(sample.Microseconds(), 10), strings.Join(names, ","), strings.Join(texts, ",")}
}

// RunCollectives measures as one rank of comm. args are those of the program that Collectives starts.
// Rank 0 writes the results to out, one JSON object on each line.
func RunCollectives(ctx context.Context, comm *mplite.Comm, args []string, out io.Writer) error {
	sample, names, sizes, err := parseCollArgs(args)
	if err != nil {
		return err
	}
	most := slices.Max(sizes) / collElem * comm.Size()
	r := &collRank{comm: comm, in: make([]float64, most), out: make([]float64, most), counts: make([]int, comm.Size()), sum: mplite.Sum[float64]()}
	enc := json.NewEncoder(out)
	for _, s := range collCells(names, sizes) {
		err := r.measure(ctx, &s, sample)
		if err == nil && comm.Rank() == 0 {
			err = enc.Encode(s)
		}
		if err != nil {
			return fmt.Errorf("perf: %s of %d bytes: %w", s.Collective, s.Size, err)
		}
	}
	return nil
}

// collCells returns the measurements, in the order in which rank 0 prints them.
func collCells(names []string, sizes []int) (cells []collSample) {
	for _, name := range names {
		sizes := sizes
		if name == collBarrier {
			sizes = []int{0}
		}
		for _, size := range sizes {
			for _, mode := range CollModes {
				cells = append(cells, collSample{Collective: name, Mode: mode, Size: size})
			}
		}
	}
	return cells
}

func parseCollArgs(args []string) (sample time.Duration, names []string, sizes []int, err error) {
	bad := fmt.Errorf("perf: arguments %q: want microseconds, collectives and sizes (only `bobnet perf` itself starts this verb)", args)
	if len(args) != 3 {
		return 0, nil, nil, bad
	}
	us, err := strconv.Atoi(args[0])
	if err != nil || us < 1 {
		return 0, nil, nil, bad
	}
	names = strings.Split(args[1], ",")
	for _, name := range names {
		if !slices.Contains(CollNames(), name) {
			return 0, nil, nil, bad
		}
	}
	for _, text := range strings.Split(args[2], ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < collElem || n > MaxSize {
			return 0, nil, nil, bad
		}
		sizes = append(sizes, n)
	}
	return time.Duration(us) * time.Microsecond, names, sizes, nil
}

// measure takes one sample of s: it completes its time and calls.
func (r *collRank) measure(ctx context.Context, s *collSample, sample time.Duration) (err error) {
	c := collectives[slices.IndexFunc(collectives, func(c collective) bool { return c.name == s.Collective })]
	n := s.Size / collElem
	for i := range r.counts {
		r.counts[i] = n
	}
	if _, err = r.run(ctx, c, s.Mode, n, 1); err != nil { // not measured
		return err
	}
	for s.Calls = 1; ; s.Calls *= collGrowth {
		s.Micros, err = r.run(ctx, c, s.Mode, n, s.Calls)
		if err != nil || s.Micros*float64(s.Calls) >= float64(sample.Microseconds())/2 || s.Calls >= collMaxCalls {
			return err
		}
	}
}

// run makes some calls. It returns the time of one call in microseconds: the mean of the rank at
// which it is the longest.
func (r *collRank) run(ctx context.Context, c collective, mode string, n, calls int) (each float64, err error) {
	var took time.Duration
	start := time.Now()
	for range calls {
		if mode == CollApart {
			if err := r.comm.Barrier(ctx); err != nil {
				return 0, err
			}
			start = time.Now()
		}
		if err := c.call(ctx, r, n); err != nil {
			return 0, err
		}
		if mode == CollApart {
			took += time.Since(start)
		}
	}
	if mode == CollLoop {
		took = time.Since(start)
	}
	all := []float64{float64(took.Nanoseconds()) / 1e3 / float64(calls)}
	err = mplite.Allreduce(ctx, r.comm, nil, all, mplite.Max[float64]())
	return all[0], err
}
