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

// curveRecords are of three sizes: TCP is ahead of vipl in the second and third.
var curveRecords = []Record{
	{Case: Case{Stack: "vipl", Test: Latency, Reliability: "delivery", Wait: Spin, Link: "ring", MTU: 1500, Size: 1}, P50: 1.5},
	{Case: Case{Stack: "vipl", Test: Latency, Reliability: "delivery", Wait: Block, Link: "ring", MTU: 1500, Size: 1}, P50: 30},
	{Case: Case{Stack: "tcp", Test: Latency, Wait: Block, MTU: 1500, Size: 1}, P50: 15},
	{Case: Case{Stack: "vipl", Test: Latency, Reliability: "delivery", Wait: Spin, Link: "ring", MTU: 1500, Size: 4095}, P50: 21},
	{Case: Case{Stack: "tcp", Test: Latency, Wait: Block, MTU: 1500, Size: 4095}, P50: 17},
	{Case: Case{Stack: "vipl", Test: Latency, Reliability: "delivery", Wait: Spin, Link: "ring", MTU: 1500, Size: 4096}, P50: 20},
	{Case: Case{Stack: "tcp", Test: Latency, Wait: Block, MTU: 1500, Size: 4096}, P50: 17},
	{Case: Case{Stack: "vipl", Test: Bandwidth, Reliability: "delivery", Wait: Spin, Link: "ring", MTU: 1500, Size: 4096}, Mbits: 9000},
	{Case: Case{Stack: "tcp", Test: Bandwidth, Wait: Block, MTU: 1500, Size: 4096}, Mbits: 8000},
}

const wantCurve = `one-way time, us, MTU 1500, spinning; * where TCP is ahead
  bytes    vipl     tcp
      1   1.50   15.00 
   4095  21.00*  17.00 
   4096  20.00*  17.00 

bandwidth, Gbit/s, MTU 1500, spinning; * where TCP is ahead
  bytes    vipl     tcp
   4096  9.000   8.000 

TCP is ahead, MTU 1500, spinning
  vipl  one-way time: 4095 B to 4 KiB  bandwidth: nowhere

one-way time, us, MTU 1500, blocking; * where TCP is ahead
  bytes    vipl     tcp
      1  30.00*  15.00 
   4095       -  17.00 
   4096       -  17.00 

bandwidth, Gbit/s, MTU 1500, blocking; * where TCP is ahead
  bytes  vipl     tcp
   4096     -  8.000 

TCP is ahead, MTU 1500, blocking
  vipl  one-way time: 1 B  bandwidth: nowhere

`

func TestCurve(t *testing.T) {
	var text strings.Builder
	if err := WriteCurve(&text, curveRecords); err != nil {
		t.Fatal(err)
	}
	if text.String() != wantCurve {
		t.Errorf("the table is\n%s\nwant\n%s", text.String(), wantCurve)
	}
	var picture bytes.Buffer
	if err := WriteCurvePlot(&picture, curveRecords); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&picture); err != nil {
		t.Error(err)
	}
	if err := WriteCurvePlot(&picture, nil); !errors.Is(err, plot.ErrEmpty) {
		t.Errorf("without records: %v", err)
	}
}

// TestCurvePlan: the plan of a curve has each power of two with the sizes beside it, and keeps what
// is asked for.
func TestCurvePlan(t *testing.T) {
	p := Plan{Waits: []string{Spin}, MTUs: []int{9000}}.Curve()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if first, last := p.Sizes[0], p.Sizes[len(p.Sizes)-1]; first != 1 || last != curveMax || !slices.IsSorted(p.Sizes) {
		t.Errorf("sizes from %d to %d: %v", first, last, p.Sizes)
	}
	for _, size := range []int{2, 3, 63, 64, 65, 65535, 65536, 65537} {
		if !slices.Contains(p.Sizes, size) {
			t.Errorf("%d is not among the sizes", size)
		}
	}
	cases := p.Cases(9000)
	if want := len(p.Sizes) * 2 * len(p.Stacks); len(cases) != want {
		t.Errorf("%d cases of %d sizes, 2 tests and %d stacks, want %d", len(cases), len(p.Sizes), len(p.Stacks), want)
	}
}
