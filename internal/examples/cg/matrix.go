package cg

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// Config describes the system of equations and the stopping criterion.
type Config struct {
	N         int     // rows
	Row       int     // average number of elements of a row outside the diagonal
	Seed      uint64  // seed of pattern, values and right-hand side
	Tolerance float64 // maximum residual, relative to the right-hand side
	MaxSteps  int     // number of steps after which the solver gives up
}

// The sizes of the paper. The paper does not give the number of elements, so that is this program's
// choice.
const (
	DefaultN         = 4096
	DefaultRow       = 128
	DefaultTolerance = 1e-10
	DefaultMaxSteps  = 1000
)

var (
	// ErrConfig is wrapped by the errors for an impossible configuration.
	ErrConfig = errors.New("cg: configuration")
	// ErrNoSolution is wrapped by the error of a solver that gave up.
	ErrNoSolution = errors.New("cg: no solution")
)

// Check returns an error if ranks cannot share the work.
func (c Config) Check(ranks int) error {
	switch {
	case c.N < 1 || c.N > 1<<20:
		return fmt.Errorf("%w: %d rows: want 1 to %d", ErrConfig, c.N, 1<<20)
	case c.Row < 0 || c.Row >= c.N:
		return fmt.Errorf("%w: %d elements of a row outside the diagonal: want less than the number of rows, %d", ErrConfig, c.Row, c.N)
	case c.Tolerance <= 0 || c.MaxSteps < 1:
		return fmt.Errorf("%w: tolerance %v in %d steps: want both positive", ErrConfig, c.Tolerance, c.MaxSteps)
	case ranks > c.N:
		return fmt.Errorf("%w: %d ranks for %d rows: use fewer ranks or more rows", ErrConfig, ranks, c.N)
	}
	return nil
}

// size returns the size of the system for a report.
func (c Config) size() string { return fmt.Sprintf("%d x %d, %d a row", c.N, c.N, c.Row+1) }

// matrix contains some neighbouring rows of a symmetric positive definite matrix, row by row.
type matrix struct {
	rows   spmd.Span
	start  []int32 // index in column and value at which each row begins, and at which the last one ends
	column []int32
	value  []float64
}

// element is an element of a row.
type element struct {
	column int32
	value  float64
}

// matrix returns the given rows. The matrix is the Laplacian of a random graph whose nodes have
// weights of several orders of magnitude, plus a small diagonal. It is symmetric, positive
// definite, and not well conditioned.
func (c Config) matrix(rows spmd.Span) *matrix {
	all := make([][]element, rows.Len())
	for i := range rows.Len() {
		all[i] = append(make([]element, 0, c.Row+c.Row/2+8), element{int32(rows.Lo + i), 1e-4})
	}
	strength := make([]float64, c.N)
	for i := range strength {
		strength[i] = math.Pow(10, -1.5*spmd.Uniform(c.Seed+2, uint64(i)))
	}
	edges := c.N * c.Row / 2
	for e := range uint64(edges) {
		i := int(e) * c.N / edges
		j := (i + 1 + spmd.Below(c.Seed, 2*e, c.N-1)) % c.N
		w := strength[i] * strength[j] * (1 + spmd.Uniform(c.Seed, 2*e+1)) / 2
		for _, end := range [2][2]int{{i, j}, {j, i}} {
			if at := end[0] - rows.Lo; at >= 0 && at < rows.Len() {
				all[at] = append(all[at], element{int32(end[1]), -w})
				all[at][0].value += w
			}
		}
	}
	m := &matrix{rows: rows, start: []int32{0}}
	for _, row := range all {
		m.add(row)
	}
	return m
}

// add appends a row. It sorts the elements by column, and adds up elements of the same column.
func (m *matrix) add(row []element) {
	slices.SortStableFunc(row, func(a, b element) int { return cmp.Compare(a.column, b.column) })
	first := len(m.column)
	for _, e := range row {
		if n := len(m.column); n > first && m.column[n-1] == e.column {
			m.value[n-1] += e.value
			continue
		}
		m.column, m.value = append(m.column, e.column), append(m.value, e.value)
	}
	m.start = append(m.start, int32(len(m.column)))
}

// times sets y to the product of these rows and the whole vector x.
func (m *matrix) times(y, x []float64) {
	start := m.start
	for i := range y {
		lo, hi := start[i], start[i+1]
		column, value := m.column[lo:hi], m.value[lo:hi]
		value = value[:len(column)]
		var s0, s1, s2, s3 float64 // four independent sums keep the adders busy
		k := 0
		for ; k <= len(column)-4; k += 4 {
			c, v := column[k:k+4:k+4], value[k:k+4:k+4]
			s0 += v[0] * x[c[0]]
			s1 += v[1] * x[c[1]]
			s2 += v[2] * x[c[2]]
			s3 += v[3] * x[c[3]]
		}
		for ; k < len(column); k++ {
			s0 += value[k] * x[column[k]]
		}
		y[i] = (s0 + s1) + (s2 + s3)
	}
}

// right returns the given rows of the right-hand side.
func (c Config) right(rows spmd.Span) []float64 {
	b := make([]float64, rows.Len())
	for i := range b {
		b[i] = 2*spmd.Uniform(c.Seed+1, uint64(rows.Lo+i)) - 1
	}
	return b
}

// Residual returns the length of b-Ax, relative to the length of b.
func (c Config) Residual(x []float64) float64 {
	all := spmd.Span{Hi: c.N}
	b, y := c.right(all), make([]float64, c.N)
	c.matrix(all).times(y, x)
	for i := range y {
		y[i] -= b[i]
	}
	return math.Sqrt(dot(y, y) / dot(b, b))
}

// dot is the scalar product.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i <= len(a)-4; i += 4 {
		u, v := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += u[0] * v[0]
		s1 += u[1] * v[1]
		s2 += u[2] * v[2]
		s3 += u[3] * v[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// addScaled adds f times b to a.
func addScaled(a, b []float64, f float64) {
	b = b[:len(a)]
	for i := range a {
		a[i] += f * b[i]
	}
}
