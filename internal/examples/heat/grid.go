package heat

import (
	"errors"
	"fmt"
	"image"
	"image/color"
)

// Grid is a plate of cells, row by row: the cell in column x of row y is Cells[y*Width+x].
// Temperatures from a picture are in 0..1. A Grid is plain data: goroutines that share it must do
// their own locking.
type Grid struct {
	Width, Height int
	Cells         []float64
}

// NewGrid returns a plate of zeros.
func NewGrid(width, height int) *Grid {
	return &Grid{Width: width, Height: height, Cells: make([]float64, width*height)}
}

// FromImage takes the luminance of each pixel, scaled to 0..1, as the
// temperature of a cell.
func FromImage(m image.Image) *Grid {
	b := m.Bounds()
	g := NewGrid(b.Dx(), b.Dy())
	for y := range g.Height {
		for x := range g.Width {
			grey := color.Gray16Model.Convert(m.At(b.Min.X+x, b.Min.Y+y)).(color.Gray16)
			g.Cells[y*g.Width+x] = float64(grey.Y) / 0xffff
		}
	}
	return g
}

// Equal returns nil if g and other have the same size and the same bits in every cell. Otherwise
// the error names the first difference.
func (g *Grid) Equal(other *Grid) error {
	if g.Width != other.Width || g.Height != other.Height {
		return fmt.Errorf("heat: one plate is %dx%d, the other %dx%d", g.Width, g.Height, other.Width, other.Height)
	}
	for i, t := range g.Cells {
		if t != other.Cells[i] {
			return fmt.Errorf("heat: column %d of row %d is %v on one plate and %v on the other",
				i%g.Width, i/g.Width, t, other.Cells[i])
		}
	}
	return nil
}

// part copies the given cells of g, row by row.
func (g *Grid) part(cols, rows span) []float64 {
	out := make([]float64, 0, cols.len()*rows.len())
	for y := rows.lo; y < rows.hi; y++ {
		out = append(out, g.row(y)[cols.lo:cols.hi]...)
	}
	return out
}

// setPart is the reverse of part.
func (g *Grid) setPart(cols, rows span, cells []float64) {
	for y := rows.lo; y < rows.hi; y++ {
		cells = cells[copy(g.row(y)[cols.lo:cols.hi], cells):]
	}
}

func (g *Grid) row(y int) []float64 { return g.Cells[y*g.Width : (y+1)*g.Width] }

func (g *Grid) mean() float64 {
	var total float64
	for _, heat := range g.Cells {
		total += heat
	}
	return total / float64(len(g.Cells))
}

// ErrConfig is wrapped by the errors of Run and Serial for an impossible configuration.
var ErrConfig = errors.New("heat: impossible configuration")

// Defaults of Config.
const (
	DefaultSteps  = 2000
	DefaultRate   = 0.2
	DefaultSource = 1.0
)

// Config describes the computation. The zero Config means the default picture and the default
// constants.
type Config struct {
	// Initial is the plate at step 0; nil means Default(). Run reads it on
	// rank 0 only.
	Initial *Grid
	// Steps is the number of steps; 0 means DefaultSteps.
	Steps int
	// Rate is diffusivity · Δt / h², stable up to 0.25; 0 means DefaultRate.
	Rate float64
	// Source is the minimum temperature of sources, which are cells that keep their initial
	// temperature; 0 means DefaultSource. With a value above 1 a plate from a picture has no
	// sources.
	Source float64
	// Progress, if not nil, is called on rank 0 about Reports times in a run, on the goroutine that
	// computes.
	Progress func(Progress)
	// Reports is the approximate number of calls of Progress; 0 means 20.
	Reports int
}

// Progress is the state of a run.
type Progress struct {
	Step, Steps int
	Mean        float64 // mean temperature of the whole plate
}

func (c Config) withDefaults() Config {
	if c.Steps == 0 {
		c.Steps = DefaultSteps
	}
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
	if c.Source == 0 {
		c.Source = DefaultSource
	}
	if c.Reports == 0 {
		c.Reports = 20
	}
	return c
}

func (c *Config) validate() error {
	switch {
	case c.Steps < 0:
		return fmt.Errorf("%w: %d steps", ErrConfig, c.Steps)
	case c.Rate < 0 || c.Rate > 0.25:
		return fmt.Errorf("%w: a rate of %v is not stable: choose one in 0..0.25", ErrConfig, c.Rate)
	case c.Reports < 0:
		return fmt.Errorf("%w: %d reports", ErrConfig, c.Reports)
	}
	return nil
}

// reportEvery returns the number of steps between two reports.
func (c *Config) reportEvery() int { return max(1, c.Steps/c.Reports) }
