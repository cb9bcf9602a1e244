package cholesky

import "math"

// B is the number of rows and of columns of a block.
const B = 16

// block is a square part of a matrix, row by row.
type block = [B * B]float64

// row returns row i.
func row(a *block, i int) *[B]float64 { return (*[B]float64)(a[i*B:]) }

// factor replaces a by its Cholesky factor, with zeros above the diagonal. It reports
// whether a was positive definite.
func factor(a *block) bool {
	for j := range B {
		rj := row(a, j)
		d := rj[j]
		for k := range j {
			d -= float64(rj[k] * rj[k])
		}
		if !(d > 0) {
			return false
		}
		d = math.Sqrt(d)
		rj[j] = d
		for i := j + 1; i < B; i++ {
			ri := row(a, i)
			s := ri[j]
			for k := range j {
				s -= float64(ri[k] * rj[k])
			}
			ri[j] = s / d
		}
		clear(rj[j+1:])
	}
	return true
}

// solve replaces a by the solution x of x·lᵀ = a, where l is a factor. It computes four rows at the
// same time, because each element depends on those left of it in its row.
func solve(a, l *block) {
	for i := 0; i < B; i += 4 {
		x0, x1, x2, x3 := row(a, i), row(a, i+1), row(a, i+2), row(a, i+3)
		for j := range B {
			lj := row(l, j)
			s0, s1, s2, s3 := x0[j], x1[j], x2[j], x3[j]
			for k := range j {
				v := lj[k]
				s0 -= float64(x0[k] * v)
				s1 -= float64(x1[k] * v)
				s2 -= float64(x2[k] * v)
				s3 -= float64(x3[k] * v)
			}
			d := lj[j]
			x0[j], x1[j], x2[j], x3[j] = s0/d, s1/d, s2/d, s3/d
		}
	}
}

// update subtracts a·bᵀ from c. It computes two rows by four columns at the same time, in
// independent sums, so that adders and multipliers always have work.
func update(c, a, b *block) {
	for i := 0; i < B; i += 2 {
		a0, a1 := row(a, i), row(a, i+1)
		c0, c1 := row(c, i), row(c, i+1)
		for j := 0; j < B; j += 4 {
			b0, b1, b2, b3 := row(b, j), row(b, j+1), row(b, j+2), row(b, j+3)
			var s00, s01, s02, s03, s10, s11, s12, s13 float64
			for k := range B {
				u, v := a0[k], a1[k]
				w := b0[k]
				s00 += float64(u * w)
				s10 += float64(v * w)
				w = b1[k]
				s01 += float64(u * w)
				s11 += float64(v * w)
				w = b2[k]
				s02 += float64(u * w)
				s12 += float64(v * w)
				w = b3[k]
				s03 += float64(u * w)
				s13 += float64(v * w)
			}
			x, y := (*[4]float64)(c0[j:]), (*[4]float64)(c1[j:])
			x[0], x[1], x[2], x[3] = x[0]-s00, x[1]-s01, x[2]-s02, x[3]-s03
			y[0], y[1], y[2], y[3] = y[0]-s10, y[1]-s11, y[2]-s12, y[3]-s13
		}
	}
}
