package cg

import (
	"fmt"
	"math"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// Result is a solution.
type Result struct {
	X        []float64 // the whole solution on rank 0; nil on other ranks
	Steps    int
	Residual float64 // relative residual, updated step by step; Config.Residual computes it from X
}

// others contains the communication of a rank with the other ranks.
type others interface {
	// direction returns memory for the whole search direction; this rank computes its own rows of
	// it.
	direction() (whole []float64, err error)
	// spread sends this rank's rows of the direction to the other ranks, and receives their rows.
	spread() error
	// settle waits until this rank's rows may be changed after a spread.
	settle() error
	// sum returns the sum of v over all ranks.
	sum(v float64) (float64, error)
	// collect returns all of x on rank 0.
	collect(mine []float64) ([]float64, error)
}

// The phases of a run.
const (
	product = iota
	exchange
	vectors
	sums
)

// NewTimer returns the timer for a run.
func NewTimer() *report.Timer {
	return report.NewTimer(report.Phase{Name: "matrix times vector"}, report.Phase{Name: "direction to all", Waits: true},
		report.Phase{Name: "vectors"}, report.Phase{Name: "sums over all", Waits: true})
}

// solve is the conjugate gradient method of Hestenes and Stiefel on a share of the rows.
// ready is called when the share is in memory, before the clock starts.
func (c Config) solve(rows spmd.Span, o others, t *report.Timer, ready func() error) (res Result, err error) {
	m, r := c.matrix(rows), c.right(rows)
	x, q := make([]float64, len(r)), make([]float64, len(r))
	whole, err := o.direction()
	if err != nil {
		return res, err
	}
	p := whole[rows.Lo:rows.Hi]
	copy(p, r)
	if err := ready(); err != nil {
		return res, err
	}
	sum := func(v float64) float64 {
		t.Enter(sums)
		if err == nil {
			v, err = o.sum(v)
		}
		t.Enter(vectors)
		return v
	}
	t.Enter(vectors)
	rr := sum(dot(r, r))
	limit := rr * c.Tolerance * c.Tolerance
	first := rr
	for ; rr > limit && res.Steps < c.MaxSteps; res.Steps++ {
		t.Enter(exchange)
		if err == nil {
			err = o.spread()
		}
		t.Enter(product)
		m.times(q, whole)
		t.Enter(vectors)
		alpha := rr / sum(dot(p, q))
		addScaled(x, p, alpha)
		addScaled(r, q, -alpha)
		next := sum(dot(r, r))
		if err != nil {
			return res, err
		}
		t.Enter(exchange)
		if err := o.settle(); err != nil {
			return res, err
		}
		t.Enter(vectors)
		beta := next / rr
		for i := range p {
			p[i] = r[i] + beta*p[i]
		}
		rr = next
	}
	t.Stop()
	if err != nil {
		return res, err
	}
	if rr > limit || math.IsNaN(rr) {
		return res, fmt.Errorf("%w after %d steps: the residual is %.3g of the right-hand side", ErrNoSolution, res.Steps, math.Sqrt(rr/first))
	}
	if first > 0 {
		res.Residual = math.Sqrt(rr / first)
	}
	res.X, err = o.collect(x)
	return res, err
}

// nobody implements others for a process without other ranks.
type nobody struct{ n int }

func (o nobody) direction() ([]float64, error)           { return make([]float64, o.n), nil }
func (nobody) spread() error                             { return nil }
func (nobody) settle() error                             { return nil }
func (nobody) sum(v float64) (float64, error)            { return v, nil }
func (nobody) collect(mine []float64) ([]float64, error) { return mine, nil }

// Serial solves the system in one process. The timer may be nil.
func Serial(c Config, t *report.Timer) (Result, error) {
	if err := c.Check(1); err != nil {
		return Result{}, err
	}
	if t == nil {
		t = NewTimer()
	}
	return c.solve(spmd.Span{Hi: c.N}, nobody{c.N}, t, func() error { return nil })
}

// Off returns the largest difference between two solutions, relative to the largest
// element of want.
func Off(got, want []float64) float64 {
	var off, largest float64
	for i := range want {
		off, largest = math.Max(off, math.Abs(got[i]-want[i])), math.Max(largest, math.Abs(want[i]))
	}
	if largest == 0 {
		return off
	}
	return off / largest
}
