package perf

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteTable prints records for people: a table for each test, size and MTU,
// with each stack's ratio to raw frames waited for in the same way and to TCP.
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
		columns = "Mbit/s\tsent again\tdrops"
	case Primitives, Bulk:
		columns = "us each\tMbit/s\tsent again"
	}
	against := []string{"raw", "tcp"}
	if slices.ContainsFunc(group, func(r Record) bool { return r.Mode == libtirpc }) {
		against = append(against, libtirpc)
	}
	fmt.Fprintf(tw, "stack\tlevel\twait\t%s\tx %s\tline ns\t\n", columns, strings.Join(against, "\tx "))
	for _, r := range group {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s", label(r), dash(r.Reliability), r.Wait, figures(r))
		for _, stack := range against {
			fmt.Fprintf(tw, "\t%s", ratio(r, baseline(group, stack, r)))
		}
		fmt.Fprintf(tw, "\t%.0f\t\n", r.LineNs)
	}
	return tw.Flush()
}

// label is what a row is of: the stack, and the kind of its messages.
func label(r Record) string { return strings.TrimSpace(name(r) + " " + r.Kind) }

// name is the stack with its mode, and with its link and credits where these are
// not the usual ones.
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

func figures(r Record) string {
	switch r.Test {
	case Latency, Read, Overhead, Barrier:
		return fmt.Sprintf("%.2f\t%.2f\t%.2f", r.P50, r.P99, r.Min)
	case Bandwidth, Bidirectional, Write:
		return fmt.Sprintf("%.0f\t%d\t%d", r.Mbits, r.Retransmits, r.Drops)
	}
	if r.Test == Primitives || r.Test == Bulk {
		return fmt.Sprintf("%.3f\t%.0f\t%d", r.P50, r.Mbits, r.Retransmits)
	}
	return fmt.Sprintf("%.0f\t%d\t%d", r.Rate, r.Retransmits, r.Drops)
}

// baseline returns the record of a stack that r is compared with: it waits in
// the same way and uses the same link, which sends in the same way. Remote
// procedures by TCP are what others are compared with, instead of bare TCP,
// and by libtirpc, which no other stack is compared with.
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

// value is what ratios are made of.
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
