package raytrace

import (
	"math"
	"slices"
)

// triangle consists of one corner, the vectors from it to the other two corners, and the normals of
// the smooth surface at the three corners.
type triangle struct {
	a, ab, ac vector
	normals   [3]vector
}

// ray is a ray of sight from a point. far is the maximum distance, in multiples of the direction's
// length.
type ray struct {
	from, along vector
	inverse     vector // reciprocals of the direction's coordinates
	far         float64
}

func newRay(from, along vector, far float64) ray {
	return ray{from, along, vector{1 / along.x, 1 / along.y, 1 / along.z}, far}
}

// meet returns the distance to a triangle, or +Inf, and the barycentric coordinates of the
// intersection for the second and the third corner. It uses the method of Möller and Trumbore.
func (t *triangle) meet(r *ray) (distance, u, v float64) {
	p := r.along.cross(t.ac)
	det := t.ab.dot(p)
	if det == 0 {
		return math.Inf(1), 0, 0
	}
	f := 1 / det
	s := r.from.minus(t.a)
	u = f * s.dot(p)
	if u < 0 || u > 1 {
		return math.Inf(1), 0, 0
	}
	q := s.cross(t.ab)
	v = f * r.along.dot(q)
	if v < 0 || u+v > 1 {
		return math.Inf(1), 0, 0
	}
	if d := f * t.ac.dot(q); d > closest {
		return d, u, v
	}
	return math.Inf(1), 0, 0
}

// closest is the minimum distance of an intersection: a nearer one is on the surface from which the
// ray starts.
const closest = 1e-6

// box is a node of the hierarchy. All triangles below it are between its two corners. An inner node
// has two children, the first of which follows it directly; a leaf has triangles.
type box struct {
	low, high vector
	at        int32 // index of the second child, or of the first triangle
	triangles int32 // 0 for an inner node
	axis      int32 // the axis along which the two children are ordered
}

// hierarchy is a tree of boxes around triangles.
type hierarchy struct {
	boxes []box
	mesh  []triangle // the triangles of a leaf are contiguous
}

// deepest exceeds the depth of every hierarchy: each cut leaves at least an eighth of the triangles
// on each side, and the number of triangles fits into an int32.
const deepest = 160

// leaf is the maximum number of triangles in a box that is not divided.
const leaf = 4

// newHierarchy builds the hierarchy of the mesh, and changes the order of its triangles.
func newHierarchy(mesh []triangle) *hierarchy {
	h := &hierarchy{mesh: mesh}
	if len(mesh) > 0 {
		h.divide(0, len(mesh))
	}
	return h
}

// bounds returns the bounding box of some triangles, and that of their centres.
func (h *hierarchy) bounds(lo, hi int) (low, high, first, last vector) {
	inf := math.Inf(1)
	low, high = vector{inf, inf, inf}, vector{-inf, -inf, -inf}
	first, last = low, high
	for i := lo; i < hi; i++ {
		t := &h.mesh[i]
		for _, p := range [3]vector{t.a, t.a.plus(t.ab), t.a.plus(t.ac)} {
			low, high = low.least(p), high.most(p)
		}
		m := t.middle()
		first, last = first.least(m), last.most(m)
	}
	return low, high, first, last
}

func (t *triangle) middle() vector { return t.a.plus(t.ab.plus(t.ac).times(1.0 / 3)) }

// divide creates the boxes of triangles lo to hi-1.
func (h *hierarchy) divide(lo, hi int) {
	low, high, first, last := h.bounds(lo, hi)
	here := len(h.boxes)
	h.boxes = append(h.boxes, box{low: low, high: high, at: int32(lo), triangles: int32(hi - lo)})
	if hi-lo <= leaf {
		return
	}
	size := last.minus(first)
	axis := 0
	if size.y > size.x {
		axis = 1
	}
	if size.z > size.axis(axis) {
		axis = 2
	}
	if size.axis(axis) == 0 {
		return // all centres are at the same point: a long leaf
	}
	slices.SortStableFunc(h.mesh[lo:hi], func(a, b triangle) int {
		switch x, y := a.middle().axis(axis), b.middle().axis(axis); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	mid := h.cut(lo, hi)
	h.divide(lo, mid)
	h.boxes[here] = box{low: low, high: high, at: int32(len(h.boxes)), axis: int32(axis)}
	h.divide(mid, hi)
}

// cut returns the index at which to divide sorted triangles. It minimizes the average cost of a
// ray: the sum, over both parts, of the surface times the number of triangles.
func (h *hierarchy) cut(lo, hi int) int {
	const ways = 16
	best, where := math.Inf(1), (lo+hi)/2
	for w := 2; w <= ways-2; w++ {
		mid := lo + (hi-lo)*w/ways
		if mid == lo || mid == hi {
			continue
		}
		low, high, _, _ := h.bounds(lo, mid)
		cost := surface(low, high) * float64(mid-lo)
		low, high, _, _ = h.bounds(mid, hi)
		if cost += surface(low, high) * float64(hi-mid); cost < best {
			best, where = cost, mid
		}
	}
	return where
}

func surface(low, high vector) float64 {
	d := high.minus(low)
	return d.x*d.y + d.y*d.z + d.z*d.x
}

// enters reports whether a ray meets the box before its far end.
func (b *box) enters(r *ray) bool {
	x0, x1 := (b.low.x-r.from.x)*r.inverse.x, (b.high.x-r.from.x)*r.inverse.x
	y0, y1 := (b.low.y-r.from.y)*r.inverse.y, (b.high.y-r.from.y)*r.inverse.y
	z0, z1 := (b.low.z-r.from.z)*r.inverse.z, (b.high.z-r.from.z)*r.inverse.z
	if x0 > x1 {
		x0, x1 = x1, x0
	}
	if y0 > y1 {
		y0, y1 = y1, y0
	}
	if z0 > z1 {
		z0, z1 = z1, z0
	}
	if y0 > x0 {
		x0 = y0
	}
	if z0 > x0 {
		x0 = z0
	}
	if y1 < x1 {
		x1 = y1
	}
	if z1 < x1 {
		x1 = z1
	}
	return x0 <= x1 && x1 >= 0 && x0 < r.far
}

// hit is where a ray meets the mesh.
type hit struct {
	*triangle
	distance, u, v float64
}

// meet returns the first triangle that the ray meets; or, if any will do, the first that
// is found.
func (h *hierarchy) meet(r ray, any bool) (found hit, ok bool) {
	if len(h.boxes) == 0 {
		return found, false
	}
	var stack [deepest]int32
	top := 1
	negative := [3]bool{r.along.x < 0, r.along.y < 0, r.along.z < 0}
	for top > 0 {
		top--
		at := stack[top]
		b := &h.boxes[at]
		if !b.enters(&r) {
			continue
		}
		if b.triangles == 0 { // enter the nearer child first
			near, far := at+1, b.at
			if negative[b.axis] {
				near, far = far, near
			}
			stack[top], stack[top+1] = far, near
			top += 2
			continue
		}
		mesh := h.mesh[b.at : b.at+b.triangles]
		for i := range mesh {
			if d, u, v := mesh[i].meet(&r); d < r.far {
				found, ok = hit{&mesh[i], d, u, v}, true
				if any {
					return found, ok
				}
				r.far = d
			}
		}
	}
	return found, ok
}
