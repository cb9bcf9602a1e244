package plot

import (
	"bytes"
	"errors"
	"image/color"
	"image/png"
	"math"
	"os"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

func line(name string, fixed, perByte float64) Series {
	s := Series{Name: name}
	for size := 64.0; size <= 1<<20; size *= 4 {
		s.Points = append(s.Points, Point{size, fixed + size*perByte})
	}
	return s
}

func TestWritePNG(t *testing.T) {
	var out bytes.Buffer
	err := WritePNG(&out,
		Panel{Title: "One-way time", Y: "µs", Series: []Series{line("raw, spinning", 1.5, 0.0008), line("vipl, spinning", 1.8, 0.0008), line("mplite, spinning", 2, 0.00085), line("tcp, blocking", 9, 0.0004)}},
		Panel{Title: "Bandwidth", Y: "Mbit/s", Series: []Series{line("raw", 900, 0.02), line("tcp", 60, 0.03)}},
		Panel{Title: "Marked", Y: "Mbit/s", Series: []Series{{Name: "crosses", Points: []Point{{1, 1}, {4, 2}}, Marked: func(p Point) bool { return p.X > 1 }}}})
	if err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("PLOT_TEST_PNG"); name != "" { // for a look at it
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	if b, least := img.Bounds(), vg.Length(maxColumns)*panelWidth/vg.Inch*resolution; vg.Length(b.Dx()) <= least || vg.Length(b.Dx()) > 1.6*least {
		t.Errorf("picture is %v, want more than the %g dots of a row of panels without their legends, and less than one panel more", b, least)
	}
	seen := map[any]bool{}
	for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
		for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	for i := range 2 { // a line in each of the two colours
		r, g, b, _ := palette[i].RGBA()
		if !seen[[3]uint32{r >> 8, g >> 8, b >> 8}] {
			t.Errorf("colour %d of the palette is nowhere in the picture", i)
		}
	}
}

// TestLegendBeside: a line ends before its sample in the legend begins, wherever it runs, and the
// legend does not touch the edge of the picture.
func TestLegendBeside(t *testing.T) {
	p := Panel{Title: "Signature", X: "burst, requests", Y: "µs",
		Series: []Series{line("grey as ink", 2000, 0), line("flat, on top", 1000, 0),
			{Name: "bottom right", Points: []Point{{64, 500}, {1 << 20, 1}}}}}
	var out bytes.Buffer
	if err := WritePNG(&out, p); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	b := img.Bounds()
	columns := func(has func(color.RGBA) bool) (runs int, last int) {
		before := false
		for x := b.Min.X; x < b.Max.X; x++ {
			found := false
			for y := b.Min.Y; y < b.Max.Y && !found; y++ {
				found = has(color.RGBAModel.Convert(img.At(x, y)).(color.RGBA))
			}
			if found && !before {
				runs++
			}
			if found {
				last = x
			}
			before = found
		}
		return runs, last
	}
	for _, i := range []int{1, 2} {
		runs, last := columns(func(c color.RGBA) bool { return c == palette[i] })
		if runs != 2 || last < b.Max.X*3/4 {
			t.Errorf("colour %d is in %d ranges of columns, the last ends at %d of %d; want the line and, far right, the name's sample", i, runs, last, b.Max.X)
		}
	}
	if _, last := columns(func(c color.RGBA) bool { return c != color.RGBA{255, 255, 255, 255} }); last > b.Max.X-10 {
		t.Errorf("the last column that is not bare is %d of %d", last, b.Max.X)
	}
}

// TestAxisEnds: both ends of an axis have a label, and labels are apart.
func TestAxisEnds(t *testing.T) {
	for _, axis := range []struct {
		ticks  []plot.Tick
		lo, hi float64
	}{
		{powerTicks{sizeName}.Ticks(8, 4<<20), 8, 4 << 20}, {powerTicks{countName}.Ticks(7, 84), 7, 84}, {powerTicks{countName}.Ticks(1, 1), 1, 1},
		{decadeTicks{}.Ticks(roundDown(1.3), roundUp(7041)), 1, 10_000}, {evenTicks{}.Ticks(0, roundUpFine(97)), 0, 100},
	} {
		var labelled []float64
		for _, tick := range axis.ticks {
			if tick.Label != "" {
				labelled = append(labelled, tick.Value)
			}
		}
		if n := len(labelled); n < 2 || labelled[0] != axis.lo || labelled[n-1] != axis.hi {
			t.Errorf("from %g to %g labels are at %v", axis.lo, axis.hi, labelled)
		}
	}
}

// TestZero: a tick at 0 is labelled 0, also if the axis begins just below.
func TestZero(t *testing.T) {
	for _, tick := range (evenTicks{}).Ticks(-0.5, 100) {
		if tick.Label == "-0" {
			t.Errorf("a tick at %v is labelled %s", tick.Value, tick.Label)
		}
	}
}

// TestPublishedColour: published values have the colour of the measured ones that they belong to, and
// no other series has that colour.
func TestPublishedColour(t *testing.T) {
	p := Panel{Series: []Series{{Name: "a"}, {Name: "b"}, {Name: "paper, b", Published: true, Of: "b"}, {Name: "paper", Published: true}, {Name: "c"}}}
	for i, want := range []int{0, 1, 1, 2, 3} {
		if got := p.colour(i); got != want {
			t.Errorf("series %q has colour %d, want %d", p.Series[i].Name, got, want)
		}
	}
}

// TestBars: a panel with names draws a bar for each series and name, and refuses places without a name.
func TestBars(t *testing.T) {
	p := Panel{Title: "LogP", Names: []string{"o", "g"}, Y: "µs", Series: []Series{
		{Name: "ours", Points: []Point{{0, 2}, {1, 3}}}, {Name: "paper", Published: true, Of: "ours", Points: []Point{{1, 3.1}}}}}
	var out bytes.Buffer
	if err := WritePNG(&out, p); err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("PLOT_TEST_BARS"); name != "" { // for a look at it
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.Series[0].Points[0].X = 2
	if err := WritePNG(&out, p); err == nil {
		t.Error("a bar was drawn at a place without a name")
	}
}

func TestWritePNGRefuses(t *testing.T) {
	var out bytes.Buffer
	if err := WritePNG(&out); !errors.Is(err, ErrEmpty) {
		t.Errorf("no panel: %v, want ErrEmpty", err)
	}
	if err := WritePNG(&out, Panel{Title: "x", Series: []Series{{Name: "raw"}}}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no point: %v, want ErrEmpty", err)
	}
	if err := WritePNG(&out, Panel{Series: []Series{{Name: "raw", Points: []Point{{64, 0}}}}}); err == nil {
		t.Error("a value of 0 was drawn on a logarithmic axis")
	}
	if out.Len() != 0 {
		t.Errorf("%d bytes were written in spite of the errors", out.Len())
	}
}

func TestTickNames(t *testing.T) {
	for v, want := range map[float64]string{1: "1", 64: "64", 1 << 10: "1 Ki", 1 << 16: "64 Ki", 10_752: "10.5 Ki", 1 << 20: "1 Mi", 1 << 30: "1 Gi"} {
		if got := sizeName(v); got != want {
			t.Errorf("sizeName(%g) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]float64{1: 1, 1.1: 1, 3: 2, 0.7: 0.5, 51: 50, 99: 50, 20000: 20000} {
		if got := roundDown(v); got != want {
			t.Errorf("roundDown(%g) = %g, want %g", v, got, want)
		}
	}
	for v, want := range map[float64]float64{97: 100, 101: 120, 12: 12, 0.3: 0.3, 4.1: 4.5} {
		if got := roundUpFine(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("roundUpFine(%g) = %g, want %g", v, got, want)
		}
	}
	for v, want := range map[float64]float64{1: 1, 1.1: 2, 3: 5, 0.7: 1, 51: 100, 20000: 20000} {
		if got := roundUp(v); got != want {
			t.Errorf("roundUp(%g) = %g, want %g", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.5: "0.5", 1: "1", 20: "20", 500: "500", 1000: "1 000", 20000: "20 000", 1e6: "1 000 000"} {
		if got := groupDigits(v); got != want {
			t.Errorf("groupDigits(%g) = %q, want %q", v, got, want)
		}
	}
}
