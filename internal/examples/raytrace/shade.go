package raytrace

import (
	"math"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// sampler generates the random numbers for the samples of a pixel. They depend only on the pixel,
// and not on the rank that computes it.
type sampler struct {
	seed  uint64
	side  int // samples along each side of the grid that a pixel is divided into
	index int // of the sample
	next  uint64
}

// pair returns a point of the unit square. For each purpose the points of a pixel's samples are in
// different cells of a grid, in an order that depends on the pixel.
func (s *sampler) pair() (x, y float64) {
	s.next++
	n := s.side * s.side
	cell := s.index
	if s.next > 1 { // the first purpose is the position in the pixel
		cell = shuffle(cell, n, spmd.Bits(s.seed, s.next<<16|0xffff))
	}
	jitter := spmd.Bits(s.seed, s.next<<16|uint64(s.index))
	x = (float64(cell%s.side) + float64(jitter>>32)/(1<<32)) / float64(s.side)
	y = (float64(cell/s.side) + float64(jitter&(1<<32-1))/(1<<32)) / float64(s.side)
	return x, y
}

// shuffle returns element i of a permutation of 0 to n-1 that depends on a seed.
func shuffle(i, n int, seed uint64) int {
	mask := uint64(1)
	for mask < uint64(n) {
		mask <<= 1
	}
	mask--
	v := uint64(i)
	for {
		v = (v*(seed|1) + seed>>32) & mask
		v ^= v >> 3
		v = (v*((seed>>17)|1) + seed>>48) & mask
		if v < uint64(n) {
			return int(v)
		}
	}
}

// pixel computes the colour of a pixel of a picture of the given size.
func (s *scene) pixel(x, y, width, height, side int, seed uint64) vector {
	var sum vector
	sm := sampler{seed: spmd.Bits(seed, uint64(y*width+x)), side: side}
	for sm.index = range side * side {
		sm.next = 0
		dx, dy := sm.pair()
		d := s.corner.plus(s.right.times((float64(x) + dx) / float64(width))).plus(s.down.times((float64(y) + dy) / float64(height))).unit()
		c := s.look(s.eye, d, &sm, 0)
		sum = sum.plus(vector{min(c.x, 4), min(c.y, 4), min(c.z, 4)}) // limits the weight of a single bright sample
	}
	return sum.times(1 / float64(side*side))
}

// mirrors is the maximum number of mirror reflections that are followed.
const mirrors = 3

// look returns the light that arrives at p from direction d.
func (s *scene) look(p, d vector, sm *sampler, bounce int) vector {
	at, ok := s.find(p, d, math.Inf(1))
	if bounce > 0 && s.lamp.meets(p, d, orInf(at.far, ok)) {
		return s.lamp.colour
	}
	if !ok {
		return sky(d)
	}
	c := at.colour.by(s.direct(&at, sm).plus(s.ambient(&at, sm, bounce)))
	if bounce < mirrors {
		away := d.minus(at.normal.times(2 * d.dot(at.normal)))
		if away.dot(at.flat) > 0 {
			share := at.gloss + (1-at.gloss)*math.Pow(1-min(1, max(0, -d.dot(at.normal))), 5)
			if !at.glazed {
				share = min(share, 0.35) // the floor is less reflective
			}
			if share > 0.005*float64(1+bounce) {
				c = c.times(1 - share).plus(s.look(s.off(&at), away.unit(), sm, bounce+1).times(share))
			}
		}
	}
	if !at.glazed { // the far floor is lost in the haze
		c = c.mix(sky(vector{}), 1-math.Exp(-max(0, at.far-9)*0.045))
	}
	return c
}

func orInf(far float64, ok bool) float64 {
	if ok {
		return far
	}
	return math.Inf(1)
}

// off returns a point slightly above the surface at a place.
func (s *scene) off(at *place) vector { return at.at.plus(at.flat.times(1e-5)) }

// direct returns the light from one random point of the lamp.
func (s *scene) direct(at *place, sm *sampler) vector {
	u, v := sm.pair()
	l := &s.lamp
	to := l.corner.plus(l.u.times(u)).plus(l.v.times(v)).minus(at.at)
	far := to.length()
	to = to.times(1 / far)
	facing, shining := to.dot(at.normal), -to.dot(l.normal)
	if facing <= 0 || shining <= 0 || to.dot(at.flat) <= 0 {
		return vector{}
	}
	if s.between(s.off(at), to, far) {
		return vector{}
	}
	return l.colour.times(facing * shining * l.area / (math.Pi * far * far))
}

// between reports whether the teapot is between p and the point at distance far along d.
func (s *scene) between(p, d vector, far float64) bool {
	_, yes := s.meet(newRay(p, d, far), true)
	return yes
}

// ambient returns the light of the surroundings from one random direction; directions near the
// normal are more likely. For reflected rays it returns an average instead.
func (s *scene) ambient(at *place, sm *sampler, bounce int) vector {
	const strength = 0.52
	if bounce > 0 {
		return sky(at.normal).times(strength * (0.45 + 0.25*at.normal.z))
	}
	a, b := sm.pair()
	u, v := basis(at.normal)
	radius, turn := math.Sqrt(a), 2*math.Pi*b
	d := u.times(radius * math.Cos(turn)).plus(v.times(radius * math.Sin(turn))).plus(at.normal.times(math.Sqrt(1 - a)))
	if d.dot(at.flat) <= 0 {
		return vector{}
	}
	if _, met := s.meet(newRay(s.off(at), d, math.Inf(1)), false); met {
		return glaze.times(0.25 * strength)
	}
	if d.z < 0 { // light that the floor reflects
		return light.mix(dark, 0.5).times(0.55 * strength)
	}
	return sky(d).times(strength)
}
