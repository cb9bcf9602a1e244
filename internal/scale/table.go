package scale

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// WriteTable prints the costs of jobs as a Markdown table.
func WriteTable(w io.Writer, costs []Cost) error {
	head := []string{"ranks", "start", "frames a rank", "broadcasts a rank", "connections a rank", "heap a rank", "buffers a rank"}
	for _, c := range collectives {
		head = append(head, c.name)
	}
	head = append(head, "end")
	rows := [][]string{head}
	for i := range costs {
		rows = append(rows, costs[i].row())
	}
	widths := make([]int, len(head))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = strings.Repeat("-", widths[i]-1) + ":"
	}
	for _, row := range append([][]string{head, rule}, rows[1:]...) {
		for i, text := range row {
			if _, err := fmt.Fprintf(w, "| %*s ", widths[i], text); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, "|"); err != nil {
			return err
		}
	}
	return nil
}

// row returns the cells of a table's row.
func (c *Cost) row() []string {
	broadcasts := "-"
	if c.Broadcasts >= 0 {
		broadcasts = fmt.Sprintf("%.1f", c.Broadcasts)
	}
	cells := []string{
		fmt.Sprint(c.Ranks), printTime(c.Start), fmt.Sprintf("%.1f", c.Frames), broadcasts,
		fmt.Sprint(c.Connections), printBytes(c.Heap), printBytes(c.Buffers),
	}
	for _, x := range c.Collectives {
		if x.Again == 0 {
			cells = append(cells, "-")
			continue
		}
		cells = append(cells, printTime(x.First)+", "+printTime(x.Again))
	}
	return append(cells, printTime(c.End))
}

// printTime writes a time with three digits, in the unit that fits it after rounding.
func printTime(d time.Duration) string {
	const most = 999.5 // %.3g writes this and more with an exponent
	micros, millis := float64(d)/float64(time.Microsecond), float64(d)/float64(time.Millisecond)
	switch {
	case micros < most:
		return fmt.Sprintf("%.3g µs", micros)
	case millis < most:
		return fmt.Sprintf("%.3g ms", millis)
	case d.Seconds() < most:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func printBytes(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Panels returns plots of the costs of jobs over the number of ranks.
func Panels(costs []Cost) []plot.Panel {
	const x = "ranks"
	series := func(name string, value func(c *Cost) float64) plot.Series {
		s := plot.Series{Name: name}
		for i := range costs {
			if v := value(&costs[i]); v > 0 {
				s.Points = append(s.Points, plot.Point{X: float64(costs[i].Ranks), Value: v})
			}
		}
		return s
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	times := plot.Panel{Title: "Virtual time of the start and of collectives", X: x, Y: "µs", Series: []plot.Series{
		series("start", func(c *Cost) float64 { return micros(c.Start) }),
	}}
	for i, kind := range collectives {
		times.Series = append(times.Series, series(kind.name, func(c *Cost) float64 { return micros(c.Collectives[i].Again) }))
	}
	return []plot.Panel{
		{Title: "Connections and frames of a rank", X: x, Y: "count per rank", Series: []plot.Series{
			series("connections", func(c *Cost) float64 { return float64(c.Connections) }),
			series("frames until started", func(c *Cost) float64 { return c.Frames }),
			series("broadcasts until started", func(c *Cost) float64 { return max(c.Broadcasts, 0.1) }),
		}},
		times,
		{Title: "Memory of a rank", X: x, Y: "KiB", Series: []plot.Series{
			series("heap", func(c *Cost) float64 { return float64(c.Heap) / (1 << 10) }),
			series("buffers", func(c *Cost) float64 { return float64(c.Buffers) / (1 << 10) }),
		}},
	}
}
