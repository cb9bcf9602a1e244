package fft3d

import (
	"math"
	"math/cmplx"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"
)

// TestTransform: every length up to 1024, some vectors at a time, against gonum's.
func TestTransform(t *testing.T) {
	for n := 1; n <= 1024; n *= 2 {
		for _, m := range []int{1, 2, 3, 8} {
			x := make([]complex128, n*m)
			for i := range x {
				x[i] = value(uint64(n), i)
			}
			want := make([][]complex128, m)
			for j := range m {
				seq := make([]complex128, n)
				for i := range seq {
					seq[i] = x[i*m+j]
				}
				want[j] = fourier.NewCmplxFFT(n).Coefficients(nil, seq)
			}
			newPlan(n).transform(x, make([]complex128, n*m), m)
			for i := range x {
				if d := cmplx.Abs(x[i] - want[i%m][i/m]); d > 1e-12*float64(n) {
					t.Fatalf("%d points, %d vectors: element %d of vector %d is off by %v", n, m, i/m, i%m, d)
				}
			}
		}
	}
}

// TestCubeByDefinition compares a small cube with the sums of the definition.
func TestCubeByDefinition(t *testing.T) {
	c := Config{N: 4, Seed: 7}
	in, out := c.Cube(), c.Cube()
	Serial(c, out)
	for k := range out {
		w, v, u := k/16, k/4%4, k%4
		var sum complex128
		for p := range in {
			z, y, x := p/16, p/4%4, p%4
			sum += in[p] * cmplx.Rect(1, -2*math.Pi*float64(w*z+v*y+u*x)/4)
		}
		if d := cmplx.Abs(sum - out[k]); d > 1e-12 {
			t.Errorf("F(%d, %d, %d) is off by %v", w, v, u, d)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, n := range []int{1, 2, 8, 32} {
		c := Config{N: n, Seed: 3}
		out := c.Cube()
		Serial(c, out)
		if off := c.Compare(out); off > Tolerance {
			t.Errorf("%d points: off by %v from gonum's", n, off)
		}
		out[len(out)/2] += 1e-3
		if off := c.Compare(out); off <= Tolerance {
			t.Errorf("%d points: an error was not seen: off by %v", n, off)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		n, ranks int
		good     bool
	}{{128, 16, true}, {4, 4, true}, {4, 5, false}, {0, 1, false}, {-4, 1, false}, {48, 2, false}, {2048, 2, false}} {
		if err := (Config{N: c.n}).Check(c.ranks); (err == nil) != c.good {
			t.Errorf("%d points, %d ranks: %v", c.n, c.ranks, err)
		}
	}
}

func BenchmarkSerial(b *testing.B) {
	c := Config{N: DefaultN, Seed: 1}
	a := c.Cube()
	b.SetBytes(int64(16 * len(a)))
	for b.Loop() {
		Serial(c, a)
	}
}
