package raytrace

import (
	"errors"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

func small() Config { return Config{Width: 40, Height: 30, Side: 2, Grid: 3, Tile: 8, Seed: 1} }

// TestTeapot: it has the number of patches and the size that it is known by, and its
// surface is smooth where patches of the body meet.
func TestTeapot(t *testing.T) {
	all := patches()
	if len(all) != 32 {
		t.Fatalf("%d patches", len(all))
	}
	s := newScene(4, 3, 8)
	low, high := vector{-3, -2, 0}, vector{3.43, 2, 3.15}
	if s.low.minus(low).length() > 0.06 || s.high.minus(high).length() > 0.06 {
		t.Errorf("it reaches from %v to %v, want about %v to %v", s.low, s.high, low, high)
	}
	for i := range 4 { // the upper and the lower body, of which the one continues the other
		a, n := all[4+i].corner(1, 0.3)
		b, m := all[8+i].corner(0, 0.3)
		if a.minus(b).length() > 1e-12 || n.minus(m).length() > 1e-12 {
			t.Errorf("quarter %d: %v with normal %v, and %v with %v", i, a, n, b, m)
		}
	}
	for i, p := range all {
		for _, at := range [][2]float64{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0.5, 0.5}} {
			if _, n := p.corner(at[0], at[1]); !(math.Abs(n.length()-1) < 1e-9) {
				t.Errorf("patch %d at %v: normal %v", i, at, n)
			}
		}
	}
}

// TestNormals: the derivatives are those of the points.
func TestNormals(t *testing.T) {
	const d = 1e-6
	for i, p := range patches() {
		at, n := p.at(0.3, 0.6)
		u, _ := p.at(0.3+d, 0.6)
		v, _ := p.at(0.3, 0.6+d)
		if got := u.minus(at).cross(v.minus(at)).times(1 / (d * d)); got.minus(n).length() > 1e-3*n.length()+1e-3 {
			t.Errorf("patch %d: normal %v, by differences %v", i, n, got)
		}
	}
}

// TestHierarchy compares with a look at every triangle.
func TestHierarchy(t *testing.T) {
	h := newHierarchy(teapot(4))
	draw := func(i uint64) float64 { return 2*spmd.Uniform(7, i) - 1 }
	met := 0
	for i := uint64(0); i < 1000*6; i += 6 {
		from := vector{5 * draw(i), 5 * draw(i+1), 4 * draw(i+2)}
		towards := vector{2.5 * draw(i+3), 1.5 * draw(i+4), 1.5 + 1.5*draw(i+5)}
		r := newRay(from, towards.minus(from).unit(), math.Inf(1))
		want := math.Inf(1)
		for k := range h.mesh {
			if d, _, _ := h.mesh[k].meet(&r); d < want {
				want = d
			}
		}
		got, ok := h.meet(r, false)
		if ok != !math.IsInf(want, 1) || ok && got.distance != want {
			t.Fatalf("ray %d: %v at %v, want %v", i/6, ok, got.distance, want)
		}
		if _, any := h.meet(r, true); any != ok {
			t.Fatalf("ray %d: met %v, and %v where any triangle would do", i/6, ok, any)
		}
		if ok {
			met++
			short := newRay(from, r.along, want)
			if got, ok := h.meet(short, false); ok && got.distance >= want {
				t.Fatalf("ray %d met beyond its end", i/6)
			}
		}
	}
	if met < 300 {
		t.Errorf("%d rays of 1000 met the teapot", met)
	}
}

func TestEmptyHierarchy(t *testing.T) {
	if _, ok := newHierarchy(nil).meet(newRay(vector{}, vector{1, 0, 0}, 9), false); ok {
		t.Error("a ray met a triangle, and there is none")
	}
}

// TestAlike: triangles that no plane divides end up in one leaf.
func TestAlike(t *testing.T) {
	one := triangle{ab: vector{1, 0, 0}, ac: vector{0, 1, 0}}
	h := newHierarchy(slices.Repeat([]triangle{one}, 50))
	if _, ok := h.meet(newRay(vector{0.2, 0.2, 1}, vector{0, 0, -1}, 9), false); !ok || len(h.boxes) != 1 {
		t.Errorf("met: %v; %d boxes", ok, len(h.boxes))
	}
}

func TestShuffle(t *testing.T) {
	for _, n := range []int{1, 2, 9, 16, 25, 64} {
		for seed := range uint64(50) {
			var all []int
			for i := range n {
				all = append(all, shuffle(i, n, spmd.Bits(1, seed)))
			}
			slices.Sort(all)
			for i, v := range all {
				if i != v {
					t.Fatalf("%d numbers with seed %d: %v", n, seed, all)
				}
			}
		}
	}
}

// TestTiles: each pixel is in one tile, and comes out the same by tiles as alone.
func TestTiles(t *testing.T) {
	c := small()
	c.Width, c.Height = 37, 21 // no multiples of a tile
	tracer := NewTracer(c)
	whole, times := tracer.Serial(), make([]int, c.Width*c.Height)
	for i := range c.tiles() {
		r := c.tile(i)
		for y := r.Min.Y; y < r.Max.Y; y++ {
			row := make([]byte, 3*r.Dx())
			tracer.row(row, r.Min.X, r.Max.X, y)
			at := y*c.Width + r.Min.X
			if !slices.Equal(row, whole.Pixels[3*at:3*at+len(row)]) {
				t.Fatalf("tile %d: row %d differs", i, y)
			}
			for x := range r.Dx() {
				times[at+x]++
			}
		}
	}
	for i, n := range times {
		if n != 1 {
			t.Fatalf("pixel %d is in %d tiles", i, n)
		}
	}
}

// TestLooks: there is a teapot in the picture, where it should be: bluer than red in the
// middle, which neither floor nor haze is.
func TestLooks(t *testing.T) {
	p := NewTracer(small()).Serial()
	bluish := func(x, y int) bool {
		o := p.Pixels[3*(y*p.Width+x):]
		return int(o[2]) > int(o[0])+30
	}
	if !bluish(p.Width/2, p.Height/2) || bluish(1, 1) || bluish(1, p.Height-2) {
		t.Error("the teapot is not in the middle of the picture")
	}
}

func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "p.png")
	p := &Picture{2, 1, []byte{1, 2, 3, 250, 251, 252}}
	if err := p.WriteFile(name); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if r, g, b, a := m.At(1, 0).RGBA(); r>>8 != 250 || g>>8 != 251 || b>>8 != 252 || a>>8 != 255 {
		t.Errorf("read back %v", m.At(1, 0))
	}
	if err := p.WriteFile(filepath.Join(name, "x")); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a file below a file: %v", err)
	}
}

func TestEqual(t *testing.T) {
	a, b := &Picture{1, 2, make([]byte, 6)}, &Picture{1, 2, make([]byte, 6)}
	if err := a.Equal(b); err != nil {
		t.Error(err)
	}
	b.Pixels[4] = 1
	if err := a.Equal(b); err == nil || !strings.Contains(err.Error(), "row 1") {
		t.Error(err)
	}
	if a.Equal(&Picture{2, 1, make([]byte, 6)}) == nil {
		t.Error("pictures of other shapes are equal")
	}
}

func TestCheck(t *testing.T) {
	if err := small().Check(); err != nil {
		t.Error(err)
	}
	for _, edit := range []func(*Config){func(c *Config) { c.Width = 0 }, func(c *Config) { c.Height = 1 << 20 }, func(c *Config) { c.Side = 0 }, func(c *Config) { c.Grid = -1 }, func(c *Config) { c.Tile = 0 }} {
		c := small()
		edit(&c)
		if err := c.Check(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func BenchmarkSerial(b *testing.B) {
	c := small()
	c.Grid = DefaultGrid
	tracer := NewTracer(c)
	for b.Loop() {
		tracer.Serial()
	}
}
