// Command picture draws the plate that package heat embeds. It shows the name in white strokes,
// which stay hot, above an Ethernet segment, which cools down. The stations of the segment have a
// core that stays hot.
//
//	go run ./examples/heat/picture -o bobnet.png
package main

import (
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"

	"github.com/bobnet-go/bobnet/internal/userfile"
)

const size = 512

type point struct{ x, y float64 }

// stroke is a line, or with radius an arc around from, drawn with a round pen.
type stroke struct {
	from, to       point
	radius         float64
	start, end     float64 // of the arc, in radians clockwise from the right
	pen, heat, dim float64 // half the width; brightness; brightness lost over one pixel outside
}

func main() {
	out := flag.String("o", "bobnet.png", "write the picture to `FILE`")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func write(name string) error {
	f, err := userfile.Create(name)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	return errors.Join(encoder.Encode(f, draw(append(letters(), segment()...))), f.Close())
}

func draw(strokes []stroke) image.Image {
	m := image.NewGray(image.Rect(0, 0, size, size))
	for _, s := range strokes {
		box := s.bounds().Intersect(m.Rect)
		for y := box.Min.Y; y < box.Max.Y; y++ {
			for x := box.Min.X; x < box.Max.X; x++ {
				outside := s.distance(point{float64(x), float64(y)}) - s.pen
				heat := s.heat - max(outside, 0)*s.dim
				grey := uint8(math.Round(255 * min(max(heat, 0), 1)))
				m.SetGray(x, y, color.Gray{Y: max(grey, m.GrayAt(x, y).Y)})
			}
		}
	}
	return m
}

// bounds returns a rectangle that contains all pixels of the stroke.
func (s stroke) bounds() image.Rectangle {
	reach := s.radius + s.pen + s.heat/s.dim + 1
	to := s.to
	if s.radius > 0 {
		to = s.from
	}
	return image.Rect(
		int(min(s.from.x, to.x)-reach), int(min(s.from.y, to.y)-reach),
		int(max(s.from.x, to.x)+reach)+1, int(max(s.from.y, to.y)+reach)+1)
}

// distance returns the distance of p from the middle of the stroke.
func (s stroke) distance(p point) float64 {
	if s.radius == 0 {
		dx, dy := s.to.x-s.from.x, s.to.y-s.from.y
		t := 0.0
		if length := dx*dx + dy*dy; length > 0 {
			t = min(max(((p.x-s.from.x)*dx+(p.y-s.from.y)*dy)/length, 0), 1)
		}
		return math.Hypot(p.x-s.from.x-t*dx, p.y-s.from.y-t*dy)
	}
	at := math.Atan2(p.y-s.from.y, p.x-s.from.x)
	for at < s.start {
		at += 2 * math.Pi
	}
	if at <= s.end {
		return math.Abs(math.Hypot(p.x-s.from.x, p.y-s.from.y) - s.radius)
	}
	return min(s.distanceTo(p, s.start), s.distanceTo(p, s.end))
}

func (s stroke) distanceTo(p point, angle float64) float64 {
	return math.Hypot(p.x-s.from.x-s.radius*math.Cos(angle), p.y-s.from.y-s.radius*math.Sin(angle))
}

// Size of a letter's box, in pixels.
const (
	letterTop    = 120.0
	letterHeight = 110.0
	letterWidth  = 55.0
	letterStep   = 78.0
	letterPen    = 4.0
)

// letters returns the name in white.
func letters() []stroke {
	var all []stroke
	left := (size - 5*letterStep - letterWidth) / 2
	for i, name := range "BOBNET" {
		for _, s := range glyph(name) {
			place := func(p point) point {
				return point{left + float64(i)*letterStep + p.x*letterWidth, letterTop + p.y*letterHeight}
			}
			s.from, s.to = place(s.from), place(s.to)
			s.radius *= letterHeight
			s.pen, s.heat, s.dim = letterPen, 1, 0.5
			all = append(all, s)
		}
	}
	return all
}

// glyph returns the strokes of a letter in a box of 1x1; radii are fractions of its height.
func glyph(name rune) []stroke {
	line := func(x0, y0, x1, y1 float64) stroke { return stroke{from: point{x0, y0}, to: point{x1, y1}} }
	arc := func(x, y, r, start, end float64) stroke {
		return stroke{from: point{x, y}, radius: r, start: start, end: end}
	}
	const right = math.Pi / 2
	switch name {
	case 'B':
		return []stroke{
			line(0, 0, 0, 1), line(0, 0, 0.5, 0), line(0, 0.5, 0.5, 0.5), line(0, 1, 0.5, 1),
			arc(0.5, 0.25, 0.25, -right, right), arc(0.5, 0.75, 0.25, -right, right),
		}
	case 'O':
		return []stroke{
			arc(0.5, 0.25, 0.25, -2*right, 0), arc(0.5, 0.75, 0.25, 0, 2*right),
			line(0, 0.25, 0, 0.75), line(1, 0.25, 1, 0.75),
		}
	case 'N':
		return []stroke{line(0, 1, 0, 0), line(0, 0, 1, 1), line(1, 1, 1, 0)}
	case 'E':
		return []stroke{line(0, 0, 0, 1), line(0, 0, 1, 0), line(0, 0.5, 0.8, 0.5), line(0, 1, 1, 1)}
	default: // T
		return []stroke{line(0, 0, 1, 0), line(0.5, 0, 0.5, 1)}
	}
}

// segment returns a cable with taps, stations and terminators.
func segment() []stroke {
	const cable = 360.0
	all := []stroke{
		{from: point{40, cable}, to: point{472, cable}, pen: 3, heat: 0.75, dim: 0.25},
		{from: point{40, cable - 10}, to: point{40, cable + 10}, pen: 4, heat: 0.9, dim: 0.25},
		{from: point{472, cable - 10}, to: point{472, cable + 10}, pen: 4, heat: 0.9, dim: 0.25},
	}
	for i, x := range []float64{92, 201, 311, 420} {
		y, heat := cable+64, 0.65+0.1*float64(i)
		if i%2 == 1 {
			y = cable - 50
		}
		all = append(all,
			stroke{from: point{x, cable}, to: point{x, y}, pen: 1.5, heat: 0.6, dim: 0.3},
			stroke{from: point{x, y}, to: point{x, y}, pen: 15, heat: heat, dim: 0.2},
			stroke{from: point{x, y}, to: point{x, y}, pen: 4, heat: 1, dim: 0.3},
			stroke{from: point{x, cable}, to: point{x, cable}, pen: 6, heat: 0.9, dim: 0.3})
	}
	return all
}
