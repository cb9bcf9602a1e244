package counters_test

import (
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/counters"
)

type pair struct {
	Ops   uint64 `metric:"x_ops_total"`
	Bytes uint64 `metric:"x_bytes_total"`
}

type part struct {
	Length int `metric:"x_length" help:"Length of all parts."`
}

type stats struct {
	Sent    uint64        `metric:"x_sent_total" help:"Frames sent."`
	Late    uint64        `metric:"x_dropped_total" reason:"too_late" help:"it came too late"`
	Long    uint64        `metric:"x_dropped_total" reason:"long" help:"it is too long"`
	Also    uint32        `metric:"x_dropped_total" reason:"long"`
	Reads   pair          `reason:"read"`
	Writes  pair          `reason:"write"`
	Worst   time.Duration `metric:"x_worst_seconds" help:"Longest wait." add:"max"`
	Up      bool          `metric:"x_up" help:"1 if it is up."`
	Parts   []part        `metric:"x_parts" help:"Parts."`
	Kinds   [3]uint64     `metric:"x_kinds_total" help:"Frames by kind."`
	Missing *part
	Name    string
}

// TestOf: each rule of the package comment.
func TestOf(t *testing.T) {
	s := stats{Sent: 1, Late: 2, Long: 3, Also: 4, Reads: pair{5, 6}, Writes: pair{7, 8}, Worst: 1500 * time.Millisecond, Up: true,
		Parts: []part{{10}, {20}}, Kinds: [3]uint64{1, 2, 3}}
	want := map[string]float64{"x_sent_total": 1, "x_dropped_total too_late": 2, "x_dropped_total long": 7,
		"x_ops_total read": 5, "x_bytes_total read": 6, "x_ops_total write": 7, "x_bytes_total write": 8,
		"x_worst_seconds": 1.5, "x_up": 1, "x_parts": 2, "x_length": 30, "x_kinds_total": 6}
	got := map[string]float64{}
	for _, f := range counters.Of(reflect.TypeFor[stats]()) {
		name := f.Metric
		if f.Reason != "" {
			name += " " + f.Reason
		}
		got[name], _ = f.Value(reflect.ValueOf(s))
		if f.Len > 0 {
			if n, _ := f.At(reflect.ValueOf(s), 1); n != 2 || f.Len != 3 {
				t.Errorf("element 1 of %d is %v", f.Len, n)
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNil: fields behind a nil pointer have no value.
func TestNil(t *testing.T) {
	type outer struct{ Inner *part }
	f := counters.Of(reflect.TypeFor[outer]())[0]
	if _, ok := f.Value(reflect.ValueOf(outer{})); ok {
		t.Error("a nil pointer has a value")
	}
	if n, ok := f.Value(reflect.ValueOf(outer{&part{3}})); !ok || n != 3 {
		t.Error(n, ok)
	}
}

// TestNonZero: fields with a text are listed unless they are 0, those of structs within too.
func TestNonZero(t *testing.T) {
	type inner struct {
		Late uint64 `text:"late frames"`
	}
	s := struct {
		Sent   uint64 `text:"frames sent"`
		Lost   int    `text:"lost"`
		Unsaid uint64
		inner
	}{Sent: 3, Unsaid: 1, inner: inner{4}}
	if list := counters.NonZero(&s); !slices.Equal(list, []string{"frames sent 3", "late frames 4"}) {
		t.Error(list)
	}
}

// TestAdd: numbers add up, or the greater one stays; nothing else changes.
func TestAdd(t *testing.T) {
	s := stats{Sent: 1, Reads: pair{5, 6}, Worst: 2, Kinds: [3]uint64{1, 2, 3}, Name: "s"}
	counters.Add(&s, &stats{Sent: 2, Reads: pair{10, 20}, Worst: 1, Kinds: [3]uint64{1, 1, 1}, Name: "t"})
	if want := (stats{Sent: 3, Reads: pair{15, 26}, Worst: 2, Kinds: [3]uint64{2, 3, 4}, Name: "s"}); !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// TestLoad: atomic counters are copied by name.
func TestLoad(t *testing.T) {
	var c struct {
		Sent, Unknown atomic.Uint64
		Worst         atomic.Int64
		Kinds         [3]atomic.Uint64
	}
	c.Sent.Store(4)
	c.Worst.Store(5)
	c.Kinds[2].Store(6)
	s := stats{Late: 1}
	counters.Load(&s, &c)
	if want := (stats{Sent: 4, Late: 1, Worst: 5, Kinds: [3]uint64{0, 0, 6}}); !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}
