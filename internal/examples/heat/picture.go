package heat

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"sync"

	"github.com/bobnet-go/bobnet/internal/userfile"
)

//go:generate go run ../../../examples/heat/picture -o bobnet.png

//go:embed bobnet.png
var picture []byte

var defaultPlate = sync.OnceValues(func() (*Grid, error) { return Decode(bytes.NewReader(picture)) })

// Default returns a new copy of the embedded plate: Bobnet's name above an
// Ethernet segment with its stations.
func Default() (*Grid, error) {
	g, err := defaultPlate()
	if err != nil {
		return nil, err
	}
	return &Grid{g.Width, g.Height, append([]float64(nil), g.Cells...)}, nil
}

// MaxPixels is the largest picture that Decode accepts.
const MaxPixels = 1 << 26

// Decode reads a PNG as a plate.
func Decode(r io.ReadSeeker) (*Grid, error) {
	size, err := png.DecodeConfig(r)
	if err != nil {
		return nil, fmt.Errorf("heat: the picture is not a readable PNG: %w", err)
	}
	if size.Width*size.Height > MaxPixels {
		return nil, fmt.Errorf("%w: the picture has %dx%d pixels, the limit is %d in all",
			ErrConfig, size.Width, size.Height, MaxPixels)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("heat: reading the picture: %w", err)
	}
	m, err := png.Decode(r)
	if err != nil {
		return nil, fmt.Errorf("heat: the picture is not a readable PNG: %w", err)
	}
	return FromImage(m), nil
}

// ReadFile reads a PNG file as a plate.
func ReadFile(name string) (*Grid, error) {
	f, err := userfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g, err := Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return g, nil
}

// Encode writes a picture as a PNG.
func Encode(w io.Writer, m image.Image) error {
	if err := png.Encode(w, m); err != nil {
		return fmt.Errorf("heat: writing the picture: %w", err)
	}
	return nil
}

// WriteFile writes a picture as a PNG file.
func WriteFile(name string, m image.Image) error {
	f, err := userfile.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(Encode(f, m), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// plate returns the plate to start from.
func (c *Config) plate() (*Grid, error) {
	if c.Initial == nil {
		return Default()
	}
	if g := c.Initial; g.Width < 1 || g.Height < 1 || len(g.Cells) != g.Width*g.Height {
		return nil, fmt.Errorf("%w: a plate of %dx%d with %d cells", ErrConfig, g.Width, g.Height, len(g.Cells))
	}
	return c.Initial, nil
}
