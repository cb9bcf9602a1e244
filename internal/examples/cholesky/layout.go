package cholesky

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// Config describes the matrix and its layout.
type Config struct {
	N          int    // number of rows and of columns, a multiple of B
	Down, Over int    // number of positions of the layout in each direction
	Seed       uint64 // of the elements
}

// The paper's sizes.
const (
	DefaultN    = 1536
	DefaultDown = 12
	DefaultOver = 8
)

var (
	// ErrConfig is wrapped by the errors for an impossible configuration.
	ErrConfig = errors.New("cholesky: configuration")
	// ErrNotPositive is wrapped by the error for a matrix without a Cholesky factor.
	ErrNotPositive = errors.New("cholesky: the matrix is not positive definite")
)

// Check returns an error if ranks cannot share the work.
func (c Config) Check(ranks int) error {
	switch {
	case c.N < B || c.N%B != 0 || c.N > 1<<14:
		return fmt.Errorf("%w: %d rows: want a multiple of %d, at most %d", ErrConfig, c.N, B, 1<<14)
	case c.Down < 1 || c.Over < 1:
		return fmt.Errorf("%w: a layout of %d x %d positions: want one at least", ErrConfig, c.Down, c.Over)
	case ranks > c.Down*c.Over:
		return fmt.Errorf("%w: %d ranks for %d x %d positions: use fewer ranks or a larger layout", ErrConfig, ranks, c.Down, c.Over)
	}
	return nil
}

// size returns the size of the matrix for a report.
func (c Config) size() string {
	return fmt.Sprintf("%d x %d, blocks (%dx%d) x (%dx%d) x (%dx%d)", c.N, c.N, c.Down, c.Over, c.down(), c.over(), B, B)
}

// blocks returns the number of rows, and of columns, of blocks.
func (c Config) blocks() int { return c.N / B }

// down and over return the number of rows and columns of blocks at a position.
func (c Config) down() int { return (c.blocks() + c.Down - 1) / c.Down }
func (c Config) over() int { return (c.blocks() + c.Over - 1) / c.Over }

// position returns the place of the block in row i and column j: its index in the spread dimensions
// of the array, and its index in the other dimensions, in blocks.
func (c Config) position(i, j int) (spread, local int) {
	return i%c.Down*c.Over + j%c.Over, i/c.Down*c.over() + j/c.Over
}

// owner returns the rank that has a block, and the block's place among the blocks of that rank.
func (c Config) owner(i, j, ranks int) (rank, slot int) {
	spread, local := c.position(i, j)
	return spread % ranks, spread/ranks*c.down()*c.over() + local
}

// element returns the element in row i and column j of the matrix. Elements are symmetric and
// random from -1 to 1; those on the diagonal are large enough to make the matrix positive definite.
func (c Config) element(i, j int) float64 {
	if i == j {
		return float64(c.N)
	}
	i, j = max(i, j), min(i, j)
	return 2*spmd.Uniform(c.Seed, uint64(i)*uint64(c.N)+uint64(j)) - 1
}

// fill sets b to the block in row i and column j of the matrix.
func (c Config) fill(b *block, i, j int) {
	for k := range b {
		b[k] = c.element(i*B+k/B, j*B+k%B)
	}
}
