// Package plot draws what package perf measured: one-way time and bandwidth
// over message size, and LogP signatures over burst size; both axes
// logarithmic, a line a stack or delay.
package plot

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Point is one measurement: bytes, or what else the horizontal axis counts, and
// what was measured with them. Both must be greater than 0.
type Point struct{ X, Value float64 }

// Series is one line, with its points in order of X.
type Series struct {
	Name   string
	Points []Point
	Marked func(Point) bool // whether a point is a cross, for those that Panel.X speaks of; nil: none is
}

// Panel is one plot of the picture.
type Panel struct {
	Title  string
	X      string   // what the horizontal axis counts; "" means bytes of message size
	Names  []string // of the places 1, 2, 4 and so on of the horizontal axis, where it counts nothing
	Y      string   // unit of the vertical axis; gonum leaves too much room for long ones
	Series []Series
}

// ErrEmpty is what WritePNG returns when there is nothing to draw.
var ErrEmpty = errors.New("plot: nothing to draw")

const (
	panelWidth = 7 * vg.Inch
	height     = 5.2 * vg.Inch
	besideTop  = 0.8 * vg.Inch // from the top of a panel to the names beside the plot
	besideGap  = 0.1 * vg.Inch // between plot and names
	resolution = 144           // dots an inch
)

// WritePNG draws the panels side by side and writes the picture to w. The names
// of the lines stand beside each plot, where they cover none.
func WritePNG(w io.Writer, panels ...Panel) error { return WriteRows(w, panels) }

// WriteRows is WritePNG for several rows of panels.
func WriteRows(w io.Writer, rows ...[]Panel) error {
	var plots [][]*plot.Plot
	columns := 0
	for _, panels := range rows {
		if len(panels) == 0 {
			continue
		}
		row := make([]*plot.Plot, len(panels))
		for i, p := range panels {
			var err error
			if row[i], err = p.draw(); err != nil {
				return err
			}
		}
		plots = append(plots, row)
		columns = max(columns, len(row))
	}
	if len(plots) == 0 {
		return ErrEmpty
	}
	for i := range plots {
		plots[i] = append(plots[i], make([]*plot.Plot, columns-len(plots[i]))...) // places without a plot
	}
	img := vgimg.NewWith(vgimg.UseWH(panelWidth*vg.Length(columns), height*vg.Length(len(plots))), vgimg.UseDPI(resolution), vgimg.UseBackgroundColor(paper))
	canvas := draw.New(img)
	tiles := draw.Tiles{
		Rows: len(plots), Cols: columns, PadX: 28, PadY: 28,
		PadTop: 14, PadBottom: 12, PadLeft: 16, PadRight: 20,
	}
	for i, row := range plot.Align(plots, tiles, canvas) {
		for k, c := range row {
			if p := plots[i][k]; p != nil {
				p.Draw(namesBeside(p, c))
			}
		}
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(w); err != nil {
		return fmt.Errorf("plot: writing PNG: %w", err)
	}
	return nil
}

// namesBeside draws a plot's legend at the right of c, and returns what is left
// of c for the plot.
func namesBeside(p *plot.Plot, c draw.Canvas) draw.Canvas {
	names := p.Legend
	p.Legend = plot.NewLegend()
	names.Top, names.Left, names.XOffs, names.YOffs = true, true, 0, -besideTop
	size := names.Rectangle(c).Size()
	names.Draw(draw.Crop(c, c.Size().X-size.X, 0, 0, 0))
	return draw.Crop(c, 0, -size.X-besideGap, 0, 0)
}

// draw makes the panel's plot.
func (p Panel) draw() (*plot.Plot, error) {
	out := plot.New()
	out.BackgroundColor = paper
	out.Title.Text = p.Title
	out.Title.Padding = 10
	out.X.Label.Text = p.X
	out.Y.Label.Text = p.Y
	style(out)
	if p.Names != nil {
		out.X.Tick.Marker = powerTicks{func(i int) string { return p.Names[i] }}
		out.X.Min, out.X.Max = 1, math.Exp2(float64(len(p.Names)-1))
	} else if p.X == "" {
		out.X.Label.Text = "message size"
		out.X.Tick.Marker = powerTicks{sizeName}
	}
	lo, hi := math.Inf(1), 0.0
	for i, s := range p.Series {
		if len(s.Points) == 0 {
			continue
		}
		if err := addSeries(out, s, i); err != nil {
			return nil, err
		}
		for _, pt := range s.Points {
			lo, hi = min(lo, pt.Value), max(hi, pt.Value)
		}
	}
	if hi == 0 {
		return nil, fmt.Errorf("%w in %q", ErrEmpty, p.Title)
	}
	// A little air, so that no line runs along the frame, and a number at the top.
	out.Y.Min = math.Pow(10, math.Floor(math.Log10(lo*0.9)))
	out.Y.Max = roundUp(hi * 1.4)
	return out, nil
}

// addSeries adds the i-th series: a line, its points and a legend entry.
func addSeries(out *plot.Plot, s Series, i int) error {
	xys := make(plotter.XYs, len(s.Points))
	for j, pt := range s.Points {
		if pt.X <= 0 || pt.Value <= 0 {
			return fmt.Errorf("plot: %s: %g at %g has no place on logarithmic axes", s.Name, pt.Value, pt.X)
		}
		xys[j] = plotter.XY{X: pt.X, Y: pt.Value}
	}
	line, points, err := plotter.NewLinePoints(xys)
	if err != nil {
		return fmt.Errorf("plot: %s: %w", s.Name, err)
	}
	line.Color = palette[i%len(palette)]
	line.Width = 2
	points.Color = line.Color
	points.Radius = 3.2
	points.Shape = shapes[i%len(shapes)]
	if s.Marked != nil {
		points.GlyphStyleFunc = func(j int) draw.GlyphStyle {
			style := points.GlyphStyle
			if s.Marked(s.Points[j]) {
				style.Shape, style.Radius = draw.CrossGlyph{}, 2*style.Radius
			}
			return style
		}
	}
	out.Add(line, points)
	out.Legend.Add(s.Name, line, points)
	return nil
}

// The colours are Okabe and Ito's, which stay apart for every kind of eyes.
var (
	paper   = color.White
	ink     = color.Gray{Y: 50}
	faint   = color.Gray{Y: 226}
	palette = []color.Color{
		color.RGBA{R: 0x55, G: 0x55, B: 0x55, A: 0xff},
		color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
		color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
		color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
		color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
		color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
		color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	}
	shapes = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{},
	}
)

// style sets fonts, axes, grid and legend.
func style(out *plot.Plot) {
	sans := func(size vg.Length) font.Font { return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size} }
	out.Title.TextStyle.Font = sans(14)
	out.Title.TextStyle.Color = ink
	out.X.Scale, out.Y.Scale = plot.LogScale{}, plot.LogScale{}
	out.X.Tick.Marker, out.Y.Tick.Marker = powerTicks{countName}, decadeTicks{}
	for _, a := range []*plot.Axis{&out.X, &out.Y} {
		a.Label.TextStyle.Font = sans(12)
		a.Label.TextStyle.Color = ink
		a.Label.Padding = 6
		a.Tick.Label.Font = sans(10.5)
		a.Tick.Label.Color = ink
		a.Tick.Color, a.Color = ink, ink
		a.Padding = 0
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	out.Add(grid)
	out.Legend.TextStyle.Font = sans(11)
	out.Legend.TextStyle.Color = ink
	out.Legend.ThumbnailWidth = 28
	out.Legend.Padding = 3
}
