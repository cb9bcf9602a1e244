package raytrace

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"

	"github.com/bobnet-go/bobnet/internal/userfile"
)

// Config describes the picture.
type Config struct {
	Width, Height int // pixels
	Side          int // a pixel is the mean of Side x Side samples
	Grid          int // each of the teapot's 32 patches is Grid x Grid pairs of triangles
	Tile          int // pixels along the side of a tile, which is the unit of work
	Seed          uint64
}

// Defaults. The paper names the teapot but gives no size.
const (
	DefaultWidth  = 480
	DefaultHeight = 360
	DefaultSide   = 3
	DefaultGrid   = 16
	DefaultTile   = 16
)

// ErrConfig is wrapped by the errors for an impossible configuration.
var ErrConfig = errors.New("raytrace: configuration")

// Check returns an error if the picture is impossible.
func (c Config) Check() error {
	switch {
	case c.Width < 1 || c.Height < 1 || c.Width > 1<<13 || c.Height > 1<<13:
		return fmt.Errorf("%w: a picture of %d x %d pixels: want 1 to %d each way", ErrConfig, c.Width, c.Height, 1<<13)
	case c.Side < 1 || c.Side > 64:
		return fmt.Errorf("%w: %d x %d samples a pixel: want 1 to 64 each way", ErrConfig, c.Side, c.Side)
	case c.Grid < 1 || c.Grid > 128:
		return fmt.Errorf("%w: a grid of %d in a patch: want 1 to 128", ErrConfig, c.Grid)
	case c.Tile < 1 || c.Tile > 256:
		return fmt.Errorf("%w: tiles of %d pixels: want 1 to 256", ErrConfig, c.Tile)
	}
	return nil
}

// size returns the size of the picture for a report.
func (c Config) size() string {
	return fmt.Sprintf("%d x %d pixels, %d samples each, %d triangles", c.Width, c.Height, c.Side*c.Side, 2*32*c.Grid*c.Grid)
}

// Picture is a picture, or a tile of one, row by row: red, green and blue of each pixel.
type Picture struct {
	Width, Height int
	Pixels        []byte
}

// Tracer draws parts of a picture. Any number of Tracers may draw the same picture.
type Tracer struct {
	Config
	*scene
}

// NewTracer builds the scene.
func NewTracer(c Config) *Tracer { return &Tracer{c, newScene(c.Width, c.Height, c.Grid)} }

// tiles returns the number of tiles of the picture.
func (c Config) tiles() int { return c.across() * ((c.Height + c.Tile - 1) / c.Tile) }

func (c Config) across() int { return (c.Width + c.Tile - 1) / c.Tile }

// tile returns the rectangle of a tile.
func (c Config) tile(i int) image.Rectangle {
	x, y := i%c.across()*c.Tile, i/c.across()*c.Tile
	return image.Rect(x, y, min(x+c.Tile, c.Width), min(y+c.Tile, c.Height))
}

// row draws some neighbouring pixels of a row into out, three bytes each.
func (t *Tracer) row(out []byte, x0, x1, y int) {
	for x := x0; x < x1; x++ {
		c := t.pixel(x, y, t.Width, t.Height, t.Side, t.Seed)
		o := out[3*(x-x0) : 3*(x-x0)+3]
		o[0], o[1], o[2] = shown(c.x), shown(c.y), shown(c.z)
	}
}

// Serial draws the whole picture in one process.
func (t *Tracer) Serial() *Picture {
	p := &Picture{t.Width, t.Height, make([]byte, 3*t.Width*t.Height)}
	for y := range t.Height {
		t.row(p.Pixels[3*y*t.Width:3*(y+1)*t.Width], 0, t.Width, y)
	}
	return p
}

// shown converts an amount of light to a byte of an sRGB picture. It compresses bright light, as
// film does.
func shown(v float64) byte {
	v *= 0.85
	v = v * (2.51*v + 0.03) / (v*(2.43*v+0.59) + 0.14)
	v = min(1, max(0, v))
	if v <= 0.0031308 {
		v *= 12.92
	} else {
		v = 1.055*math.Pow(v, 1/2.4) - 0.055
	}
	return byte(255*v + 0.5)
}

// Equal returns an error that names the first pixel in which two pictures differ.
func (p *Picture) Equal(o *Picture) error {
	if p.Width != o.Width || p.Height != o.Height {
		return fmt.Errorf("%d x %d pixels are not %d x %d", p.Width, p.Height, o.Width, o.Height)
	}
	for i := range p.Pixels {
		if p.Pixels[i] != o.Pixels[i] {
			return fmt.Errorf("the pixels in column %d of row %d differ", i/3%p.Width, i/3/p.Width)
		}
	}
	return nil
}

// WriteFile writes the picture as a PNG file.
func (p *Picture) WriteFile(name string) error {
	m := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(m.Pix[4*i:4*i+3], p.Pixels[3*i:])
		m.Pix[4*i+3] = 255
	}
	f, err := userfile.Create(name)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := errors.Join(encoder.Encode(f, m), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
