package perf

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// WriteTable prints records as text: a table for each test, size and MTU, with each stack's ratio
// to raw frames with the same kind of wait, and to TCP.
func WriteTable(w io.Writer, records []Record) error {
	var group []Record
	for i, r := range records {
		group = append(group, r)
		if i+1 < len(records) && sameTable(r, records[i+1]) {
			continue
		}
		if err := writeGroup(w, group); err != nil {
			return err
		}
		group = nil
	}
	return nil
}

func sameTable(a, b Record) bool {
	return a.Test == b.Test && a.MTU == b.MTU && a.Size == b.Size
}

func writeGroup(w io.Writer, group []Record) error {
	first := group[0]
	what := first.Test + ", " + byteCount(first.Size) + " messages"
	if first.Test == Barrier {
		what = "barrier of 2 ranks"
	}
	fmt.Fprintf(w, "%s, MTU %d\n", what, first.MTU)
	write := writeFigures
	if first.Test == LogP {
		write = writeSignatures
	}
	if err := write(w, group); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// writeFigures prints the rows of a table.
func writeFigures(w io.Writer, group []Record) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := "messages/s\tsent again\tdrops"
	switch group[0].Test {
	case Latency, Read, Overhead, Barrier:
		columns = "p50 us\tp99 us\tmin us"
	case Bandwidth, Bidirectional, Write:
		columns = "Mbit/s\tcpu s/GB\tx tcp\tsent again\tdrops"
	case Primitives, Bulk:
		columns = "us each\tMbit/s\tsent again"
	}
	against := []string{"raw", "tcp"}
	if slices.ContainsFunc(group, func(r Record) bool { return r.Mode == libtirpc }) {
		against = append(against, libtirpc)
	}
	if slices.ContainsFunc(group, func(r Record) bool { return r.Stack == ucxName }) {
		against = append(against, ucxName)
	}
	fmt.Fprintf(tw, "stack\tlevel\twait\t%s\tx %s\tline ns\t\n", columns, strings.Join(against, "\tx "))
	for _, r := range group {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s", label(r), dash(r.Reliability), r.Wait, figures(group, r))
		for _, stack := range against {
			fmt.Fprintf(tw, "\t%s", ratio(r, baseline(group, stack, r)))
		}
		fmt.Fprintf(tw, "\t%.0f\t\n", r.LineNs)
	}
	return tw.Flush()
}

// label returns the name of a row: the stack, and the kind of its messages.
func label(r Record) string { return strings.TrimSpace(name(r) + " " + r.Kind) }

// name returns the stack with its mode, and with its link and credits if these differ from the
// defaults.
func name(r Record) string {
	text := r.Stack
	switch {
	case r.Link != "" && r.Link != "ring":
		text += "/" + r.Link
	case r.Ways != (Ways{}):
		text += "/" + r.Ways.String()
	}
	if r.Mode != "" {
		text += "/" + r.Mode
	}
	if r.Credits != 0 && r.Credits != usualCredits {
		text += fmt.Sprintf("/credits=%d", r.Credits)
	}
	return text
}

// figures returns the columns of a row that depend on the test.
func figures(group []Record, r Record) string {
	switch r.Test {
	case Latency, Read, Overhead, Barrier:
		if r.Stack == ucxName {
			return fmt.Sprintf("%.2f\t-\t-", r.P50)
		}
		return fmt.Sprintf("%.2f\t%.2f\t%.2f", r.P50, r.P99, r.Min)
	case Bandwidth, Bidirectional, Write:
		return fmt.Sprintf("%.0f\t%s\t%d\t%d", r.Mbits, processor(r, baseline(group, "tcp", r)), r.Retransmits, r.Drops)
	}
	if r.Test == Primitives || r.Test == Bulk {
		return fmt.Sprintf("%.3f\t%.0f\t%d", r.P50, r.Mbits, r.Retransmits)
	}
	return fmt.Sprintf("%.0f\t%d\t%d", r.Rate, r.Retransmits, r.Drops)
}

// processor returns the processor time of r for each GB, and its ratio to that of base, which may
// be nil. A half that spins uses a processor all the time, so its time means nothing.
func processor(r Record, base *Record) string {
	switch {
	case r.CPU == 0 || r.Wait == Spin:
		return "-\t-"
	case base == nil || base.CPU == 0:
		return fmt.Sprintf("%.3f\t-", r.CPU)
	}
	return fmt.Sprintf("%.3f\t%.2f", r.CPU, r.CPU/base.CPU)
}

// baseline returns the record of a stack with which r is compared: it has the same kind of wait and
// the same link with the same options. Remote procedures are compared with remote procedures over
// TCP instead of bare TCP. Calls by libtirpc are not a baseline.
func baseline(group []Record, stack string, r Record) *Record {
	mode := ""
	if r.Stack == "vrpc" && stack == "tcp" {
		stack, mode = "vrpc", "tcp"
	}
	if r.Stack == "vrpc" && stack == libtirpc {
		stack, mode = "vrpc", libtirpc
	}
	for i, b := range group {
		sameWay := b.Wait == r.Wait && b.Link == r.Link && b.XDP == r.XDP
		if b.Stack == stack && b.Mode == mode && (sameWay || b.Link == "") {
			return &group[i]
		}
	}
	return nil
}

// value returns the number from which ratios are computed.
func value(r Record) float64 {
	switch r.Test {
	case Latency, Read, Overhead, Barrier:
		return r.P50
	case Bandwidth, Bidirectional, Write:
		return r.Mbits
	}
	return r.Rate
}

func ratio(r Record, base *Record) string {
	if base == nil || value(*base) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", value(r)/value(*base))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// byteCount prints a size for people: "64 B", "64 KiB", "1 MiB".
func byteCount(n int) string {
	units := []string{"B", "KiB", "MiB"}
	i := 0
	for ; i+1 < len(units) && n >= 1024 && n%1024 == 0; i++ {
		n /= 1024
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", n, units[i]))
}

// WriteSummary prints one row for each stack and kind of wait. It contains, for each test except
// logp and those of Split-C's operations, the result for the first size in the records, and its
// ratio to TCP's result.
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

// WritePlot draws a PNG picture with a panel for each kind of record: latency, bandwidth and
// sending overhead over size, with a line for each stack, level, way to wait, link and MTU;
// Split-C's primitives and bulk operations; and the signatures of the test logp. It returns
// plot.ErrEmpty if there is no such record. If there are both short and longer messages, the short
// ones get a panel of latency of their own.
func WritePlot(w io.Writer, records []Record) error {
	return plot.WritePNG(w, panels(records)...)
}

// panels returns the panels for WritePlot.
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

// shortAmongLong returns the records of short messages, if there are several short sizes and also
// longer ones.
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

// overWhat names the MTUs and links of records.
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

// drawnValue is value, except that it returns the time of one operation for bulk operations.
func drawnValue(r Record) float64 {
	if r.Test == Bulk {
		return r.P50
	}
	return value(r)
}

// seriesName names a line. The name includes the MTU if there are several.
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

// writeSignatures prints the parameters of the LogP model as the papers do, a
// row for each way to wait and link.
func writeSignatures(w io.Writer, group []Record) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "stack\tlevel\twait\to_s us\to_r us\tL us\tg us\tRTT us\tline ns\t")
	for _, r := range group {
		s := r.LogP
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", label(r), dash(r.Reliability), r.Wait,
			s.SendOverhead, s.ReceiveOverhead, s.Latency, s.Gap, s.RTT, r.LineNs)
	}
	return tw.Flush()
}

// signaturePanel draws a signature: a curve for each delay, beginning with the longest delay, whose
// curve is the highest.
func signaturePanel(r Record) plot.Panel {
	p := plot.Panel{
		Title: fmt.Sprintf("LogP signature of %s, %s: time of a request\n%s", label(r), waitWords[r.Wait], overWhat([]Record{r})),
		X:     "burst, requests", Y: "µs",
	}
	for _, curve := range slices.Backward(curves(r.LogP.Points)) {
		s := plot.Series{Name: fmt.Sprintf("%g µs apart", curve[0].Delay)}
		if curve[0].Delay == 0 {
			s.Name = "no delay"
		}
		for _, pt := range curve {
			s.Points = append(s.Points, plot.Point{X: float64(pt.Burst), Value: pt.Time})
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// splitPanels returns the plots of Split-C's operations: the primitives one-way and two-way, as in
// figure 6-3 of its paper, and a plot for each bulk operation over size, as in figure 6-4. Both
// show the time of an operation, with a line for each layer and kind of wait.
func splitPanels(records []Record) (all []plot.Panel) {
	for _, way := range []string{"", twoWay} {
		words := map[string]string{"": "one way", twoWay: "two way"}[way]
		if some := kindsOf(records, Primitives, way); len(some) > 0 {
			all = append(all, plot.Panel{Title: "Primitives on an int, " + words + "\n" + overWhat(some), Names: primitives, Y: "µs", Series: primitiveSeries(some)})
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

// primitives lists the kinds of the test in the order of the figure.
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
			lines[i].Points = append(lines[i].Points, plot.Point{X: float64(place), Value: r.P50})
		}
	}
	return lines
}
