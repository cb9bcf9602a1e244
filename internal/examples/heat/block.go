package heat

import "fmt"

// span is the half-open range of columns or rows that a block covers.
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// divide returns part i of n cells. The lengths of the parts differ by at most one.
func divide(n, parts, i int) span {
	return span{n * i / parts, n * (i + 1) / parts}
}

// block is one rank's part of a plate, with a halo of one cell on each side. Cell (0, 0) of the
// block is now[stride+1].
type block struct {
	cols, rows    span // of the plate
	width, height int  // of the plate
	stride        int  // number of cells in a row, including the halo
	now, next     []float64
	sources       []source
}

// source is a cell that stays at one temperature.
type source struct {
	index int // index of the cell in now and next
	heat  float64
}

// newBlock returns the block at (col, row) of a plate of width x height cells
// that is cut into across x down blocks.
func newBlock(width, height, across, down, col, row int) (*block, error) {
	if across > width || down > height {
		return nil, fmt.Errorf("%w: a plate of %dx%d cells cannot be cut into %dx%d blocks: use fewer ranks or a larger picture",
			ErrConfig, width, height, across, down)
	}
	b := &block{cols: divide(width, across, col), rows: divide(height, down, row), width: width, height: height}
	b.stride = b.cols.len() + 2
	b.now = make([]float64, b.stride*(b.rows.len()+2))
	b.next = make([]float64, len(b.now))
	return b, nil
}

// load sets the block's own cells, row by row, and finds its sources: cells whose temperature is at
// least limit.
func (b *block) load(cells []float64, limit float64) {
	b.sources = b.sources[:0]
	w := b.cols.len()
	for y := range b.rows.len() {
		copy(b.row(b.now, y), cells[y*w:])
		for x, heat := range b.row(b.now, y) {
			if heat >= limit {
				b.sources = append(b.sources, source{(y+1)*b.stride + 1 + x, heat})
			}
		}
	}
	copy(b.next, b.now)
}

// store writes the block's own cells, row by row, to cells.
func (b *block) store(cells []float64) {
	w := b.cols.len()
	for y := range b.rows.len() {
		copy(cells[y*w:(y+1)*w], b.row(b.now, y))
	}
}

// row returns row y of the block in cells, without its halo. Rows -1 and
// rows.len() are the halo.
func (b *block) row(cells []float64, y int) []float64 {
	start := (y+1)*b.stride + 1
	return cells[start : start+b.cols.len()]
}

// packColumn copies column x into out; -1 and cols.len() are the halo.
func (b *block) packColumn(out []float64, x int) {
	for y := range out {
		out[y] = b.now[(y+1)*b.stride+1+x]
	}
}

// unpackColumn copies in to column x.
func (b *block) unpackColumn(in []float64, x int) {
	for y, heat := range in {
		b.now[(y+1)*b.stride+1+x] = heat
	}
}

// inner computes the cells that need no halo.
func (b *block) inner(rate float64) {
	b.compute(span{1, b.cols.len() - 1}, span{1, b.rows.len() - 1}, rate)
}

// edge computes the cells that inner left out.
func (b *block) edge(rate float64) {
	w, h := b.cols.len(), b.rows.len()
	b.compute(span{0, w}, span{0, 1}, rate)
	if h > 1 {
		b.compute(span{0, w}, span{h - 1, h}, rate)
	}
	b.compute(span{0, 1}, span{1, h - 1}, rate)
	if w > 1 {
		b.compute(span{w - 1, w}, span{1, h - 1}, rate)
	}
}

// compute fills the given part of next, except the rim of the plate.
func (b *block) compute(cols, rows span, rate float64) {
	cols.lo, cols.hi = max(cols.lo, 1-b.cols.lo), min(cols.hi, b.width-1-b.cols.lo)
	rows.lo, rows.hi = max(rows.lo, 1-b.rows.lo), min(rows.hi, b.height-1-b.rows.lo)
	if cols.len() <= 0 {
		return
	}
	n := cols.len() + 2
	for y := rows.lo; y < rows.hi; y++ {
		at := (y+1)*b.stride + cols.lo
		relax(b.next[at:at+n], b.now[at-b.stride:at-b.stride+n], b.now[at:at+n], b.now[at+b.stride:at+b.stride+n], rate)
	}
}

// finish restores the temperature of the sources, and makes next the current plate.
func (b *block) finish() {
	for _, s := range b.sources {
		b.next[s.index] = s.heat
	}
	b.now, b.next = b.next, b.now
}

// sum adds up the block's own cells.
func (b *block) sum() float64 {
	var total float64
	for y := range b.rows.len() {
		for _, heat := range b.row(b.now, y) {
			total += heat
		}
	}
	return total
}
