package perf

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/plot"
)

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

// signaturePanel draws a signature: a curve for each delay, the longest, which
// lies highest, first.
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
