package perf

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/plot"
)

// The curve: one-way time and bandwidth over all sizes, each stack next to TCP, as in NetPIPE and
// in the figures of papers.

// curveMax is the longest message of the curve, in bytes.
const curveMax = 8 << 20

// The curve's samples are shorter and fewer than usual, because it has many cases.
const (
	curveRounds = 3
	curveSample = 10 * time.Millisecond
)

// Curve returns the plan of the curve: the tests latency and bandwidth of messages of 1 byte to
// 8 MiB, with the sizes around each power of two. Fields that are not empty stay as they are.
func (p Plan) Curve() Plan {
	fill(&p.Stacks, []string{"raw", "vipl", "mplite", "am2", "vmmc", "splitc", "stream", "tcp"})
	fill(&p.Tests, []string{Latency, Bandwidth})
	fill(&p.Levels, Levels[:1])
	fill(&p.Layers, []string{"rdma"})
	fill(&p.MTUs, []int{DefaultMTU, 9000, ethertype.MaxMTU})
	fill(&p.Sizes, curveSizes())
	if p.Rounds == 0 {
		p.Rounds = curveRounds
	}
	if p.Sample == 0 {
		p.Sample = curveSample
	}
	return p
}

// curveSizes returns the powers of two up to curveMax, and the sizes next to them.
func curveSizes() []int {
	var sizes []int
	for n := 1; n <= curveMax; n *= 2 {
		for _, size := range []int{n - 1, n, n + 1} {
			if size > 0 && size <= curveMax {
				sizes = append(sizes, size)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// curve is a part of the records of a curve: the records of one MTU and of stacks that wait in the
// same way. TCP always blocks, and is in each part.
type curve struct {
	mtu     int
	wait    string
	records []Record
}

// curvesOf divides records.
func curvesOf(records []Record) (all []curve) {
	for _, mtu := range mtusOf(records) {
		for _, wait := range Waits {
			c := curve{mtu: mtu, wait: wait}
			own := false // there is a record of a stack other than the kernel's
			for _, r := range records {
				if r.MTU == mtu && (r.Link == "" || r.Wait == wait) {
					c.records = append(c.records, r)
					own = own || r.Link != ""
				}
			}
			if own {
				all = append(all, c)
			}
		}
	}
	return all
}

// String describes the part: "MTU 1500, spinning".
func (c *curve) String() string { return fmt.Sprintf("MTU %d, %s", c.mtu, waitWords[c.wait]) }

// tests returns the tests of the part.
func (c *curve) tests() []string {
	return slices.DeleteFunc([]string{Latency, Bandwidth}, func(test string) bool { return len(only(c.records, test)) == 0 })
}

// lines returns the first record of each stack and variant, in the order of the output.
func (c *curve) lines() (heads []Record) {
	for _, r := range c.records {
		if find(heads, r) == nil {
			heads = append(heads, r)
		}
	}
	return heads
}

// lineName names a line of a curve.
func lineName(r Record) string {
	if r.Reliability != "" && r.Reliability != Levels[0] {
		return name(r) + ", " + r.Reliability
	}
	return name(r)
}

// at returns the record of a line for a test and a size, or nil.
func (c *curve) at(line Record, test string, size int) *Record {
	same := slices.Clone(c.records)
	same = slices.DeleteFunc(same, func(r Record) bool { return r.Test != test || r.Size != size })
	return find(same, line)
}

// tcp returns TCP's record, or nil.
func (c *curve) tcp(test string, size int) *Record {
	for i, r := range c.records {
		if r.Stack == "tcp" && r.Test == test && r.Size == size {
			return &c.records[i]
		}
	}
	return nil
}

// sizes returns the sizes of a test, in order.
func (c *curve) sizes(test string) (sizes []int) {
	for _, r := range only(c.records, test) {
		sizes = append(sizes, r.Size)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// behind reports whether TCP is ahead of r.
func (c *curve) behind(r *Record) bool {
	t := c.tcp(r.Test, r.Size)
	switch {
	case t == nil || r.Stack == "tcp":
		return false
	case r.Test == Latency:
		return r.P50 > t.P50
	}
	return r.Mbits < t.Mbits
}

var curveTitle = map[string]string{Latency: "one-way time, us", Bandwidth: "bandwidth, Gbit/s"}

// WriteCurve prints the records of a curve as text. It prints a table for each MTU, kind of wait
// and test, with a row for each size and a column for each stack. Then it lists the sizes at which
// TCP is ahead of each stack.
func WriteCurve(w io.Writer, records []Record) error {
	for _, c := range curvesOf(records) {
		for _, test := range c.tests() {
			if err := c.writeTable(w, test); err != nil {
				return err
			}
		}
		if err := c.writeBehind(w); err != nil {
			return err
		}
	}
	return nil
}

func (c *curve) writeTable(w io.Writer, test string) error {
	fmt.Fprintf(w, "%s, %v; * where TCP is ahead\n", curveTitle[test], c)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	lines := c.lines()
	fmt.Fprint(tw, "bytes\t")
	for _, line := range lines {
		fmt.Fprintf(tw, "%s\t", lineName(line))
	}
	fmt.Fprintln(tw)
	for _, size := range c.sizes(test) {
		fmt.Fprintf(tw, "%d\t", size)
		for _, line := range lines {
			fmt.Fprintf(tw, "%s\t", c.cell(c.at(line, test, size)))
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// cell returns the text of a record in a table.
func (c *curve) cell(r *Record) string {
	if r == nil {
		return "-"
	}
	mark := " "
	if c.behind(r) {
		mark = "*"
	}
	if r.Test == Latency {
		return fmt.Sprintf("%.2f%s", r.P50, mark)
	}
	return fmt.Sprintf("%.3f%s", r.Mbits/1000, mark)
}

// writeBehind prints for each stack the sizes at which TCP is ahead.
func (c *curve) writeBehind(w io.Writer) error {
	if !slices.ContainsFunc(c.records, func(r Record) bool { return r.Stack == "tcp" }) {
		return nil
	}
	fmt.Fprintf(w, "TCP is ahead, %v\n", c)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range c.lines() {
		if line.Link == "" {
			continue
		}
		fmt.Fprintf(tw, "  %s", lineName(line))
		for _, test := range c.tests() {
			fmt.Fprintf(tw, "\t%s: %s", strings.Split(curveTitle[test], ",")[0], c.ranges(line, test))
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// ranges returns the sizes at which TCP is ahead of a line: "nowhere", or "1 B to 64 B, 4 KiB".
func (c *curve) ranges(line Record, test string) string {
	var all []string
	from, to := 0, 0
	end := func() {
		switch {
		case from == 0:
		case from == to:
			all = append(all, byteCount(from))
		default:
			all = append(all, byteCount(from)+" to "+byteCount(to))
		}
		from = 0
	}
	for _, size := range c.sizes(test) {
		if r := c.at(line, test, size); r == nil || !c.behind(r) {
			end()
			continue
		}
		if to = size; from == 0 {
			from = size
		}
	}
	if end(); len(all) == 0 {
		return "nowhere"
	}
	return strings.Join(all, ", ")
}

// WriteCurvePlot draws the records of a curve as a PNG picture: a row for each MTU and kind of
// wait, with plots of one-way time and bandwidth over size, and a line for each stack. It returns
// plot.ErrEmpty if there are no records of either.
func WriteCurvePlot(w io.Writer, records []Record) error {
	units := map[string]string{Latency: "µs", Bandwidth: "Mbit/s"}
	var rows [][]plot.Panel
	for _, c := range curvesOf(records) {
		var row []plot.Panel
		for _, test := range c.tests() {
			title := strings.Split(curveTitle[test], ",")[0]
			lines := series(c.records, test)
			for i := range lines { // the title names the kind of wait; TCP always blocks
				lines[i].Name, _, _ = strings.Cut(lines[i].Name, ", ")
			}
			row = append(row, plot.Panel{Title: strings.ToUpper(title[:1]) + title[1:] + "\n" + c.String(), Y: units[test], Series: lines})
		}
		rows = append(rows, row)
	}
	return plot.WriteRows(w, rows...)
}
