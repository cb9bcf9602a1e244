package plot

import (
	"bytes"
	"errors"
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
		Panel{Title: "Bandwidth", Y: "Mbit/s", Series: []Series{line("raw", 900, 0.02), line("tcp", 60, 0.03)}})
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
	if b := img.Bounds(); b.Dx() != 2*7*resolution {
		t.Errorf("picture is %v, want %d dots wide", b, 2*7*resolution)
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
