package fft3d

import (
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Tolerance is the permitted difference from gonum's result, relative to the largest value.
const Tolerance = 1e-12

// Compare returns the largest difference between the transformed cube and the result of gonum's
// package fourier for the same points, relative to the largest value.
func (c Config) Compare(got []complex128) float64 {
	want := c.Cube()
	n := c.N
	fft, line := fourier.NewCmplxFFT(n), make([]complex128, n)
	for _, step := range []int{1, n, n * n} {
		for start := range want {
			if start/step%n != 0 {
				continue // not the first point of a line in this direction
			}
			for i := range line {
				line[i] = want[start+i*step]
			}
			fft.Coefficients(line, line)
			for i := range line {
				want[start+i*step] = line[i]
			}
		}
	}
	var off, largest float64
	for i := range want {
		off = math.Max(off, cmplx.Abs(got[i]-want[i]))
		largest = math.Max(largest, cmplx.Abs(want[i]))
	}
	return off / largest
}
