package perf

import (
	"bytes"
	"image/png"
	"strings"
	"testing"
)

// TestPlotSplitC: figures 6-3 and 6-4: a plot of the primitives each way, and one of each
// bulk operation, in which each layer has a line of times.
func TestPlotSplitC(t *testing.T) {
	var records []Record
	plan := Plan{Stacks: []string{"splitc"}, Tests: []string{Primitives, Bulk, Barrier}, Waits: []string{Spin}, Layers: []string{"rdma", "shm"}}
	for i, c := range plan.Cases(1500) {
		records = append(records, Record{Case: c, P50: float64(i + 1), Rate: 1e6 / float64(i+1), Mbits: 1})
	}
	var titles []string
	for _, p := range panels(records) {
		title, _, _ := strings.Cut(p.Title, "\n")
		titles = append(titles, title)
		places := len(defaultSizes[Bulk])
		if p.Names != nil {
			places = len(p.Names)
		}
		if len(p.Series) != 2 || p.Series[0].Name != "splitc/rdma, spinning" || p.Series[1].Name != "splitc/shm, spinning" {
			t.Errorf("%s: lines %+v", title, p.Series)
			continue
		}
		for _, s := range p.Series {
			if len(s.Points) != places || s.Points[places-1].Value == 1 {
				t.Errorf("%s: %d points of %s, the last one of %v, want %d times", title, len(s.Points), s.Name, s.Points[len(s.Points)-1], places)
			}
		}
	}
	const want = "Primitives on an int, one way|Bulk read, one way|Bulk write, one way|Bulk get, one way|Bulk put, one way|Bulk store, one way|" +
		"Primitives on an int, two way|Bulk read, two way|Bulk write, two way|Bulk get, two way|Bulk put, two way|Bulk store, two way"
	if got := strings.Join(titles, "|"); got != want {
		t.Errorf("plots %s\nwant %s", got, want)
	}
	var out bytes.Buffer
	if err := WritePlot(&out, records); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&out); err != nil {
		t.Error(err)
	}
}

// TestBarrierTable: barriers are of no size, and their table says so.
func TestBarrierTable(t *testing.T) {
	var records []Record
	plan := Plan{Stacks: []string{"mplite", "splitc", "vipl"}, Tests: []string{Barrier}, Waits: []string{Spin}, Layers: []string{"rdma"}, Sizes: []int{64}}
	for _, c := range plan.Cases(1500) {
		records = append(records, Record{Case: c, P50: 4.5, P99: 6, Min: 4, LineNs: 55})
	}
	var out strings.Builder
	if err := WriteTable(&out, records); err != nil {
		t.Fatal(err)
	}
	const want = `barrier of 2 ranks, MTU 1500
        stack     level  wait  p50 us  p99 us  min us  x raw  x tcp  line ns
       mplite  delivery  spin    4.50    6.00    4.00      -      -       55
  splitc/rdma         -  spin    4.50    6.00    4.00      -      -       55

`
	if out.String() != want {
		t.Errorf("table is\n%s\nwant\n%s", out.String(), want)
	}
	if text := records[1].String(); text != "splitc barrier, rdma, spin, ring, MTU 1500" {
		t.Errorf("a case is %q", text)
	}
}
