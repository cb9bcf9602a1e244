package cholesky

import (
	"errors"
	"math"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"gonum.org/v1/gonum/mat"
)

func random(seed uint64) *block {
	var b block
	for i := range b {
		b[i] = 2*spmd.Uniform(seed, uint64(i)) - 1
	}
	return &b
}

func TestUpdate(t *testing.T) {
	c, a, b := random(1), random(2), random(3)
	want := mat.NewDense(B, B, nil)
	want.Mul(mat.NewDense(B, B, a[:]), mat.NewDense(B, B, b[:]).T())
	want.Sub(mat.NewDense(B, B, append([]float64(nil), c[:]...)), want)
	update(c, a, b)
	if got := mat.NewDense(B, B, c[:]); !mat.EqualApprox(got, want, 1e-13) {
		t.Errorf("got\n%v\nwant\n%v", mat.Formatted(got), mat.Formatted(want))
	}
}

// TestSolve: x·lᵀ is what was there before.
func TestSolve(t *testing.T) {
	c := Config{N: B, Seed: 4}
	var l block
	c.fill(&l, 0, 0)
	if !factor(&l) {
		t.Fatal("it is not positive definite")
	}
	a := random(5)
	x := *a
	solve(&x, &l)
	update(a, &x, &l)
	for i, v := range a {
		if math.Abs(v) > 1e-13 {
			t.Fatalf("element %d is off by %v", i, v)
		}
	}
}

// TestFactor compares with gonum's.
func TestFactor(t *testing.T) {
	for _, n := range []int{16, 32, 48, 160} {
		c := Config{N: n, Down: 2, Over: 3, Seed: 9}
		m := NewMatrix(c)
		if err := m.Factor(); err != nil {
			t.Fatal(err)
		}
		sym := mat.NewSymDense(n, nil)
		for i := range n {
			for j := range i + 1 {
				sym.SetSym(i, j, c.element(i, j))
			}
		}
		var chol mat.Cholesky
		chol.Factorize(sym)
		var want mat.TriDense
		chol.LTo(&want)
		for i := range n {
			for j := range i + 1 {
				if got := m.at(i/B, j/B)[i%B*B+j%B]; math.Abs(got-want.At(i, j)) > 1e-12*float64(n) {
					t.Fatalf("element %d, %d of %d: %v, want %v", i, j, n, got, want.At(i, j))
				}
			}
		}
		if off := m.Off(); !(off <= Tolerance) {
			t.Errorf("%d rows: L·Lᵀ is off by %v", n, off)
		}
		m.at(0, 0)[B] += 1e-9
		if off := m.Off(); off <= Tolerance {
			t.Errorf("%d rows: an error was not seen: off by %v", n, off)
		}
	}
}

func TestNotPositive(t *testing.T) {
	m := NewMatrix(Config{N: 32, Down: 1, Over: 1})
	m.at(1, 1)[0] = -1
	if err := m.Factor(); !errors.Is(err, ErrNotPositive) {
		t.Error(err)
	}
}

// TestOwner: each block has a place of its own, and those of the paper's layout go evenly
// to the ranks.
func TestOwner(t *testing.T) {
	c := Config{N: DefaultN, Down: DefaultDown, Over: DefaultOver}
	if c.down() != 8 || c.over() != 12 {
		t.Fatalf("a position has %d x %d blocks, want 8 x 12", c.down(), c.over())
	}
	for _, c := range []Config{c, {N: 16 * 7, Down: 3, Over: 2}} {
		for ranks := 1; ranks <= min(16, c.Down*c.Over); ranks++ {
			taken, of := map[[2]int]bool{}, make([]int, ranks)
			for i := range c.blocks() {
				for j := range c.blocks() {
					r, slot := c.owner(i, j, ranks)
					if taken[[2]int{r, slot}] || slot >= (c.Down*c.Over+ranks-1)/ranks*c.down()*c.over() {
						t.Fatalf("%d ranks: slot %d of rank %d for block %d, %d", ranks, slot, r, i, j)
					}
					taken[[2]int{r, slot}] = true
					of[r]++
				}
			}
			for _, n := range of {
				if 96%ranks == 0 && c.N == DefaultN && n != 96*96/ranks {
					t.Errorf("%d ranks have %v blocks", ranks, of)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	if err := (Config{N: DefaultN, Down: DefaultDown, Over: DefaultOver}).Check(16); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{N: 0, Down: 4, Over: 4}, {N: 20, Down: 4, Over: 4}, {N: 32, Down: 0, Over: 4}, {N: 32, Down: 3, Over: 5}} {
		if err := c.Check(16); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func BenchmarkFactor(b *testing.B) {
	for b.Loop() {
		m := NewMatrix(Config{N: DefaultN, Down: DefaultDown, Over: DefaultOver})
		if err := m.Factor(); err != nil {
			b.Fatal(err)
		}
	}
}
