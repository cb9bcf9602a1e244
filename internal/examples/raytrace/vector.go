package raytrace

import "math"

// vector is a point, a direction or a colour. z is up.
type vector struct{ x, y, z float64 }

func (a vector) plus(b vector) vector   { return vector{a.x + b.x, a.y + b.y, a.z + b.z} }
func (a vector) minus(b vector) vector  { return vector{a.x - b.x, a.y - b.y, a.z - b.z} }
func (a vector) times(f float64) vector { return vector{a.x * f, a.y * f, a.z * f} }
func (a vector) by(b vector) vector     { return vector{a.x * b.x, a.y * b.y, a.z * b.z} }
func (a vector) dot(b vector) float64   { return a.x*b.x + a.y*b.y + a.z*b.z }
func (a vector) length() float64        { return math.Sqrt(a.dot(a)) }
func (a vector) unit() vector           { return a.times(1 / a.length()) }
func (a vector) mix(b vector, f float64) vector {
	return vector{a.x + (b.x-a.x)*f, a.y + (b.y-a.y)*f, a.z + (b.z-a.z)*f}
}

func (a vector) cross(b vector) vector {
	return vector{a.y*b.z - a.z*b.y, a.z*b.x - a.x*b.z, a.x*b.y - a.y*b.x}
}

// least and most return the minimum and the maximum of each coordinate of two vectors.
func (a vector) least(b vector) vector {
	return vector{min(a.x, b.x), min(a.y, b.y), min(a.z, b.z)}
}

func (a vector) most(b vector) vector {
	return vector{max(a.x, b.x), max(a.y, b.y), max(a.z, b.z)}
}

// axis returns a coordinate by its number.
func (a vector) axis(i int) float64 {
	switch i {
	case 0:
		return a.x
	case 1:
		return a.y
	}
	return a.z
}

// basis returns two directions that are orthogonal to the unit vector n and each other.
func basis(n vector) (u, v vector) {
	if math.Abs(n.x) > 0.9 {
		u = vector{0, 1, 0}
	} else {
		u = vector{1, 0, 0}
	}
	u = u.minus(n.times(u.dot(n))).unit()
	return u, n.cross(u)
}
