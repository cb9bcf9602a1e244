package plot

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// powerTicks marks powers of two, about six of them with the name of their
// exponent.
type powerTicks struct{ name func(i int) string }

// Ticks is part of plot.Ticker.
func (p powerTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Ceil(math.Log2(lo))), int(math.Floor(math.Log2(hi)))
	every := max((last-first+5)/6, 1)
	var ticks []plot.Tick
	for i := first; i <= last; i++ {
		t := plot.Tick{Value: math.Exp2(float64(i))}
		if (i-first)%every == 0 {
			t.Label = p.name(i)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// sizeName names 2^i bytes: "64", "4 Ki", "1 Mi".
func sizeName(i int) string {
	for _, unit := range []struct {
		log  int
		name string
	}{{30, " Gi"}, {20, " Mi"}, {10, " Ki"}} {
		if i >= unit.log {
			return strconv.Itoa(1<<(i-unit.log)) + unit.name
		}
	}
	return strconv.Itoa(1 << max(i, 0))
}

// countName names 2^i things.
func countName(i int) string { return groupDigits(math.Exp2(float64(i))) }

// decadeTicks marks 1, 2 and 5 of every decade by name and the rest without.
type decadeTicks struct{}

// Ticks is part of plot.Ticker.
func (decadeTicks) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for decade := math.Floor(math.Log10(lo)); decade <= math.Log10(hi); decade++ {
		for digit := 1.0; digit < 10; digit++ {
			v := digit * math.Pow(10, decade)
			if v < lo*(1-1e-9) || v > hi {
				continue
			}
			t := plot.Tick{Value: v}
			if digit == 1 || digit == 2 || digit == 5 {
				t.Label = groupDigits(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// roundUp returns the first of 1, 2 and 5 times a power of ten that is not
// below v.
func roundUp(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*decade >= v {
			return digit * decade
		}
	}
	return 10 * decade
}

// groupDigits prints v with its thousands apart: "20 000".
func groupDigits(v float64) string {
	s := strconv.FormatFloat(v, 'g', 6, 64)
	if v < 1000 {
		return s
	}
	s = strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
