package heat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

func TestRunMatchesSerial(t *testing.T) {
	for _, c := range []struct {
		ranks, width, height int
		loss                 float64
	}{
		{1, 20, 10, 0}, {2, 20, 10, 0}, {3, 31, 17, 0}, {4, 40, 30, 0.05}, {5, 5, 40, 0},
		{6, 40, 9, 0.02}, {9, 30, 30, 0}, {4, 2000, 4, 0},
	} {
		t.Run(fmt.Sprintf("%d ranks, %dx%d, loss %v", c.ranks, c.width, c.height, c.loss), func(t *testing.T) {
			const steps = 12
			cfg := Config{Initial: randomPlate(rand.New(rand.NewPCG(1, uint64(c.ranks))), c.width, c.height), Steps: steps, Reports: 3}
			want, err := Serial(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var reports []Progress
			cfg.Progress = func(p Progress) { reports = append(reports, p) }
			opts := sim.Options{Seed: 1, Loss: c.loss, Delay: 5 * time.Microsecond, MTU: 9000}
			simjob.Run(t, opts, c.ranks, func(ctx context.Context, comm *mplite.Comm) {
				mine := Config{}
				if comm.Rank() == 0 {
					mine = cfg
				}
				res, err := Run(ctx, comm, mine)
				switch {
				case err != nil:
					t.Error(err)
				case comm.Rank() != 0 && res.Grid != nil:
					t.Errorf("rank %d has the result too", comm.Rank())
				case comm.Rank() == 0:
					if err := res.Grid.Equal(want); err != nil {
						t.Error(err)
					}
				}
			})
			if len(reports) != 3 || reports[2].Step != steps {
				t.Errorf("reports were %v, want 3, the last at step %d", reports, steps)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"unstable":  {Rate: 0.5},
		"too small": {Initial: NewGrid(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			simjob.Run(t, sim.Options{Seed: 1}, 4, func(ctx context.Context, comm *mplite.Comm) {
				mine := Config{}
				if comm.Rank() == 0 {
					mine = cfg
				}
				if _, err := Run(ctx, comm, mine); !errors.Is(err, ErrConfig) && !errors.Is(err, ErrNoPlate) {
					t.Errorf("rank %d: %v", comm.Rank(), err)
				}
			})
		})
	}
}
