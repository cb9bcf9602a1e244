package perf

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// WriteSummary prints one row for each stack and way to wait, with one result
// of each test but logp and those of Split-C's operations, and its ratio to TCP's: the first
// size of each that the records have.
func WriteSummary(w io.Writer, records []Record) error {
	columns := map[string][]Record{}
	var rows []Record
	for _, r := range records {
		col := columns[r.Test]
		if summaryTitle[r.Test] == "" || len(col) > 0 && !sameTable(col[0], r) {
			continue
		}
		columns[r.Test] = append(col, r)
		if find(rows, r) == nil {
			rows = append(rows, r)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "stack\twaits by\t")
	for _, test := range Tests {
		if col := columns[test]; len(col) > 0 {
			fmt.Fprintf(tw, "%s, %s\tx tcp\t", summaryTitle[test], byteCount(col[0].Size))
		}
	}
	fmt.Fprintln(tw)
	for _, row := range rows {
		fmt.Fprintf(tw, "%s\t%s\t", name(row), waitWords[row.Wait])
		for _, test := range Tests {
			if col := columns[test]; len(col) > 0 {
				fmt.Fprint(tw, summaryCell(col, row))
			}
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

var (
	summaryTitle = map[string]string{Latency: "one way", Bandwidth: "bandwidth", Bidirectional: "both ways", Rate: "messages",
		Read: "RDMA read", Write: "RDMA write", Overhead: "overhead", Barrier: "barrier"}
	summaryUnit = map[string]string{Latency: "%.2f us", Bandwidth: "%.0f Mbit/s", Bidirectional: "%.0f Mbit/s", Rate: "%.0f /s",
		Read: "%.2f us", Write: "%.0f Mbit/s", Overhead: "%.2f us", Barrier: "%.2f us"}
	waitWords = map[string]string{Spin: "spinning", Block: "blocking"}
)

func summaryCell(col []Record, row Record) string {
	r := find(col, row)
	if r == nil {
		return "-\t-\t"
	}
	return fmt.Sprintf(summaryUnit[r.Test]+"\t%s\t", value(*r), ratio(*r, baseline(col, "tcp", *r)))
}

// find returns the record of the same stack, level, wait, link, credits and mode
// as like.
func find(records []Record, like Record) *Record {
	for i, r := range records {
		if r.Stack == like.Stack && r.Reliability == like.Reliability && r.Wait == like.Wait && r.Link == like.Link &&
			r.Ways == like.Ways && r.Credits == like.Credits && r.Mode == like.Mode {
			return &records[i]
		}
	}
	return nil
}

// WritePlot draws as a PNG picture, side by side, what the records have of: latency, bandwidth
// and the overhead of sending over size, a line for each stack, level, way to wait, link and
// MTU; Split-C's primitives and bulk operations; and the signatures of the test logp. It returns plot.ErrEmpty if they have none of
// these. Where short messages are among longer ones, they get a plot of latency for themselves.
func WritePlot(w io.Writer, records []Record) error {
	return plot.WritePNG(w, panels(records)...)
}

// panels returns what WritePlot draws.
func panels(records []Record) []plot.Panel {
	all := []plot.Panel{
		{Title: "One-way time, median\n" + overWhat(only(records, Latency)), Y: "µs", Series: series(records, Latency)},
		{Title: "Bandwidth of payload\n" + overWhat(only(records, Bandwidth, Bidirectional)), Y: "Mbit/s",
			Series: append(series(records, Bandwidth), series(records, Bidirectional)...)},
		{Title: "Overhead of a send, median\n" + overWhat(only(records, Overhead)), Y: "µs", Series: series(records, Overhead)},
	}
	if short := shortAmongLong(only(records, Latency)); len(short) > 0 {
		panel := plot.Panel{Title: "One-way time of short messages, median\n" + overWhat(short), Y: "µs", Series: series(short, Latency)}
		all = append([]plot.Panel{panel}, all...)
	}
	all = append(all, splitPanels(records)...)
	all = slices.DeleteFunc(all, func(p plot.Panel) bool { return len(p.Series) == 0 })
	for _, r := range records {
		if r.LogP != nil {
			all = append(all, signaturePanel(r))
		}
	}
	return all
}

// shortMessage is the longest message, in bytes, that is drawn with the short ones, as in the
// VMMC paper.
const shortMessage = 256

// shortAmongLong returns the records of short messages, if there are several sizes of these,
// and longer ones.
func shortAmongLong(records []Record) (short []Record) {
	sizes := map[int]bool{}
	for _, r := range records {
		if r.Size <= shortMessage {
			short = append(short, r)
			sizes[r.Size] = true
		}
	}
	if len(sizes) < 2 || len(short) == len(records) {
		return nil
	}
	return short
}

// only returns the records of some tests that have a value and a size, which the axes need.
func only(records []Record, tests ...string) (some []Record) {
	for _, r := range records {
		if slices.Contains(tests, r.Test) && value(r) > 0 && r.Size > 0 {
			some = append(some, r)
		}
	}
	return some
}

// overWhat says over which MTUs and links records were measured.
func overWhat(records []Record) string {
	mtus, links := mtusOf(records), []string{}
	for _, r := range records {
		if r.Link != "" && !slices.Contains(links, r.Link) {
			links = append(links, r.Link)
		}
	}
	text := "MTU " + strings.Trim(strings.ReplaceAll(fmt.Sprint(mtus), " ", ", "), "[]")
	if len(links) > 0 {
		text += ", link " + strings.Join(links, ", ")
	}
	return text
}

// mtusOf returns the MTUs of records, each once, in their order.
func mtusOf(records []Record) (mtus []int) {
	for _, r := range records {
		if !slices.Contains(mtus, r.MTU) {
			mtus = append(mtus, r.MTU)
		}
	}
	return mtus
}

// series makes lines of the records of a test, which are in order of size for
// each MTU.
func series(records []Record, test string) []plot.Series {
	var heads []Record
	var lines []plot.Series
	records = only(records, test)
	several := len(mtusOf(records)) > 1
	for _, r := range records {
		i := 0
		for i < len(heads) && (heads[i].MTU != r.MTU || find(heads[i:i+1], r) == nil) {
			i++
		}
		if i == len(heads) {
			heads = append(heads, r)
			lines = append(lines, plot.Series{Name: seriesName(r, several)})
		}
		lines[i].Points = append(lines[i].Points, plot.Point{X: float64(r.Size), Value: drawnValue(r)})
	}
	return lines
}

// drawnValue is value, but of bulk operations the time that one takes.
func drawnValue(r Record) float64 {
	if r.Test == Bulk {
		return r.P50
	}
	return value(r)
}

// seriesName names a line, with its MTU where there are several.
func seriesName(r Record, several bool) string {
	text := name(r)
	if several {
		text += fmt.Sprintf(", MTU %d", r.MTU)
	}
	if r.Reliability != "" && r.Reliability != Levels[0] {
		text += ", " + r.Reliability
	}
	if r.Test == Bidirectional {
		text += ", both ways"
	}
	return text + ", " + waitWords[r.Wait]
}
