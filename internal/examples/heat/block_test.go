package heat

import (
	"math/rand/v2"
	"testing"
)

func randomPlate(rng *rand.Rand, width, height int) *Grid {
	g := NewGrid(width, height)
	for i := range g.Cells {
		g.Cells[i] = rng.Float64()
		if rng.IntN(10) == 0 {
			g.Cells[i] = 1
		}
	}
	return g
}

// cut divides g and gives each block its cells.
func cut(t *testing.T, g *Grid, across, down int) [][]*block {
	t.Helper()
	all := make([][]*block, down)
	for row := range all {
		for col := range across {
			b, err := newBlock(g.Width, g.Height, across, down, col, row)
			if err != nil {
				t.Fatal(err)
			}
			b.load(g.part(b.cols, b.rows), DefaultSource)
			all[row] = append(all[row], b)
		}
	}
	return all
}

// swap copies edges into halos as messages would.
func swap(all [][]*block) {
	for row := range all {
		for col, b := range all[row] {
			if row > 0 {
				up := all[row-1][col]
				copy(b.row(b.now, -1), up.row(up.now, up.rows.len()-1))
				copy(up.row(up.now, up.rows.len()), b.row(b.now, 0))
			}
			if col > 0 {
				left := all[row][col-1]
				column := make([]float64, b.rows.len())
				left.packColumn(column, left.cols.len()-1)
				b.unpackColumn(column, -1)
				b.packColumn(column, 0)
				left.unpackColumn(column, left.cols.len())
			}
		}
	}
}

func TestBlocksMatchSerial(t *testing.T) {
	const steps = 25
	for _, c := range []struct{ width, height, across, down int }{
		{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}, {3, 3, 1, 1}, {7, 5, 3, 2}, {40, 30, 1, 4},
		{40, 30, 4, 1}, {40, 30, 2, 2}, {31, 17, 5, 3}, {16, 16, 16, 16}, {9, 64, 2, 9},
	} {
		rng := rand.New(rand.NewPCG(uint64(c.width), uint64(c.height)))
		g := randomPlate(rng, c.width, c.height)
		want, err := Serial(Config{Initial: g, Steps: steps})
		if err != nil {
			t.Fatal(err)
		}
		all := cut(t, g, c.across, c.down)
		for range steps {
			swap(all)
			for _, row := range all {
				for _, b := range row {
					b.inner(DefaultRate)
					b.edge(DefaultRate)
					b.finish()
				}
			}
		}
		got := NewGrid(c.width, c.height)
		for _, row := range all {
			for _, b := range row {
				cells := make([]float64, b.cols.len()*b.rows.len())
				b.store(cells)
				got.setPart(b.cols, b.rows, cells)
			}
		}
		if err := got.Equal(want); err != nil {
			t.Errorf("%dx%d cells in %dx%d blocks: %v", c.width, c.height, c.across, c.down, err)
		}
	}
}

func TestTooManyBlocks(t *testing.T) {
	if _, err := newBlock(3, 3, 4, 1, 0, 0); err == nil {
		t.Error("3 columns were cut into 4")
	}
}

func TestDivideCoversAll(t *testing.T) {
	for n := 1; n < 40; n++ {
		for parts := 1; parts <= n; parts++ {
			next := 0
			for i := range parts {
				s := divide(n, parts, i)
				if s.lo != next || s.len() < n/parts || s.len() > n/parts+1 {
					t.Fatalf("part %d of %d cells in %d parts is %v", i, n, parts, s)
				}
				next = s.hi
			}
			if next != n {
				t.Fatalf("%d parts of %d cells end at %d", parts, n, next)
			}
		}
	}
}
