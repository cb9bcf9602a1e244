package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
)

// manyStages are the lines that a rank of TestKilledOfMany prints, in this order. One rank is killed
// when it has printed one of them: before it joins, while ranks connect in their first collective,
// or between later collectives.
var manyStages = []string{"begins", "joined", "collects"}

// manyRunEnv is the number of the run of TestKilledOfMany that a rank is in.
const manyRunEnv = "BOBNET_TEST_RUN"

// TestKilledOfMany: one of many ranks that connect on first use is killed, at each stage of
// the job. Every other rank learns which one has failed, or that the job cannot start, and ends.
func TestKilledOfMany(t *testing.T) {
	size, runs := 12, len(manyStages)
	if need.Full() {
		size, runs = 64, 2*len(manyStages) // about six seconds each
	}
	l := newLab(t, lab.Config{N: size})
	for run := range runs {
		stage, victim := manyStages[run%len(manyStages)], (run*7+3)%size
		ranks := play(t, l, "killmany", fmt.Sprint(manyRunEnv, "=", run))
		for line := ""; line != stage; {
			line = ranks[victim].line(t)
		}
		kill(t, ranks[victim].Proc)
		for rank, p := range ranks {
			if rank == victim {
				continue
			}
			line := p.line(t)
			for _, s := range manyStages {
				if line == s {
					line = p.line(t)
				}
			}
			if want := fmt.Sprintf("rank %d failed", victim); line != want && (line != "not started" || stage != manyStages[0]) {
				t.Errorf("run %d, rank %d was killed when it had printed %q: rank %d prints %q, want %q", run, victim, stage, rank, line, want)
			}
		}
		for rank, p := range ranks {
			if rank != victim {
				p.end(t)
			}
		}
	}
}

// killManyRole is a rank of TestKilledOfMany.
func killManyRole(ctx context.Context) error {
	run, err := strconv.Atoi(os.Getenv(manyRunEnv))
	if err != nil {
		return err
	}
	cfg := config()
	cfg.Job += fmt.Sprint("-", run)
	cfg.Connect, cfg.PeerTimeout, cfg.Timeout = mplite.OnUse, 2*time.Second, 30*time.Second
	fmt.Println(manyStages[0])
	c, err := mplite.Init(ctx, cfg)
	if err == nil {
		fmt.Println(manyStages[1])
	}
	for i := 0; err == nil; i++ {
		if i == 20 {
			fmt.Println(manyStages[2])
		}
		sum := []int{1}
		err = mplite.Allreduce(ctx, c, nil, sum, mplite.Sum[int]())
	}
	var failed *mplite.RankError
	switch {
	case errors.As(err, &failed):
		fmt.Printf("rank %d failed\n", failed.Rank)
	case c == nil && errors.Is(err, mplite.ErrInit):
		fmt.Println("not started")
	default:
		return err
	}
	if c == nil {
		return nil
	}
	c.AckFailed()
	if err := c.Finalize(ctx); !errors.Is(err, mplite.ErrRankFailed) {
		return err
	}
	return nil
}
