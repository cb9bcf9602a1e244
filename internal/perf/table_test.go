package perf

import (
	"bytes"
	"errors"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/plot"
)

var tableRecords = []Record{
	{Case: Case{Stack: "raw", Test: Latency, Wait: Spin, Link: "ring", MTU: 1500, Size: 64}, P50: 1.5, P99: 2, Min: 1.4, LineNs: 55.4},
	{Case: Case{Stack: "vipl", Test: Latency, Reliability: "delivery", Wait: Spin, Link: "ring", MTU: 1500, Size: 64}, P50: 1.8, P99: 2.5, Min: 1.6, LineNs: 56},
	{Case: Case{Stack: "vipl", Test: Latency, Reliability: "delivery", Wait: Block, Link: "packet", MTU: 1500, Size: 64}, P50: 24, P99: 40, Min: 20, LineNs: 55},
	{Case: Case{Stack: "tcp", Test: Latency, Wait: Block, MTU: 1500, Size: 64}, P50: 30, P99: 60, Min: 25, LineNs: 55},
	{Case: Case{Stack: "raw", Test: Bandwidth, Wait: Spin, Link: "ring", MTU: 1500, Size: 1 << 20}, Mbits: 6000, LineNs: 55, CPU: 2},
	{Case: Case{Stack: "vipl", Test: Bandwidth, Wait: Block, Link: "ring", MTU: 1500, Size: 1 << 20}, Mbits: 36000, LineNs: 55, CPU: 0.45},
	{Case: Case{Stack: "tcp", Test: Bandwidth, Wait: Block, MTU: 1500, Size: 1 << 20}, Mbits: 24000, Retransmits: 2, Drops: 1, LineNs: 55, CPU: 0.6},
}

const wantTable = `latency, 64 B messages, MTU 1500
        stack     level   wait  p50 us  p99 us  min us  x raw  x tcp  line ns
          raw         -   spin    1.50    2.00    1.40   1.00   0.05       55
         vipl  delivery   spin    1.80    2.50    1.60   1.20   0.06       56
  vipl/packet  delivery  block   24.00   40.00   20.00      -   0.80       55
          tcp         -  block   30.00   60.00   25.00      -   1.00       55

bandwidth, 1 MiB messages, MTU 1500
  stack  level   wait  Mbit/s  cpu s/GB  x tcp  sent again  drops  x raw  x tcp  line ns
    raw      -   spin    6000         -      -           0      0   1.00   0.25       55
   vipl      -  block   36000     0.450   0.75           0      0      -   1.50       55
    tcp      -  block   24000     0.600   1.00           2      1      -   1.00       55

`

const wantSummary = `        stack  waits by  one way, 64 B  x tcp  bandwidth, 1 MiB  x tcp
          raw  spinning        1.50 us   0.05       6000 Mbit/s   0.25
         vipl  spinning        1.80 us   0.06                 -      -
  vipl/packet  blocking       24.00 us   0.80                 -      -
          tcp  blocking       30.00 us   1.00      24000 Mbit/s   1.00
         vipl  blocking              -      -      36000 Mbit/s   1.50

`

func TestTables(t *testing.T) {
	var table, summary strings.Builder
	if err := WriteTable(&table, tableRecords); err != nil {
		t.Fatal(err)
	}
	if table.String() != wantTable {
		t.Errorf("table is\n%s\nwant\n%s", table.String(), wantTable)
	}
	if err := WriteSummary(&summary, tableRecords); err != nil {
		t.Fatal(err)
	}
	if summary.String() != wantSummary {
		t.Errorf("summary is\n%s\nwant\n%s", summary.String(), wantSummary)
	}
}

var amRecords = []Record{
	{Case: Case{Stack: "raw", Test: Rate, Wait: Spin, Link: "ring", MTU: 1500, Size: 16}, Rate: 500000, LineNs: 55},
	{Case: Case{Stack: "am2", Test: Rate, Reliability: "delivery", Wait: Spin, Link: "ring", Kind: kindShort, Credits: usualCredits, MTU: 1500, Size: 16}, Rate: 2000000, LineNs: 55},
	{Case: Case{Stack: "am2", Test: Rate, Reliability: "delivery", Wait: Spin, Link: "ring", Kind: kindShort, Credits: 4, MTU: 1500, Size: 16}, Rate: 400000, LineNs: 55},
}

const wantAMTable = `rate, 16 B messages, MTU 1500
                stack     level  wait  messages/s  sent again  drops  x raw  x tcp  line ns
                  raw         -  spin      500000           0      0   1.00      -       55
            am2 short  delivery  spin     2000000           0      0   4.00      -       55
  am2/credits=4 short  delivery  spin      400000           0      0   0.80      -       55

`

const wantAMSummary = `          stack  waits by  messages, 16 B  x tcp
            raw  spinning       500000 /s      -
            am2  spinning      2000000 /s      -
  am2/credits=4  spinning       400000 /s      -

`

// TestCreditsInTables: the rates with many and with few credits stand in rows of
// their own, and both are compared with the raw frames of the run.
func TestCreditsInTables(t *testing.T) {
	var table, summary strings.Builder
	if err := WriteTable(&table, amRecords); err != nil {
		t.Fatal(err)
	}
	if table.String() != wantAMTable {
		t.Errorf("table is\n%s\nwant\n%s", table.String(), wantAMTable)
	}
	if err := WriteSummary(&summary, amRecords); err != nil {
		t.Fatal(err)
	}
	if summary.String() != wantAMSummary {
		t.Errorf("summary is\n%s\nwant\n%s", summary.String(), wantAMSummary)
	}
}

// TestWritePlotOfWhatThereIs: a panel for each of what the records have, and no
// picture of nothing.
func TestWritePlotOfWhatThereIs(t *testing.T) {
	signature := Record{Case: Case{Stack: "am2", Test: LogP, Wait: Spin}, LogP: &Signature{Points: machine{0.8, 0.4, 0.6, 1.5, 64}.points()}}
	for want, records := range map[int][]Record{0: amRecords, 1: tableRecords[:4], 2: tableRecords, 3: append(slices.Clone(tableRecords), signature)} {
		var out bytes.Buffer
		err := WritePlot(&out, records)
		if want == 0 {
			if !errors.Is(err, plot.ErrEmpty) {
				t.Errorf("rates alone: %v, want ErrEmpty", err)
			}
			continue
		}
		_, decodeErr := png.DecodeConfig(&out)
		if err = errors.Join(err, decodeErr); err != nil || len(panels(records)) != want {
			t.Errorf("a picture with %d panels, %v; want %d", len(panels(records)), err, want)
		}
	}
}

func TestWritePlot(t *testing.T) {
	lines := series(tableRecords, Latency)
	if len(lines) != 4 || lines[1].Name != "vipl, spinning" || lines[2].Name != "vipl/packet, blocking" {
		t.Errorf("lines %+v", lines)
	}
	var out bytes.Buffer
	if err := WritePlot(&out, tableRecords); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&out); err != nil {
		t.Error(err)
	}
}

// TestPlotSaysOverWhat: title and names tell of which MTU and link a line is, and
// measurements of two MTUs are two lines.
func TestPlotSaysOverWhat(t *testing.T) {
	both := slices.Clone(tableRecords[:4])
	for _, r := range tableRecords[:4] {
		r.MTU = 9000
		both = append(both, r)
	}
	lines := series(both, Latency)
	if len(lines) != 8 || lines[1].Name != "vipl, MTU 1500, spinning" || lines[6].Name != "vipl/packet, MTU 9000, blocking" {
		t.Errorf("lines %+v", lines)
	}
	for want, records := range map[string][]Record{
		"MTU 1500, link ring, packet":       tableRecords[:4],
		"MTU 1500, 9000, link ring, packet": both,
		"MTU 1500, link ring":               tableRecords[:2],
		"MTU 1500":                          tableRecords[6:],
	} {
		if got := overWhat(records); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	signature := Record{Case: Case{Stack: "am2", Test: LogP, Wait: Spin, MTU: 9000, Link: "ring"}, LogP: &Signature{}}
	if p := signaturePanel(signature); !strings.HasSuffix(p.Title, "\nMTU 9000, link ring") {
		t.Errorf("title %q", p.Title)
	}
}

var vmmcRecords = []Record{
	{Case: Case{Stack: "vmmc", Test: Latency, Wait: Spin, Link: "ring", MTU: 1500, Size: 4}, P50: 2, P99: 3, Min: 1},
	{Case: Case{Stack: "vmmc", Test: Latency, Wait: Spin, Link: "ring", MTU: 1500, Size: 256}, P50: 3, P99: 4, Min: 2},
	{Case: Case{Stack: "vmmc", Test: Latency, Wait: Spin, Link: "ring", MTU: 1500, Size: 4096}, P50: 9, P99: 9, Min: 8},
	{Case: Case{Stack: "vmmc", Test: Bandwidth, Wait: Spin, Link: "ring", MTU: 1500, Size: 4096}, Mbits: 9000},
	{Case: Case{Stack: "vmmc", Test: Bidirectional, Wait: Spin, Link: "ring", MTU: 1500, Size: 4096}, Mbits: 9500},
	{Case: Case{Stack: "vmmc", Test: Overhead, Wait: Spin, Link: "ring", Mode: modeSync, MTU: 1500, Size: 4096}, P50: 9},
	{Case: Case{Stack: "vmmc", Test: Overhead, Wait: Spin, Link: "ring", Mode: modeAsync, MTU: 1500, Size: 4096}, P50: 0.4},
}

const wantVMMCSummary = `       stack  waits by  one way, 4 B  x tcp  bandwidth, 4 KiB  x tcp  both ways, 4 KiB  x tcp  overhead, 4 KiB  x tcp
        vmmc  spinning       2.00 us      -       9000 Mbit/s      -       9500 Mbit/s      -                -      -
   vmmc/sync  spinning             -      -                 -      -                 -      -          9.00 us      -
  vmmc/async  spinning             -      -                 -      -                 -      -          0.40 us      -

`

// TestModes: both modes of sending have rows and lines of their own; both directions are
// drawn beside one; and short messages, which longer ones would squeeze, have a plot.
func TestModes(t *testing.T) {
	var summary strings.Builder
	if err := WriteSummary(&summary, vmmcRecords); err != nil {
		t.Fatal(err)
	}
	if summary.String() != wantVMMCSummary {
		t.Errorf("summary is\n%s\nwant\n%s", summary.String(), wantVMMCSummary)
	}
	if lines := series(vmmcRecords, Overhead); len(lines) != 2 || lines[1].Name != "vmmc/async, spinning" {
		t.Errorf("lines of overhead: %+v", lines)
	}
	if lines := series(vmmcRecords, Bidirectional); len(lines) != 1 || lines[0].Name != "vmmc, both ways, spinning" {
		t.Errorf("lines of both ways: %+v", lines)
	}
	for want, records := range map[int][]Record{4: vmmcRecords, 3: vmmcRecords[1:], 1: vmmcRecords[:2]} {
		if got := panels(records); len(got) != want {
			t.Errorf("%d panels, want %d: %+v", len(got), want, got)
		}
	}
}

func TestByteCount(t *testing.T) {
	for n, want := range map[int]string{1: "1 B", 64: "64 B", 1000: "1000 B", 1024: "1 KiB", 1536: "1536 B", 1 << 20: "1 MiB", 3 << 20: "3 MiB"} {
		if got := byteCount(n); got != want {
			t.Errorf("byteCount(%d) = %q, want %q", n, got, want)
		}
	}
}

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
