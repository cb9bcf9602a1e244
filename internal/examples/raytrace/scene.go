package raytrace

import "math"

// scene is a teapot on an infinite floor, under a large lamp.
type scene struct {
	*hierarchy
	eye, corner vector // the camera's position; the direction to the picture's upper left corner
	right, down vector // along the picture's edges, for its whole width and height
	lamp        lamp
	low, high   vector // around the teapot
}

// lamp is a rectangle that shines on one side.
type lamp struct {
	corner, u, v vector
	normal       vector
	area         float64
	colour       vector
}

func newLamp(middle, towards vector, width, height, power float64) lamp {
	n := towards.minus(middle).unit()
	u, v := basis(n)
	u, v = u.times(width), v.times(height)
	return lamp{middle.minus(u.plus(v).times(0.5)), u, v, n, width * height, vector{1, 0.95, 0.86}.times(power)}
}

// newScene returns the scene for a picture of the given shape. Each side of a patch of the teapot
// has grid quadrilaterals.
func newScene(width, height, grid int) *scene {
	s := &scene{hierarchy: newHierarchy(teapot(grid)), eye: vector{2.9, -8.6, 4.3}}
	target := vector{0.28, 0, 1.28}
	ahead := target.minus(s.eye).unit()
	across := ahead.cross(vector{0, 0, 1}).unit()
	up := across.cross(ahead)
	const lens = 0.87 // width of the picture at distance 1 and a shape of 4 to 3
	h := lens * 3 / 4
	w := h * float64(width) / float64(height)
	s.right, s.down = across.times(w), up.times(-h)
	s.corner = ahead.minus(s.right.times(0.5)).minus(s.down.times(0.5))
	s.lamp = newLamp(vector{-4.6, -5.2, 8.4}, vector{0, 0, 1}, 3.2, 3.2, 15)
	s.low, s.high, _, _ = s.bounds(0, len(s.mesh))
	return s
}

// sky returns the light of the sky from a direction: paler towards the horizon.
func sky(along vector) vector {
	f := math.Sqrt(max(0, along.z))
	return vector{0.93, 0.90, 0.86}.mix(vector{0.45, 0.56, 0.72}, f)
}

// meets reports whether a ray from p along d meets the lamp's bright side before far.
func (l *lamp) meets(p, d vector, far float64) bool {
	facing := d.dot(l.normal)
	if facing >= 0 {
		return false
	}
	t := l.corner.minus(p).dot(l.normal) / facing
	if t <= closest || t >= far {
		return false
	}
	q := p.plus(d.times(t)).minus(l.corner)
	u, v := q.dot(l.u)/l.u.dot(l.u), q.dot(l.v)/l.v.dot(l.v)
	return u >= 0 && u <= 1 && v >= 0 && v <= 1
}

// place is a visible point of a surface.
type place struct {
	at     vector
	normal vector  // normal of the smooth surface, on the viewer's side
	flat   vector  // normal of the triangle, on the viewer's side
	colour vector  // diffuse reflectance
	gloss  float64 // specular reflectance at normal incidence
	far    float64 // distance to the viewer
	glazed bool
}

// The colours of things.
var (
	glaze = vector{0.035, 0.27, 0.30}
	light = vector{0.78, 0.74, 0.67}
	dark  = vector{0.17, 0.115, 0.10}
)

// find returns the first surface that a ray from p along d meets, if there is one before far.
func (s *scene) find(p, d vector, far float64) (place, bool) {
	r := newRay(p, d, far)
	h, ok := s.meet(r, false)
	if ok {
		far = h.distance
	}
	if d.z < 0 {
		if t := -p.z / d.z; t > closest && t < far {
			return s.floor(p.plus(d.times(t)), t), true
		}
	}
	if !ok {
		return place{}, false
	}
	n := h.normals[0].times(1 - h.u - h.v).plus(h.normals[1].times(h.u)).plus(h.normals[2].times(h.v)).unit()
	flat := h.ab.cross(h.ac).unit()
	if flat.dot(d) > 0 {
		flat = flat.times(-1)
	}
	if n.dot(flat) < 0 {
		n = n.times(-1)
	}
	return place{at: p.plus(d.times(h.distance)), normal: n, flat: flat, colour: glaze, gloss: 0.06, far: h.distance, glazed: true}, true
}

// floor returns a place on the floor, a chequerboard that fades with the distance.
func (s *scene) floor(at vector, far float64) place {
	const size = 1.35
	x, y := math.Floor((at.x+0.35)/size), math.Floor((at.y+0.2)/size)
	c := light
	if math.Mod(math.Abs(x+y), 2) == 1 {
		c = dark
	}
	up := vector{0, 0, 1}
	return place{at: at, normal: up, flat: up, colour: c, gloss: 0.045, far: far}
}
