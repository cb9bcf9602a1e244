// Package plot draws measurements: lines over a logarithmic axis, such as one-way time and bandwidth
// over message size, and grouped bars for categories.
//
// All pictures follow one convention: measured values are solid, published ones dashed, or bars
// without a filling. A published series has the colour of the measured series that it belongs to.
package plot

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Point is one measurement. X is the message size in bytes, or another quantity that Panel.X names; in a
// Panel with Names it is the index of the name. On a logarithmic axis values must be greater than 0.
type Point struct{ X, Value float64 }

// Series is one line, with its points in order of X, or one bar of each group.
type Series struct {
	Name      string
	Points    []Point
	Published bool             // the values come from a paper
	Of        string           // name of the measured series to which published values belong, if any
	Marked    func(Point) bool // reports whether to draw a point as a cross, which Panel.X explains; nil: none
}

// Panel is one plot of the picture.
type Panel struct {
	Title  string
	X      string   // label of the horizontal axis; "" means message size in bytes
	Names  []string // categories; the panel then has a group of bars for each, and a linear axis
	Y      string   // unit of the vertical axis; gonum leaves too much room for long labels
	Linear bool     // the vertical axis is linear and begins at 0
	Series []Series
}

// ErrEmpty means that there is nothing to draw.
var ErrEmpty = errors.New("plot: nothing to draw")

const (
	panelWidth = 5.6 * vg.Inch // without the legend
	height     = 4.6 * vg.Inch
	legendTop  = 0.8 * vg.Inch // from the top of a panel to the legend
	legendGap  = 0.15 * vg.Inch
	resolution = 144 // dots per inch
)

// maxColumns is the number of panels in a row at which a picture is still readable at a width of 800
// pixels.
const maxColumns = 2

// WritePNG draws the panels in rows of up to maxColumns, and writes the picture to w.
func WritePNG(w io.Writer, panels ...Panel) error {
	return WriteRows(w, slices.Collect(slices.Chunk(panels, maxColumns))...)
}

// WriteRows draws rows of panels. A legend is at the right of each panel, or once, at the right of the
// first row, if all panels have the same series.
func WriteRows(w io.Writer, rows ...[]Panel) error {
	var plots [][]*plot.Plot
	var legends []plot.Legend // in the order of the panels
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
			legends = append(legends, row[i].Legend)
			row[i].Legend = plot.NewLegend() // so that all plots of a row get the same height
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
	room := legendRoom(legends)
	shared := sameSeries(rows)
	width, padX := panelWidth*vg.Length(columns)+room, vg.Length(28)
	if !shared {
		width, padX = (panelWidth+room)*vg.Length(columns), padX+room
	}
	img := vgimg.NewWith(vgimg.UseWH(width, height*vg.Length(len(plots))), vgimg.UseDPI(resolution), vgimg.UseBackgroundColor(paper))
	canvas := draw.New(img)
	tiles := draw.Tiles{
		Rows: len(plots), Cols: columns, PadX: padX, PadY: 28,
		PadTop: 14, PadBottom: 12, PadLeft: 16, PadRight: 20 + room,
	}
	for i, row := range plot.Align(plots, tiles, canvas) {
		for k, c := range row {
			p := plots[i][k]
			if p == nil {
				continue
			}
			p.Draw(c)
			if !shared {
				drawLegend(&legends[0], c)
				legends = legends[1:]
			} else if i == 0 && k == columns-1 {
				drawLegend(fullest(legends), c)
			}
		}
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(w); err != nil {
		return fmt.Errorf("plot: writing PNG: %w", err)
	}
	return nil
}

// sameSeries reports whether all panels have series of the same names, in the same order.
func sameSeries(rows [][]Panel) bool {
	panels := slices.Concat(rows...)
	same := func(a, b Series) bool { return a.Name == b.Name && a.Published == b.Published }
	for _, p := range panels {
		if !slices.EqualFunc(p.Series, panels[0].Series, same) {
			return false
		}
	}
	return true
}

// legendSize returns the size of a legend.
func legendSize(l *plot.Legend) vg.Point {
	return l.Rectangle(draw.New(vgimg.NewWith(vgimg.UseWH(panelWidth, height), vgimg.UseDPI(resolution)))).Size()
}

// legendRoom returns the width of the widest legend, with its gap.
func legendRoom(legends []plot.Legend) vg.Length {
	widest := vg.Length(0)
	for i := range legends {
		widest = max(widest, legendSize(&legends[i]).X)
	}
	return widest + legendGap
}

// fullest returns the legend with the most entries: a panel does not list series without points.
func fullest(legends []plot.Legend) *plot.Legend {
	most := &legends[0]
	for i := range legends {
		if legendSize(&legends[i]).Y > legendSize(most).Y {
			most = &legends[i]
		}
	}
	return most
}

// drawLegend draws a legend at the right of c.
func drawLegend(l *plot.Legend, c draw.Canvas) {
	l.Top, l.Left, l.XOffs, l.YOffs = true, true, 0, -legendTop
	c.Rectangle.Min.X = c.Rectangle.Max.X + legendGap
	c.Rectangle.Max.X += legendGap + panelWidth
	l.Draw(c)
}

// draw makes the panel's plot.
func (p Panel) draw() (*plot.Plot, error) {
	out := plot.New()
	out.BackgroundColor = paper
	out.Title.Text = p.Title
	out.Title.Padding = 10
	out.X.Label.Text = p.X
	out.Y.Label.Text = p.Y
	p.style(out)
	lo, hi := math.Inf(1), 0.0
	for _, s := range p.Series {
		for _, pt := range s.Points {
			lo, hi = min(lo, pt.Value), max(hi, pt.Value)
		}
	}
	if hi == 0 && lo != 0 {
		return nil, fmt.Errorf("%w in %q", ErrEmpty, p.Title)
	}
	if p.Names != nil {
		if err := p.addBars(out); err != nil {
			return nil, err
		}
	} else {
		for i, s := range p.Series {
			if len(s.Points) == 0 {
				continue
			}
			if err := p.addLine(out, s, i); err != nil {
				return nil, err
			}
		}
	}
	// Leave a margin, so that no line runs along the frame, and label both ends of the axis.
	if p.linear() {
		out.Y.Min, out.Y.Max = 0, roundUpFine(hi*1.05)
	} else {
		out.Y.Min, out.Y.Max = roundDown(lo*0.9), roundUp(hi*1.1)
	}
	return out, nil
}

// linear reports whether the vertical axis is linear.
func (p *Panel) linear() bool { return p.Linear || p.Names != nil }

// colour returns the colour of the i-th series. Published values have that of the measured ones.
func (p *Panel) colour(i int) int {
	s := &p.Series[i]
	if of := slices.IndexFunc(p.Series, func(m Series) bool { return !m.Published && m.Name == s.Of }); s.Published && of >= 0 {
		return p.colour(of)
	}
	n := 0
	for j := range i {
		if o := &p.Series[j]; !o.Published || o.Of == "" {
			n++
		}
	}
	return n
}

// addBars adds a group of bars for each name, with a bar for each series.
func (p *Panel) addBars(out *plot.Plot) error {
	const group = 0.8 // of the distance between two names
	wide := vg.Length(group) * barRoom / vg.Length(len(p.Names)*len(p.Series))
	for i, s := range p.Series {
		colour := palette[p.colour(i)%len(palette)]
		look := plotter.BarChart{
			Width: wide, Offset: wide * (vg.Length(i) - vg.Length(len(p.Series)-1)/2),
			Color: colour, LineStyle: draw.LineStyle{Color: colour, Width: 1.2},
		}
		if s.Published {
			look.Color, look.LineStyle.Dashes = paper, dashes
		}
		for _, pt := range s.Points {
			if k := int(pt.X); k < 0 || k >= len(p.Names) || pt.Value < 0 {
				return fmt.Errorf("plot: %s: %g at %g has no place among %d names", s.Name, pt.Value, pt.X, len(p.Names))
			}
			bar := look
			bar.Values, bar.XMin = plotter.Values{pt.Value}, pt.X
			out.Add(&bar)
		}
		out.Legend.Add(s.Name, &look)
	}
	out.NominalX(p.Names...)
	out.X.Min, out.X.Max = -0.5, float64(len(p.Names))-0.5
	return nil
}

// barRoom is about the width of the horizontal axis.
const barRoom = panelWidth - 1.1*vg.Inch

// addLine adds the i-th series: a line, its points and a legend entry.
func (p *Panel) addLine(out *plot.Plot, s Series, i int) error {
	xys := make(plotter.XYs, len(s.Points))
	for j, pt := range s.Points {
		if pt.X <= 0 || pt.Value <= 0 && !p.Linear {
			return fmt.Errorf("plot: %s: %g at %g has no place on logarithmic axes", s.Name, pt.Value, pt.X)
		}
		xys[j] = plotter.XY{X: pt.X, Y: pt.Value}
	}
	line, points, err := plotter.NewLinePoints(xys)
	if err != nil {
		return fmt.Errorf("plot: %s: %w", s.Name, err)
	}
	colour := p.colour(i)
	line.Color = palette[colour%len(palette)]
	line.Width = 2
	points.Color = line.Color
	points.Radius = 3.2
	points.Shape = shapes[colour%len(shapes)]
	if s.Published {
		line.Dashes = dashes
		points.Shape = draw.RingGlyph{}
		points.Radius = 4.2
	}
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

// dashes is the dash pattern of published values.
var dashes = []vg.Length{vg.Points(5), vg.Points(3)}

// The first seven colours are Okabe and Ito's, which people with any kind of colour vision can tell apart.
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
		color.RGBA{R: 0x8c, G: 0x51, B: 0x0a, A: 0xff},
		color.RGBA{R: 0x6a, G: 0x3d, B: 0x9a, A: 0xff},
	}
	shapes = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{},
	}
)

// style sets fonts, axes, grid and legend.
func (p *Panel) style(out *plot.Plot) {
	sans := func(size vg.Length) font.Font { return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size} }
	out.Title.TextStyle.Font = sans(14)
	out.Title.TextStyle.Color = ink
	switch {
	case p.Names != nil: // NominalX sets the axis
	case p.X == "":
		out.X.Label.Text = "message size, bytes"
		out.X.Scale, out.X.Tick.Marker = plot.LogScale{}, powerTicks{sizeName}
	default:
		out.X.Scale, out.X.Tick.Marker = plot.LogScale{}, powerTicks{countName}
	}
	if p.linear() {
		out.Y.Tick.Marker = evenTicks{}
	} else {
		out.Y.Scale, out.Y.Tick.Marker = plot.LogScale{}, decadeTicks{}
	}
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
