package heat

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSerialPhysics(t *testing.T) {
	plate := NewGrid(9, 9)
	plate.Cells[4*9+4] = 0.5 // no source: it spreads
	g, err := Serial(Config{Initial: plate, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, y int
		want float64
	}{{4, 4, 0.1}, {3, 4, 0.1}, {5, 4, 0.1}, {4, 3, 0.1}, {4, 5, 0.1}, {3, 3, 0}, {4, 2, 0}} {
		if got := g.Cells[c.y*9+c.x]; math.Abs(got-c.want) > 1e-15 {
			t.Errorf("after one step (%d, %d) is %v, want %v", c.x, c.y, got, c.want)
		}
	}
	if plate.Cells[4*9+4] != 0.5 {
		t.Error("Serial changed the plate that it was given")
	}
}

func TestSourcesAndRimHold(t *testing.T) {
	plate := NewGrid(5, 5)
	plate.Cells[2*5+2] = 1
	plate.Cells[0] = 0.25
	g, err := Serial(Config{Initial: plate, Steps: 2000})
	if err != nil {
		t.Fatal(err)
	}
	if g.Cells[2*5+2] != 1 || g.Cells[0] != 0.25 || g.Cells[1] != 0 {
		t.Errorf("source %v, rim %v and %v; want 1, 0.25 and 0", g.Cells[2*5+2], g.Cells[0], g.Cells[1])
	}
	// Settled: beside the source sits 1/4 (1 + 2·corner), in the corner half of that.
	if got := g.Cells[2*5+1]; math.Abs(got-1.0/3) > 1.0/64 {
		t.Errorf("beside the source it is %v after a long time, want about 1/3", got)
	}
}

func TestConfigErrors(t *testing.T) {
	for name, cfg := range map[string]Config{
		"negative steps": {Steps: -1},
		"unstable":       {Rate: 0.3},
		"reports":        {Reports: -1},
		"cells missing":  {Initial: &Grid{Width: 2, Height: 2}},
		"empty":          {Initial: &Grid{}},
	} {
		if _, err := Serial(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEqualSeesOneBit(t *testing.T) {
	a, b := NewGrid(3, 2), NewGrid(3, 2)
	if err := a.Equal(b); err != nil {
		t.Error(err)
	}
	b.Cells[4] = math.SmallestNonzeroFloat64
	if a.Equal(b) == nil {
		t.Error("a difference in the last bit was not seen")
	}
	if a.Equal(NewGrid(2, 3)) == nil {
		t.Error("a difference in shape was not seen")
	}
}

func TestPictureRoundTrip(t *testing.T) {
	m := image.NewGray(image.Rect(5, 7, 8, 9))
	m.SetGray(6, 7, color.Gray{Y: 255})
	m.SetGray(7, 8, color.Gray{Y: 51})
	var b bytes.Buffer
	if err := Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	g, err := Decode(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if want := (&Grid{3, 2, []float64{0, 1, 0, 0, 0, 0.2}}); g.Equal(want) != nil {
		t.Errorf("got %v, want %v", g, want)
	}
	if _, err := Decode(bytes.NewReader([]byte("not a PNG"))); err == nil {
		t.Error("nonsense was accepted as a picture")
	}
}

// TestFileErrorsNameTheFile: also where the error is about what is in it.
func TestFileErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.png")
	if err := os.WriteFile(bad, []byte("not a PNG"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{bad, filepath.Join(dir, "none.png")} {
		if _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("reading %s: %v", name, err)
		}
	}
	empty := filepath.Join(dir, "empty.png") // PNG knows no picture without pixels
	if err := WriteFile(empty, image.NewGray(image.Rectangle{})); err == nil || !strings.Contains(err.Error(), empty) {
		t.Errorf("writing an empty picture: %v", err)
	}
}

func TestDefaultIsACopy(t *testing.T) {
	a, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	a.Cells[0] = 42
	if b, _ := Default(); b.Cells[0] == 42 {
		t.Error("two callers of Default share cells")
	}
}

func TestRenderEnds(t *testing.T) {
	g := NewGrid(4, 1)
	g.Cells = []float64{0, 0, 3, 3}
	m := g.Render()
	if got, want := m.RGBAAt(0, 0), (color.RGBA{0, 0, 4, 255}); got != want {
		t.Errorf("the coldest cell is %v, want %v", got, want)
	}
	if got, want := m.RGBAAt(3, 0), (color.RGBA{252, 255, 164, 255}); got != want {
		t.Errorf("the hottest cell is %v, want %v", got, want)
	}
	flat := NewGrid(2, 2).Render() // no range to scale by
	if got, want := flat.RGBAAt(1, 1), (color.RGBA{0, 0, 4, 255}); got != want {
		t.Errorf("a flat plate is %v, want %v", got, want)
	}
}

func BenchmarkSerialStep(b *testing.B) {
	plate, err := Default()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(8 * len(plate.Cells)))
	if _, err := Serial(Config{Initial: plate, Steps: b.N}); err != nil {
		b.Fatal(err)
	}
}
