package heat

import (
	"image"
	"image/color"
	"math"
)

// inferno contains points of the colour map of that name. Its brightness increases steadily, so its
// order is the same in grey and for any kind of colour vision.
var inferno = [...][3]float64{
	{0, 0, 4}, {27, 12, 65}, {74, 12, 107}, {120, 28, 109}, {165, 44, 96},
	{207, 68, 70}, {237, 105, 37}, {251, 155, 6}, {247, 209, 61}, {252, 255, 164},
}

// isotherms is the number of lines of equal temperature in a picture.
const isotherms = 24

// Render draws the plate: the coldest cell black, the hottest pale yellow, and
// thin lines where the temperature passes a multiple of a part of the range.
func (g *Grid) Render() *image.RGBA {
	low, high := g.limits()
	scale := 0.0
	if high > low {
		scale = 1 / (high - low)
	}
	m := image.NewRGBA(image.Rect(0, 0, g.Width, g.Height))
	for y := range g.Height {
		for x := range g.Width {
			t := (g.Cells[y*g.Width+x] - low) * scale
			m.SetRGBA(x, y, shade(tone(t), g.line(x, y, low, scale)))
		}
	}
	return m
}

// tone increases the contrast at both ends of the range: at the cold end, which covers most of a
// plate, and at the hot end around the sources.
func tone(t float64) float64 { return (math.Sqrt(t) + t*t*t) / 2 }

func (g *Grid) limits() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, t := range g.Cells {
		low, high = min(low, t), max(high, t)
	}
	return low, high
}

// line returns the share of the pixel, 0..1, that a line of equal temperature covers. The distance
// from the line in pixels is the difference of tone divided by the slope of tone.
func (g *Grid) line(x, y int, low, scale float64) float64 {
	at := func(x, y int) float64 {
		x, y = min(max(x, 0), g.Width-1), min(max(y, 0), g.Height-1)
		return tone((g.Cells[y*g.Width+x]-low)*scale) * isotherms
	}
	slope := math.Hypot(at(x+1, y)-at(x-1, y), at(x, y+1)-at(x, y-1)) / 2
	level := at(x, y)
	if slope == 0 || slope > 0.5 {
		return 0 // a flat area, or one so steep that lines would merge
	}
	distance := math.Abs(level-math.Round(level)) / slope
	return min(max(1.1-distance, 0), 1) * (1 - slope/0.5)
}

// shade returns the map's colour for t in 0..1, darkened by a line.
func shade(t, line float64) color.RGBA {
	last := len(inferno) - 1
	pos := min(max(t, 0), 1) * float64(last)
	i := min(int(pos), last-1)
	part := pos - float64(i)
	var c [3]uint8
	for k := range c {
		v := inferno[i][k]*(1-part) + inferno[i+1][k]*part
		c[k] = uint8(v*(1-0.4*line) + 0.5)
	}
	return color.RGBA{c[0], c[1], c[2], 255}
}
