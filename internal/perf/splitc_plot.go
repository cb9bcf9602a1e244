package perf

import (
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// splitPanels returns the plots of Split-C's operations: the primitives one way and two way,
// as figure 6-3 of its paper has them, and a plot for each bulk operation over size, as
// figure 6-4. Both are of the time that an operation takes, a line for each layer and way to
// wait.
func splitPanels(records []Record) (all []plot.Panel) {
	for _, way := range []string{"", twoWay} {
		words := map[string]string{"": "one way", twoWay: "two way"}[way]
		if some := kindsOf(records, Primitives, way); len(some) > 0 {
			all = append(all, plot.Panel{Title: "Primitives on an int, " + words + "\n" + overWhat(some), X: "operation", Names: primitives, Y: "µs", Series: primitiveSeries(some)})
		}
		for _, kind := range primitives {
			bulk := slices.DeleteFunc(kindsOf(records, Bulk, way), func(r Record) bool { return r.Kind != kind+way })
			if len(bulk) > 0 {
				all = append(all, plot.Panel{Title: "Bulk " + kind + ", " + words + "\n" + overWhat(bulk), Y: "µs", Series: series(bulk, Bulk)})
			}
		}
	}
	return all
}

// primitives are the kinds of the test in the order of the figure.
var primitives = []string{splitRead, splitWrite, splitGet, splitPut, splitStore}

// kindsOf returns the records of a test that are one way or two way.
func kindsOf(records []Record, test, way string) (some []Record) {
	for _, r := range only(records, test) {
		if strings.HasSuffix(r.Kind, twoWay) == (way == twoWay) {
			some = append(some, r)
		}
	}
	return some
}

// primitiveSeries makes lines of the records of primitives, each at its place.
func primitiveSeries(records []Record) []plot.Series {
	several := len(mtusOf(records)) > 1
	var lines []plot.Series
	for place, kind := range primitives {
		for _, r := range records {
			if strings.TrimSuffix(r.Kind, twoWay) != kind {
				continue
			}
			title := seriesName(r, several)
			i := slices.IndexFunc(lines, func(s plot.Series) bool { return s.Name == title })
			if i < 0 {
				i = len(lines)
				lines = append(lines, plot.Series{Name: title})
			}
			lines[i].Points = append(lines[i].Points, plot.Point{X: float64(int(1) << place), Value: r.P50})
		}
	}
	return lines
}
