package fault

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Options
	}{
		{"", Options{}},
		{"loss=2%", Options{Drop: 0.02}},
		{"loss=0.02, dup=100%", Options{Drop: 0.02, Dup: 1}},
		{"reorder=1,corrupt=0,seed=0x10", Options{Reorder: 1, Seed: 16}},
		{"delay=100us,jitter=1ms", Options{Delay: 100 * time.Microsecond, Jitter: time.Millisecond}},
	} {
		got, err := Parse(tt.text)
		if err != nil || got.String() != tt.want.String() || got.Drop != tt.want.Drop {
			t.Errorf("Parse(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if active := tt.text != ""; got.Active() != active {
			t.Errorf("%q: Active() = %v", tt.text, got.Active())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"loss", "loss=", "loss=2", "loss=-1%", "loss=101%", "loss=NaN", "loss=2 %%",
		"delay=5", "delay=-1ms", "seed=-1", "seed=x", "lose=1%", "=", "x"} {
		if got, err := Parse(text); !errors.Is(err, errSpec) {
			t.Errorf("Parse(%q) = %v, %v, want ErrSpec", text, got, err)
		}
	}
}

// TestParseString: what String writes, Parse reads.
func TestParseString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, span := rapid.Float64Range(0, 1), rapid.Int64Range(0, int64(time.Hour))
		want := Options{Seed: rapid.Uint64().Draw(t, "seed"), Drop: rate.Draw(t, "drop"), Dup: rate.Draw(t, "dup"),
			Reorder: rate.Draw(t, "reorder"), Corrupt: rate.Draw(t, "corrupt"),
			Delay: time.Duration(span.Draw(t, "delay")), Jitter: time.Duration(span.Draw(t, "jitter"))}
		got, err := Parse(want.String())
		if err != nil || got.Seed != want.Seed || got.Drop != want.Drop || got.Dup != want.Dup || got.Reorder != want.Reorder ||
			got.Corrupt != want.Corrupt || got.Delay != want.Delay || got.Jitter != want.Jitter {
			t.Errorf("%v became %v, %v", want, got, err)
		}
	})
}

// TestFor: links that share a specification have seeds of their own, and each
// always the same one.
func TestFor(t *testing.T) {
	o := Options{Seed: 7, Drop: 0.5}
	a := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Port: 1024}
	b := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, Port: 1024}
	c := ethertype.Addr{MAC: a.MAC, Port: 2048}
	if o.For(a).Seed != o.For(a).Seed || o.For(a).Drop != 0.5 {
		t.Error("the same link, other faults")
	}
	if o.For(a).Seed == o.For(b).Seed || o.For(a).Seed == o.For(c).Seed {
		t.Error("two links have the same seed")
	}
}
