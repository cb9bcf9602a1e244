package fft3d

import (
	"math"
	"math/bits"
	"math/cmplx"
)

// plan holds the factors for transforms of one length, which is a power of two.
type plan struct {
	n       int
	factors [][]complex128 // for each pass by four: w, w², w³ for each p, w = exp(-2πi p/n)
}

func newPlan(n int) *plan {
	pl := &plan{n: n}
	for ; n >= 4; n /= 4 {
		var f []complex128
		for p := range n / 4 {
			w := func(k int) complex128 { return cmplx.Rect(1, -2*math.Pi*float64(k*p)/float64(n)) }
			f = append(f, w(1), w(2), w(3))
		}
		pl.factors = append(pl.factors, f)
	}
	return pl
}

// transform replaces m interleaved vectors by their discrete Fourier transforms: element i of
// vector j is x[i*m+j]. scratch must be at least as long as x.
//
// It is Stockham's algorithm in passes of radix four. Each pass reads one array, writes the other,
// and leaves the elements in the order that the next pass needs. So no pass reorders elements, and
// the inner loop accesses neighbouring elements.
func (pl *plan) transform(x, scratch []complex128, m int) {
	from, to := x, scratch[:len(x)]
	n, s := pl.n, m
	for _, f := range pl.factors {
		if s == 1 {
			firstPass(to, from, f)
		} else {
			pass4(to, from, f, s)
		}
		from, to = to, from
		n, s = n/4, 4*s
	}
	if n == 2 {
		pass2(to, from)
		from = to
	}
	if len(from) > 0 && &from[0] != &x[0] {
		copy(x, from)
	}
}

// pass4 is a pass of radix four over s interleaved vectors.
func pass4(to, from, factors []complex128, s int) {
	quarter := len(from) / 4
	for p := range len(factors) / 3 {
		at := s * p
		a, b := from[at:at+s], from[at+quarter:at+quarter+s]
		c, d := from[at+2*quarter:at+2*quarter+s], from[at+3*quarter:at+3*quarter+s]
		y0, y1 := to[4*at:4*at+s], to[4*at+s:4*at+2*s]
		y2, y3 := to[4*at+2*s:4*at+3*s], to[4*at+3*s:4*at+4*s]
		if p == 0 {
			butterflies(y0, y1, y2, y3, a, b, c, d)
			continue
		}
		w := factors[3*p : 3*p+3]
		twiddled(y0, y1, y2, y3, a, b, c, d, w[0], w[1], w[2])
	}
}

// butterflies computes the butterflies whose factors are 1.
func butterflies(y0, y1, y2, y3, a, b, c, d []complex128) {
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	y0, y1, y2, y3 = y0[:len(a)], y1[:len(a)], y2[:len(a)], y3[:len(a)]
	for q := range a {
		ac, am := a[q]+c[q], a[q]-c[q]
		bd, bm := b[q]+d[q], b[q]-d[q]
		jb := complex(-imag(bm), real(bm))
		y0[q], y1[q] = ac+bd, am-jb
		y2[q], y3[q] = ac-bd, am+jb
	}
}

// twiddled computes the butterflies whose results are multiplied by factors.
func twiddled(y0, y1, y2, y3, a, b, c, d []complex128, w1, w2, w3 complex128) {
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	y0, y1, y2, y3 = y0[:len(a)], y1[:len(a)], y2[:len(a)], y3[:len(a)]
	for q := range a {
		ac, am := a[q]+c[q], a[q]-c[q]
		bd, bm := b[q]+d[q], b[q]-d[q]
		jb := complex(-imag(bm), real(bm))
		y0[q], y1[q] = ac+bd, times(w1, am-jb)
		y2[q], y3[q] = times(w2, ac-bd), times(w3, am+jb)
	}
}

// times returns the product of two finite numbers. Go's own multiplication also checks for
// infinities.
func times(a, b complex128) complex128 {
	return complex(real(a)*real(b)-imag(a)*imag(b), real(a)*imag(b)+imag(a)*real(b))
}

// firstPass is pass4 for a single vector, for which the inner loop of pass4 would have only one
// iteration.
func firstPass(to, from, factors []complex128) {
	n := len(from) / 4
	a, b, c, d := from[:n], from[n:2*n], from[2*n:3*n], from[3*n:4*n]
	for p := range a {
		ac, am := a[p]+c[p], a[p]-c[p]
		bd, bm := b[p]+d[p], b[p]-d[p]
		jb := complex(-imag(bm), real(bm))
		w := factors[3*p : 3*p+3 : 3*p+3]
		y := to[4*p : 4*p+4 : 4*p+4]
		y[0], y[1] = ac+bd, times(w[0], am-jb)
		y[2], y[3] = times(w[1], ac-bd), times(w[2], am+jb)
	}
}

// pass2 is the last pass if the length is not a power of four.
func pass2(to, from []complex128) {
	h := len(from) / 2
	a, b := from[:h], from[h:2*h]
	y, z := to[:h], to[h:2*h]
	for q := range a {
		y[q], z[q] = a[q]+b[q], a[q]-b[q]
	}
}

// isPower reports whether n is a power of two.
func isPower(n int) bool { return n > 0 && bits.OnesCount(uint(n)) == 1 }
