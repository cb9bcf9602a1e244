package plot

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// powerTicks marks powers of two and both ends of the axis. The ends and about six of the powers have labels.
type powerTicks struct{ name func(v float64) string }

// Ticks is part of plot.Ticker.
func (p powerTicks) Ticks(lo, hi float64) []plot.Tick {
	const near = 0.08 // of the axis: labels that are closer overlap
	span := math.Log2(hi / lo)
	first, last := int(math.Ceil(math.Log2(lo))), int(math.Floor(math.Log2(hi)))
	every := max((last-first+5)/6, 1)
	ticks := []plot.Tick{{Value: lo, Label: p.name(lo)}}
	for i := first; i <= last; i++ {
		t := plot.Tick{Value: math.Exp2(float64(i))}
		if math.Log2(t.Value/lo) < 1e-9 || math.Log2(hi/t.Value) < 1e-9 {
			continue
		}
		if (i-first)%every == 0 && math.Log2(t.Value/lo) > near*span && math.Log2(hi/t.Value) > near*span {
			t.Label = p.name(t.Value)
		}
		ticks = append(ticks, t)
	}
	return append(ticks, plot.Tick{Value: hi, Label: p.name(hi)})
}

// sizeName writes a number of bytes: "64", "4 Ki", "1 Mi", "10.5 Ki".
func sizeName(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1 << 30, " Gi"}, {1 << 20, " Mi"}, {1 << 10, " Ki"}} {
		if v >= unit.size {
			return strconv.FormatFloat(math.Round(10*v/unit.size)/10, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// countName writes a count.
func countName(v float64) string { return groupDigits(v) }

// evenTicks marks a linear axis at four to ten even steps.
type evenTicks struct{}

// Ticks is part of plot.Ticker.
func (evenTicks) Ticks(lo, hi float64) []plot.Tick {
	step := evenStep(hi - lo)
	var ticks []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		v := i * step
		if v == 0 {
			v = 0 // and not -0, which Ceil returns for a value just below 0
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: groupDigits(v)})
	}
	return ticks
}

// evenStep returns the step of an axis that is as long as span: 1, 2 or 5 times a power of ten.
func evenStep(span float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(span))) / 10
	for _, times := range []float64{1, 2, 5} {
		if span/(times*step) <= 10 {
			return times * step
		}
	}
	return 10 * step
}

// roundUpFine returns the end of a linear axis that v fits on.
func roundUpFine(v float64) float64 {
	step := evenStep(v)
	return step * math.Ceil(v/step-1e-9)
}

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

// roundDown returns the last of 1, 2 and 5 times a power of ten that is not above v.
func roundDown(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{5, 2} {
		if digit*decade <= v {
			return digit * decade
		}
	}
	return decade
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
