package mplite_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

func TestDimsCreate(t *testing.T) {
	for _, tc := range []struct {
		n    int
		dims []int
		want []int // nil: an error
	}{
		{1, []int{0, 0}, []int{1, 1}},
		{4, []int{0, 0}, []int{2, 2}},
		{6, []int{0, 0}, []int{3, 2}},
		{7, []int{0, 0}, []int{7, 1}},
		{12, []int{0, 0, 0}, []int{3, 2, 2}},
		{16, []int{0, 0}, []int{4, 4}},
		{24, []int{0, 0, 0}, []int{4, 3, 2}},
		{36, []int{0, 0}, []int{6, 6}},
		{6, []int{0, 3, 0}, []int{2, 3, 1}},
		{6, []int{3, 2}, []int{3, 2}},
		{997, []int{0, 0}, []int{997, 1}},
		{4096, []int{0, 0, 0}, []int{16, 16, 16}},
		{7488, []int{0, 0, 0}, []int{26, 18, 16}},
		{7488, []int{0, 16, 0}, []int{26, 16, 18}},
		{1<<31 - 1, []int{0, 0}, []int{1<<31 - 1, 1}},
		{720720, []int{0, 0, 0, 0, 0, 0}, []int{13, 11, 10, 9, 8, 7}},
		{6, []int{0, 1 << 62, 1 << 62}, nil},
		{6, []int{3, 3}, nil},
		{6, []int{4, 0}, nil},
		{6, []int{-1, 0}, nil},
		{0, []int{0}, nil},
	} {
		got := slices.Clone(tc.dims)
		err := mplite.DimsCreate(tc.n, got)
		switch {
		case tc.want == nil && !errors.Is(err, mplite.ErrArgument):
			t.Errorf("%d ranks as %v: error %v, want ErrArgument", tc.n, tc.dims, err)
		case tc.want != nil && (err != nil || !slices.Equal(got, tc.want)):
			t.Errorf("%d ranks as %v: %v, %v, want %v", tc.n, tc.dims, got, err, tc.want)
		}
	}
}

// TestDimsCreateSpread compares DimsCreate with all possible grids of few ranks.
func TestDimsCreateSpread(t *testing.T) {
	for n := 1; n <= 400; n++ {
		for k := 1; k <= 4; k++ {
			got := make([]int, k)
			if err := mplite.DimsCreate(n, got); err != nil {
				t.Fatal(err)
			}
			product := 1
			for i, d := range got {
				product *= d
				if i > 0 && d > got[i-1] {
					t.Errorf("%d ranks: %v is not in falling order", n, got)
				}
			}
			if want := leastSpread(n, k, 0, 0); product != n || got[0]-got[k-1] != want {
				t.Errorf("%d ranks: %v, want a spread of %d", n, got, want)
			}
		}
	}
}

// leastSpread returns the minimum difference between the largest and the smallest of k factors of
// n. The arguments largest and smallest, if not 0, count as further factors.
func leastSpread(n, k, largest, smallest int) int {
	if k == 0 {
		if n == 1 {
			return largest - smallest
		}
		return math.MaxInt
	}
	least := math.MaxInt
	for f := 1; f <= n; f++ {
		if n%f == 0 {
			low := f
			if smallest != 0 {
				low = min(f, smallest)
			}
			least = min(least, leastSpread(n/f, k-1, max(largest, f), low))
		}
	}
	return least
}

// TestCartDup: a copy of a grid is a grid whose messages are separate from the original's.
func TestCartDup(t *testing.T) {
	check(t, runJob(6, sim.Options{}, small, func(c *mplite.Comm) error {
		g, err := c.CartCreate(bg, []int{2, 3}, []bool{false, true})
		if err != nil {
			return err
		}
		d, err := g.Dup(bg)
		if err != nil {
			return err
		}
		dims, periodic := d.Dims()
		if !slices.Equal(dims, []int{2, 3}) || !slices.Equal(periodic, []bool{false, true}) || !slices.Equal(d.Neighbours(), g.Neighbours()) {
			return fmt.Errorf("the copy has dimensions %v, periods %v, neighbours %v", dims, periodic, d.Neighbours())
		}
		if how := mplite.Compare(g.Comm, d.Comm); how != mplite.Congruent {
			return fmt.Errorf("grid and copy are %v", how)
		}
		row, err := d.Sub(bg, []bool{false, true})
		if err != nil {
			return err
		}
		if got := row.Size(); got != 3 {
			return fmt.Errorf("a row of the copy has %d ranks", got)
		}
		return d.Barrier(bg)
	}))
}

func TestCart(t *testing.T) {
	const rows, cols = 2, 3
	err := runJob(rows*cols+1, sim.Options{}, small, func(c *mplite.Comm) error {
		g, err := c.CartCreate(bg, []int{rows, cols}, []bool{false, true})
		if err != nil {
			return err
		}
		if c.Rank() == rows*cols {
			if g != nil {
				return errors.New("a rank beyond the grid is in it")
			}
			return nil
		}
		i, j := c.Rank()/cols, c.Rank()%cols
		at, err := g.Coords(g.Rank())
		if err != nil || !slices.Equal(at, []int{i, j}) {
			return fmt.Errorf("coordinates %v, %v, want [%d %d]", at, err, i, j)
		}
		if err := ranksAt(g, rows, cols); err != nil {
			return err
		}
		up, down := mplite.None, mplite.None
		if i > 0 {
			up = c.Rank() - cols
		}
		if i < rows-1 {
			down = c.Rank() + cols
		}
		left, right := i*cols+(j+cols-1)%cols, i*cols+(j+1)%cols
		if got, want := g.Neighbours(), []int{up, down, left, right}; !slices.Equal(got, want) {
			return fmt.Errorf("neighbours of rank %d are %v, want %v", c.Rank(), got, want)
		}
		row, err := g.Sub(bg, []bool{false, true})
		if err != nil {
			return err
		}
		sum := []int{c.Rank()}
		if err := mplite.Allreduce(bg, row.Comm, nil, sum, mplite.Sum[int]()); err != nil {
			return err
		}
		if want := 3*i*cols + 3; row.Size() != cols || row.Rank() != j || sum[0] != want {
			return fmt.Errorf("row of rank %d has size %d, rank %d, sum %d, want %d %d %d", c.Rank(), row.Size(), row.Rank(), sum[0], cols, j, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ranksAt checks RankAt in a grid with periodic columns and non-periodic rows.
func ranksAt(g *mplite.Cart, rows, cols int) error {
	for i := -rows; i <= 2*rows; i++ {
		for j := -2 * cols; j <= 2*cols; j++ {
			want := mplite.None
			if i >= 0 && i < rows {
				want = i*cols + (j+2*cols)%cols
			}
			if got, err := g.RankAt(i, j); got != want || err != nil {
				return fmt.Errorf("rank at %d, %d is %d, %v, want %d", i, j, got, err, want)
			}
		}
	}
	for _, coords := range [][]int{nil, {0}, {0, 0, 0}} {
		if got, err := g.RankAt(coords...); got != mplite.None || !errors.Is(err, mplite.ErrArgument) {
			return fmt.Errorf("rank at %v is %d, %v, want None and ErrArgument", coords, got, err)
		}
	}
	return nil
}
