package raytrace

// The Utah teapot, which Martin Newell measured and drew in 1975, as bicubic Bezier patches. It
// stands on z = 0; spout and handle are along x. It is symmetric, so this file contains only a part
// of it; patches derives the rest.

// profiles contains curves of the body, by radius and height. A quarter turn of a curve is a patch,
// and four such patches form a ring.
var profiles = [][4][2]float64{
	{{1.4, 2.4}, {1.3375, 2.53125}, {1.4375, 2.53125}, {1.5, 2.4}}, // rim
	{{1.5, 2.4}, {1.75, 1.875}, {2, 1.35}, {2, 0.9}},               // body, above
	{{2, 0.9}, {2, 0.45}, {1.5, 0.225}, {1.5, 0.15}},               // body, below
	{{0, 3.15}, {0.8, 3.15}, {0, 2.85}, {0.2, 2.7}},                // knob of the lid
	{{0.2, 2.7}, {0.4, 2.55}, {1.3, 2.55}, {1.3, 2.4}},             // lid
	{{0, 0}, {1.425, 0}, {1.5, 0.075}, {1.5, 0.15}},                // bottom
}

// quarter is the distance of the inner control points of a quarter turn from its ends, in radii:
// Newell's value is 0.56.
const quarter = 0.56

// rib is a row of control points across spout or handle: from one edge in the plane y = 0
// out to y = -side and back to the other edge.
type rib struct{ x0, z0, side, x1, z1 float64 }

// tubes contains the halves of spout and handle on one side of y = 0; the other halves are mirror
// images.
var tubes = [][4]rib{
	{{-1.6, 2.025, 0.3, -1.5, 2.25}, {-2.3, 2.025, 0.3, -2.5, 2.25}, {-2.7, 2.025, 0.3, -3, 2.25}, {-2.7, 1.8, 0.3, -3, 1.8}},      // handle, above
	{{-2.7, 1.8, 0.3, -3, 1.8}, {-2.7, 1.575, 0.3, -3, 1.35}, {-2.5, 1.125, 0.3, -2.65, 0.9375}, {-2, 0.9, 0.3, -1.9, 0.6}},        // handle, below
	{{1.7, 1.425, 0.66, 1.7, 0.6}, {2.6, 1.425, 0.66, 3.1, 0.825}, {2.3, 2.1, 0.25, 2.4, 2.025}, {2.7, 2.4, 0.25, 3.3, 2.4}},       // spout
	{{2.7, 2.4, 0.25, 3.3, 2.4}, {2.8, 2.475, 0.25, 3.525, 2.49375}, {2.9, 2.475, 0.15, 3.45, 2.5125}, {2.8, 2.4, 0.15, 3.2, 2.4}}, // its mouth
}

// patch is a bicubic Bezier surface over 4 x 4 control points.
type patch [4][4]vector

// patches returns all 32 patches of the teapot.
func patches() (all []patch) {
	for _, profile := range profiles {
		for turn := range 4 {
			var p patch
			for i, c := range profile {
				r, z := c[0], c[1]
				for j, at := range [4][2]float64{{r, 0}, {r, quarter * r}, {quarter * r, r}, {0, r}} {
					x, y := at[0], at[1]
					for range turn {
						x, y = -y, x
					}
					p[i][j] = vector{x, y, z}
				}
			}
			all = append(all, p)
		}
	}
	for _, tube := range tubes {
		for _, sign := range []float64{-1, 1} {
			var p patch
			for i, r := range tube {
				p[i] = [4]vector{{r.x0, 0, r.z0}, {r.x0, sign * r.side, r.z0}, {r.x1, sign * r.side, r.z1}, {r.x1, 0, r.z1}}
			}
			all = append(all, p)
		}
	}
	return all
}

// bernstein returns the weights of four control points at t, and their derivatives.
func bernstein(t float64) (w, d [4]float64) {
	s := 1 - t
	w = [4]float64{s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t}
	d = [4]float64{-3 * s * s, 3*s*s - 6*s*t, 6*s*t - 3*t*t, 3 * t * t}
	return w, d
}

// at returns the point of the surface at u and v, 0 to 1, and the cross product of its
// derivatives, which is orthogonal to it.
func (p *patch) at(u, v float64) (point, normal vector) {
	wu, du := bernstein(u)
	wv, dv := bernstein(v)
	var pu, pv vector
	for i := range 4 {
		for j := range 4 {
			c := p[i][j]
			point = point.plus(c.times(wu[i] * wv[j]))
			pu = pu.plus(c.times(du[i] * wv[j]))
			pv = pv.plus(c.times(wu[i] * dv[j]))
		}
	}
	return point, pu.cross(pv)
}

// corner returns the point at u and v and the unit normal there. If an edge of the patch is a
// single point, as at the top of the knob, corner returns the normal at a nearby point.
func (p *patch) corner(u, v float64) (point, normal vector) {
	point, normal = p.at(u, v)
	for step := 1e-4; normal.length() < 1e-6 && step < 0.1; step *= 2 {
		_, normal = p.at(u+(0.5-u)*step, v+(0.5-v)*step)
	}
	return point, normal.unit()
}

// teapot returns the triangles of the teapot, each patch in grid x grid quadrilaterals.
func teapot(grid int) (mesh []triangle) {
	points, normals := make([]vector, (grid+1)*(grid+1)), make([]vector, (grid+1)*(grid+1))
	for _, p := range patches() {
		for i := range points {
			u, v := float64(i/(grid+1))/float64(grid), float64(i%(grid+1))/float64(grid)
			points[i], normals[i] = p.corner(u, v)
		}
		add := func(a, b, c int) {
			t := triangle{a: points[a], ab: points[b].minus(points[a]), ac: points[c].minus(points[a]), normals: [3]vector{normals[a], normals[b], normals[c]}}
			if t.ab.cross(t.ac).length() > 1e-12 {
				mesh = append(mesh, t)
			}
		}
		for i := range grid {
			for j := range grid {
				k := i*(grid+1) + j
				add(k, k+1, k+grid+1)
				add(k+1, k+grid+2, k+grid+1)
			}
		}
	}
	return mesh
}
