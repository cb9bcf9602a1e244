package paper

import (
	"fmt"
	"strings"
)

// From derives the published number of an item from those of others. Items that follow only from
// inputs, directly or not, are derived.
type From struct {
	How string                     // the arithmetic
	Of  []string                   // the items
	Is  func(v ...float64) float64 // computes the value from the values of the items; nil if our value is measured nevertheless
}

// computed reports whether our value is computed from the values of other items.
func (i *Item) computed() bool { return i.From != nil && i.From.Is != nil }

// value computes the value of an item. of returns the values of other items.
func (f *From) value(of func(item string) float64) float64 {
	var v []float64
	for _, name := range f.Of {
		v = append(v, of(name))
	}
	return f.Is(v...)
}

// markdown returns the line that explains from which items an item follows.
func (f *From) markdown(item string) string {
	of, ours := "", ""
	if len(f.Of) > 0 {
		of = " (from `" + strings.Join(f.Of, "`, `") + "`)"
	}
	if f.Is == nil {
		ours = "; our value is measured"
	}
	return fmt.Sprintf("- `%s`: %s%s%s.\n", item, f.How, of, ours)
}

// from returns a From, which describes how an item is computed from other items.
func from(how string, is func(v ...float64) float64, of ...string) *From { return &From{how, of, is} }

// Arithmetic that several items use.
func sum(v ...float64) (all float64) {
	for _, x := range v {
		all += x
	}
	return all
}
func twice(v ...float64) float64     { return 2 * sum(v...) }
func half(v ...float64) float64      { return v[0] / 2 }
func ratio(v ...float64) float64     { return v[0] / v[1] }
func percent(v ...float64) float64   { return 100 * ratio(v...) }
func perSecond(v ...float64) float64 { return 1e6 / v[0] }
func byHosts(v ...float64) float64   { return v[0] * tableHosts / 1000 }
