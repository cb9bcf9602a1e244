package reliability

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/goodput.txt anew")

// lossyGoodput returns the share of a 10 Gb/s wire that one stream of full
// frames gets when each frame, whatever it carries, is lost at the given rate.
// A round trip is 20 µs and the wire time of a frame.
func lossyGoodput(seed uint64, window int, loss float64, frames int) (float64, error) {
	w := newWorld(seed, func(w *world, from *peer, p *packet) {
		size := int64(bareTime)
		if p.data {
			size = wireTime
		}
		from.freeAt = max(from.freeAt, w.now) + size
		if w.rng.Float64() < loss {
			w.free = append(w.free, p)
			return
		}
		w.at(from.freeAt+10_000, p, nil)
	})
	a, b := w.connect(&Config{Window: window}, frames, 0)
	w.at(w.now, nil, a)
	if err := w.run(1e12, func() bool { return b.missing == 0 }); err != nil {
		return 0, err
	}
	return float64(frames) * wireTime / float64(b.doneAt), nil
}

// TestGoodputTable compares goodput by loss rate and window with a table in
// testdata, so that a change of the protocol shows as a difference.
func TestGoodputTable(t *testing.T) {
	const path, seeds, frames = "testdata/goodput.txt", 8, 4000
	losses, windows := []float64{0, .001, .01, .02, .05, .1, .2, .3}, []int{1, 4, 16, 64, 256, 1024}
	var b strings.Builder
	b.WriteString("Goodput as a share of the wire, by loss rate (rows) and window (columns).\n  loss")
	for _, window := range windows {
		fmt.Fprintf(&b, "%8d", window)
	}
	for _, loss := range losses {
		fmt.Fprintf(&b, "\n%6.3f", loss)
		for _, window := range windows {
			mean := 0.0
			for seed := range uint64(seeds) {
				share, err := lossyGoodput(seed, window, loss, frames)
				if err != nil {
					t.Fatalf("loss %v, window %d, seed %d: %v", loss, window, seed, err)
				}
				mean += share / seeds
			}
			fmt.Fprintf(&b, "%8.4f", mean)
		}
	}
	b.WriteString("\n")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("goodput changed; if it was meant to, run go test ./reliability -run TestGoodputTable -update\ngot:\n%swant:\n%s", &b, want)
	}
}
