package scale_test

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/scale"
)

// TestMeasure: what a rank has open, and what it sends to start, does not grow with the number of ranks, or
// grows with its logarithm; and each run measures the same.
func TestMeasure(t *testing.T) {
	need.Simulated(t)
	for _, ranks := range []int{2, 16, 48} {
		c := measure(t, ranks)
		if most := 4 * int(math.Ceil(math.Log2(float64(ranks)))+1); c.Ranks != ranks || c.Connections < 1 || c.Connections > most {
			t.Errorf("%d ranks: %d connections of a rank, want 1 to %d", c.Ranks, c.Connections, most)
		}
		if c.Frames < 1 || c.Frames > 40 || c.Broadcasts > 1 || c.Start <= 0 || c.Heap < 1<<10 || c.Buffers < 1<<10 {
			t.Errorf("%d ranks: %+v", ranks, c)
		}
		for _, x := range c.Collectives {
			if x.First <= 0 || x.Again <= 0 {
				t.Errorf("%d ranks: %+v", ranks, x)
			}
		}
	}
}

func measure(t *testing.T, ranks int) scale.Cost {
	t.Helper()
	c, err := scale.Measure(t.Context(), ranks)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEnds: a plan whose context has ended ends, and numbers of ranks out of range are refused.
func TestEnds(t *testing.T) {
	need.Simulated(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scale.Measure(ctx, 32); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context has ended", err)
	}
	for _, ranks := range []int{-1, 0, 1, scale.MaxRanks + 1} {
		if _, err := scale.Measure(t.Context(), ranks); err == nil {
			t.Errorf("%d ranks are not refused", ranks)
		}
	}
}

// TestTable: in the row of docs/scale.md for 16 ranks, start, frames, broadcasts and connections are those of
// today's code.
func TestTable(t *testing.T) {
	need.Simulated(t)
	doc, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := scale.WriteTable(&out, []scale.Cost{measure(t, 16)}); err != nil {
		t.Fatal(err)
	}
	want := cells(out.String(), "16")
	got := cells(string(doc), "16")
	if len(want) < 8 || len(got) != len(want) {
		t.Fatalf("docs/scale.md has %q for 16 ranks, want %q", got, want)
	}
	for i := range 5 { // the rest are memory and times
		if got[i] != want[i] {
			t.Errorf("docs/scale.md has %q for 16 ranks, today's code %q: run go run ./cmd/bobnet lab --plan 16,32,64,128,256,512,1024,2048 --plot docs/scale.png, and replace the table", got[i], want[i])
		}
	}
}

// TestTimes: a time has three digits and the unit that fits it after rounding.
func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0 µs",
		9004:                     "9 µs",
		999_400:                  "999 µs",
		999_500:                  "1 ms",
		999_700:                  "1 ms",
		20_140_000:               "20.1 ms",
		999_400_000:              "999 ms",
		999_700_000:              "1 s",
		1_234 * time.Millisecond: "1.23 s",
		20 * time.Minute:         "1200 s",
	} {
		var out strings.Builder
		if err := scale.WriteTable(&out, []scale.Cost{{Ranks: 2, Start: d}}); err != nil {
			t.Fatal(err)
		}
		if got := cells(out.String(), "2")[1]; got != want {
			t.Errorf("%d ns: %q, want %q", int64(d), got, want)
		}
	}
}

// cells returns the cells of the row that begins with a word.
func cells(table, first string) (row []string) {
	for line := range strings.Lines(table) {
		row = strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if row[0] == first {
			return row
		}
	}
	return nil
}
