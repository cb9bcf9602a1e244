package heat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
)

// Result is what Run returns.
type Result struct {
	Grid         *Grid         // the plate after the last step on rank 0; nil on other ranks
	Across, Down int           // number of blocks of the plate in each direction
	Elapsed      time.Duration // time of the steps on this rank
	Waited       time.Duration // part of Elapsed: waiting for the neighbours' edges after the inner cells were computed
}

// ErrNoPlate is the error of Run on the other ranks if rank 0 has no plate or an impossible
// configuration. The error on rank 0 gives the details.
var ErrNoPlate = errors.New("heat: rank 0 could not start")

// Run computes cfg.Steps steps on all ranks of comm, all of which must call it. It uses the
// configuration of rank 0; other ranks may pass a zero Config. An error of communication wraps the
// error of mplite, which names a dead rank.
func Run(ctx context.Context, comm *mplite.Comm, cfg Config) (Result, error) {
	job, first, err := agree(ctx, comm, cfg)
	if err != nil {
		return Result{}, err
	}
	s, err := newSolver(ctx, comm, job)
	if err != nil {
		return Result{}, err
	}
	defer s.cart.Free()
	if err := s.scatter(ctx, first); err != nil {
		return Result{}, err
	}
	res := Result{Across: s.across, Down: s.down}
	start := time.Now()
	for step := 1; step <= job.Steps; step++ {
		waited, err := s.step(ctx)
		if err != nil {
			return res, fmt.Errorf("heat: step %d of %d: %w", step, job.Steps, err)
		}
		res.Waited += waited
		if step%job.reportEvery() == 0 {
			if err := s.report(ctx, step, cfg.Progress); err != nil {
				return res, fmt.Errorf("heat: step %d of %d: %w", step, job.Steps, err)
			}
		}
	}
	res.Elapsed = time.Since(start)
	res.Grid, err = s.gather(ctx)
	return res, err
}

// job is the part of the configuration that all ranks need.
type job struct {
	Config
	width, height int
}

// agree distributes rank 0's configuration and returns it and, on rank 0, the
// plate.
func agree(ctx context.Context, comm *mplite.Comm, cfg Config) (job, *Grid, error) {
	var first *Grid
	var cause error
	said := make([]float64, 6) // all zero if rank 0 cannot start
	if comm.Rank() == 0 {
		cfg = cfg.withDefaults()
		if cause = cfg.validate(); cause == nil {
			first, cause = cfg.plate()
		}
		if cause == nil {
			said = []float64{float64(first.Width), float64(first.Height), float64(cfg.Steps), cfg.Rate, cfg.Source, float64(cfg.Reports)}
		}
	}
	if err := mplite.Bcast(ctx, comm, said, 0); err != nil {
		return job{}, nil, err
	}
	if said[0] == 0 {
		if cause == nil {
			cause = ErrNoPlate
		}
		return job{}, nil, cause
	}
	return job{
		Config: Config{Steps: int(said[2]), Rate: said[3], Source: said[4], Reports: int(said[5])},
		width:  int(said[0]), height: int(said[1]),
	}, first, nil
}

// solver is one rank of a run.
type solver struct {
	job
	cart         *mplite.Cart
	across, down int
	block        *block
	halo         *exchange
}

func newSolver(ctx context.Context, comm *mplite.Comm, j job) (*solver, error) {
	dims := []int{0, 0}
	if err := mplite.DimsCreate(comm.Size(), dims); err != nil {
		return nil, err
	}
	if j.height < j.width { // dims[0] is the larger one: divide the longer side into more parts
		dims[0], dims[1] = dims[1], dims[0]
	}
	cart, err := comm.CartCreate(ctx, dims, []bool{false, false})
	if err != nil {
		return nil, err
	}
	s := &solver{job: j, cart: cart, down: dims[0], across: dims[1]}
	at, err := cart.Coords(cart.Rank())
	if err != nil {
		return nil, err
	}
	if s.block, err = newBlock(j.width, j.height, s.across, s.down, at[1], at[0]); err != nil {
		return nil, err
	}
	s.halo, err = newExchange(cart, s.block)
	return s, err
}

// spans returns the columns and rows of a rank.
func (s *solver) spans(rank int) (cols, rows span, err error) {
	at, err := s.cart.Coords(rank)
	if err != nil {
		return span{}, span{}, err
	}
	return divide(s.width, s.across, at[1]), divide(s.height, s.down, at[0]), nil
}

// step computes one step and returns how long it waited for the neighbours.
func (s *solver) step(ctx context.Context) (time.Duration, error) {
	if err := s.halo.start(); err != nil {
		return 0, err
	}
	s.block.inner(s.Rate)
	start := time.Now()
	if err := s.halo.finish(ctx); err != nil {
		return 0, err
	}
	waited := time.Since(start)
	s.block.edge(s.Rate)
	s.block.finish()
	return waited, nil
}

// report sends the mean temperature to rank 0.
func (s *solver) report(ctx context.Context, step int, progress func(Progress)) error {
	total := []float64{0}
	if err := mplite.Reduce(ctx, s.cart.Comm, []float64{s.block.sum()}, total, mplite.Sum[float64](), 0); err != nil {
		return err
	}
	if s.cart.Rank() == 0 && progress != nil {
		progress(Progress{step, s.Steps, total[0] / float64(s.width*s.height)})
	}
	return nil
}

// scatter gives each rank its block of rank 0's plate.
func (s *solver) scatter(ctx context.Context, first *Grid) error {
	counts, all, err := s.layout(first)
	if err != nil {
		return err
	}
	mine := make([]float64, counts[s.cart.Rank()])
	if err := mplite.Scatterv(ctx, s.cart.Comm, all, counts, mine, 0); err != nil {
		return err
	}
	s.block.load(mine, s.Source)
	return nil
}

// layout returns the number of cells of each rank and, if plate is not nil, the cells in the order
// of ranks.
func (s *solver) layout(plate *Grid) (counts []int, all []float64, err error) {
	for rank := range s.cart.Size() {
		cols, rows, err := s.spans(rank)
		if err != nil {
			return nil, nil, err
		}
		counts = append(counts, cols.len()*rows.len())
		if plate != nil {
			all = append(all, plate.part(cols, rows)...)
		}
	}
	return counts, all, nil
}

// gather returns the plate on rank 0.
func (s *solver) gather(ctx context.Context) (*Grid, error) {
	counts, _, err := s.layout(nil)
	if err != nil {
		return nil, err
	}
	mine := make([]float64, counts[s.cart.Rank()])
	s.block.store(mine)
	var all []float64
	if s.cart.Rank() == 0 {
		all = make([]float64, s.width*s.height)
	}
	if err := mplite.Gatherv(ctx, s.cart.Comm, mine, all, counts, 0); err != nil || all == nil {
		return nil, err
	}
	g := NewGrid(s.width, s.height)
	for rank, n := range counts {
		cols, rows, err := s.spans(rank)
		if err != nil {
			return nil, err
		}
		g.setPart(cols, rows, all[:n])
		all = all[n:]
	}
	return g, nil
}
