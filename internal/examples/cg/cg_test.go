package cg

import (
	"errors"
	"math"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"gonum.org/v1/gonum/mat"
)

func small(n, row int) Config {
	return Config{N: n, Row: row, Seed: 5, Tolerance: DefaultTolerance, MaxSteps: DefaultMaxSteps}
}

// dense returns the matrix with all its zeros.
func dense(c Config) *mat.Dense {
	m := c.matrix(spmd.Span{Hi: c.N})
	d := mat.NewDense(c.N, c.N, nil)
	for i := range c.N {
		for k := m.start[i]; k < m.start[i+1]; k++ {
			d.Set(i, int(m.column[k]), m.value[k])
		}
	}
	return d
}

// TestMatrix: it is symmetric and positive definite, and its parts are those of the whole.
func TestMatrix(t *testing.T) {
	c := small(60, 9)
	d := dense(c)
	sym := mat.NewSymDense(c.N, nil)
	for i := range c.N {
		for j := range c.N {
			if d.At(i, j) != d.At(j, i) {
				t.Fatalf("element %d, %d is %v, the one across %v", i, j, d.At(i, j), d.At(j, i))
			}
			sym.SetSym(i, j, d.At(i, j))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sym) {
		t.Error("it is not positive definite")
	}
	x := make([]float64, c.N)
	for i := range x {
		x[i] = math.Sin(float64(i))
	}
	var want mat.VecDense
	want.MulVec(d, mat.NewVecDense(c.N, x))
	for r := range 7 {
		rows := spmd.Share(c.N, 7, r)
		y := make([]float64, rows.Len())
		c.matrix(rows).times(y, x)
		for i, v := range y {
			if w := want.AtVec(rows.Lo + i); math.Abs(v-w) > 1e-13*math.Abs(w)+1e-13 {
				t.Errorf("row %d of the product is %v, want %v", rows.Lo+i, v, w)
			}
		}
	}
}

// TestSerial compares solutions with those of gonum's elimination.
func TestSerial(t *testing.T) {
	for _, c := range []Config{small(1, 0), small(2, 1), small(5, 0), small(50, 7), small(300, 20)} {
		got, err := Serial(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want mat.VecDense
		b := mat.NewVecDense(c.N, c.right(spmd.Span{Hi: c.N}))
		if err := want.SolveVec(dense(c), b); err != nil {
			t.Fatal(err)
		}
		if off := Off(got.X, want.RawVector().Data); off > 1e-8 {
			t.Errorf("%d rows, %d steps: off by %v", c.N, got.Steps, off)
		}
		if res := c.Residual(got.X); res > 10*c.Tolerance {
			t.Errorf("%d rows: residual %v", c.N, res)
		}
	}
}

func TestGivesUp(t *testing.T) {
	c := small(300, 20)
	c.MaxSteps = 3
	if _, err := Serial(c, nil); !errors.Is(err, ErrNoSolution) {
		t.Errorf("three steps: %v", err)
	}
}

func TestCheck(t *testing.T) {
	if err := small(10, 3).Check(10); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]Config{"no rows": small(0, 0), "too full": small(4, 4), "negative": small(4, -1), "fewer rows than ranks": small(9, 3), "no tolerance": {N: 20, Row: 2, MaxSteps: 1}} {
		if err := c.Check(10); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOff(t *testing.T) {
	if off := Off([]float64{1, 2}, []float64{1, 4}); off != 0.5 {
		t.Errorf("off by %v, want 0.5", off)
	}
	if off := Off([]float64{0.25}, []float64{0}); off != 0.25 {
		t.Errorf("off by %v from zero, want 0.25", off)
	}
}

func BenchmarkSerial(b *testing.B) {
	for b.Loop() {
		t := NewTimer()
		res, err := Serial(small(DefaultN, DefaultRow), t)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(res.Steps), "steps")
		b.ReportMetric(t.Elapsed().Seconds()*1e3, "ms")
	}
}
