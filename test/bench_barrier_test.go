package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
)

// The rounds of one run of the benchmark.
const (
	barrierRounds = 20
	barrierOps    = 100 // in a round, of each kind
)

// barrierRound is what a barrier took, in nanoseconds, in one round on rank 0.
type barrierRound struct{ SplitC, MPLite float64 }

// BenchmarkBarrierOversubscribed compares Split-C's barrier, over each layer and over shared
// memory between the two ranks of a host, with MPLite's, on 8 ranks, in the same processes
// and one job, by turns. With less than 8 processors, waiting by polling costs other ranks
// their time.
//
//	go test ./test -run '^$' -bench BarrierOversubscribed
//
// It reports the medians, and that of the rounds' ratios: mplite-ratio below 1 means that
// Split-C is the faster.
func BenchmarkBarrierOversubscribed(b *testing.B) {
	for _, c := range []struct {
		layer   string
		perHost int
	}{{"am", 1}, {"reliable", 1}, {"unreliable", 1}, {"rdma", 1}, {"shm", 1}, {"shm", 2}} {
		b.Run(fmt.Sprintf("%s/per-host=%d", c.layer, c.perHost), func(b *testing.B) {
			l := newLab(b, lab.Config{N: 8, PerHost: c.perHost})
			var splitC, mp, ratio []float64
			for b.Loop() {
				ranks := play(b, l, "barriers", splitc.EnvLayer+"="+c.layer)
				for range barrierRounds {
					var r barrierRound
					if err := json.Unmarshal([]byte(ranks[0].line(b)), &r); err != nil {
						b.Fatal(err)
					}
					splitC, mp, ratio = append(splitC, r.SplitC), append(mp, r.MPLite), append(ratio, r.SplitC/r.MPLite)
				}
				for _, p := range ranks {
					p.end(b)
				}
			}
			b.ReportMetric(0, "ns/op") // of starting processes: of no interest
			b.ReportMetric(median(splitC)/1e3, "splitc-µs")
			b.ReportMetric(median(mp)/1e3, "mplite-µs")
			b.ReportMetric(median(ratio), "mplite-ratio")
		})
	}
}

// barriersRole is a rank of the benchmark.
func barriersRole(ctx context.Context) error {
	member, err := job.Open(ctx, nil, job.Program{Name: "barriers", Version: 1})
	if err != nil {
		return err
	}
	comm, err := mplite.Init(ctx, &mplite.Config{Member: member})
	if err != nil {
		return err
	}
	w, err := splitc.Start(ctx, &splitc.Config{Member: member, HeapSize: 1 << 20})
	if err != nil {
		return err
	}
	if err := barrierTurns(ctx, comm, w); err != nil {
		return err
	}
	if err := w.Exit(ctx); err != nil {
		return err
	}
	if err := comm.Finalize(ctx); err != nil {
		return err
	}
	return member.Leave(ctx)
}

// barrierTurns measures both by turns, and whichever was second in a round is first in the
// next.
func barrierTurns(ctx context.Context, comm *mplite.Comm, w *splitc.World) error {
	enc := json.NewEncoder(os.Stdout)
	for i := range barrierRounds {
		var r barrierRound
		turns := []func() error{
			func() (err error) { r.SplitC, err = eachBarrier(ctx, w.Barrier); return err },
			func() (err error) { r.MPLite, err = eachBarrier(ctx, comm.Barrier); return err },
		}
		for k := range turns {
			if err := turns[(i+k)%2](); err != nil {
				return err
			}
		}
		if w.MyProc() != 0 {
			continue
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// eachBarrier returns what one barrier takes, in nanoseconds. A few before let what waits
// adapt.
func eachBarrier(ctx context.Context, barrier func(context.Context) error) (float64, error) {
	var start time.Time
	for i := range barrierOps + barrierOps/4 {
		if i == barrierOps/4 {
			start = time.Now()
		}
		if err := barrier(ctx); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start)) / barrierOps, nil
}
