package plot

import (
	"bytes"
	"errors"
	"image/color"
	"image/png"
	"os"
	"testing"
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
	if b := img.Bounds(); b.Dx() != 3*7*resolution {
		t.Errorf("picture is %v, want %d dots wide", b, 3*7*resolution)
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

// TestNamesBeside: a line ends before its name's sample begins, wherever it runs,
// and behind the name there is a margin.
func TestNamesBeside(t *testing.T) {
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
	for i, want := range map[int]string{0: "1", 6: "64", 10: "1 Ki", 16: "64 Ki", 20: "1 Mi", 30: "1 Gi"} {
		if got := sizeName(i); got != want {
			t.Errorf("sizeName(%d) = %q, want %q", i, got, want)
		}
	}
	for i, want := range map[int]string{0: "1", 6: "64", 10: "1 024"} {
		if got := countName(i); got != want {
			t.Errorf("countName(%d) = %q, want %q", i, got, want)
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
