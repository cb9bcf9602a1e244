package cholesky

import (
	"fmt"
	"math"
)

// Matrix is a lower triangle of blocks, row by row: row i has i+1 blocks.
type Matrix struct {
	Config
	blocks []block
}

// NewMatrix returns the matrix that c describes.
func NewMatrix(c Config) *Matrix {
	n := c.N / B
	m := &Matrix{c, make([]block, n*(n+1)/2)}
	for i := range n {
		for j := range i + 1 {
			c.fill(m.at(i, j), i, j)
		}
	}
	return m
}

func (m *Matrix) at(i, j int) *block { return &m.blocks[i*(i+1)/2+j] }

// Factor replaces the matrix by its Cholesky factor, in one process. It finishes one block after
// the other, so that each block is written once. Each element is the result of the same operations
// in the same order as in Run.
func (m *Matrix) Factor() error {
	for i := range m.N / B {
		for j := range i + 1 {
			c := m.at(i, j)
			for k := range j {
				update(c, m.at(i, k), m.at(j, k))
			}
			if j < i {
				solve(c, m.at(j, j))
			} else if !factor(c) {
				return fmt.Errorf("%w: block %d of the diagonal", ErrNotPositive, i)
			}
		}
	}
	return nil
}

// Equal returns an error that names the first block in which two matrices differ.
func (m *Matrix) Equal(o *Matrix) error {
	if m.N != o.N {
		return fmt.Errorf("%d rows are not %d", m.N, o.N)
	}
	for i := range m.N / B {
		for j := range i + 1 {
			if *m.at(i, j) != *o.at(i, j) {
				return fmt.Errorf("the blocks in row %d and column %d differ", i, j)
			}
		}
	}
	return nil
}

// Tolerance is the maximum result of Off for a correct factor.
const Tolerance = 1e-14

// Off returns the error of the factor L: the largest element of A-L·Lᵀ, relative to the largest
// element of A, which is on the diagonal.
func (m *Matrix) Off() float64 {
	var off float64
	for i := range m.N / B {
		for j := range i + 1 {
			var c block
			m.fill(&c, i, j)
			for k := range j + 1 {
				update(&c, m.at(i, k), m.at(j, k))
			}
			for _, v := range c {
				if math.IsNaN(v) {
					return v
				}
				off = max(off, math.Abs(v))
			}
		}
	}
	return off / m.element(0, 0)
}
