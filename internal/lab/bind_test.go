package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestBind: each rank, and what it starts, may run on one processor only, no two on the same,
// and a lab has no more ranks than processors then.
func TestBind(t *testing.T) {
	all, err := Processors()
	if err != nil {
		t.Fatal(err)
	}
	if err := (Config{N: len(all) + 1, Bind: true}).Validate(); err == nil || !strings.Contains(err.Error(), "do not bind them") {
		t.Errorf("a lab of %d bound ranks on %d processors: %v", len(all)+1, len(all), err)
	}
	n := min(len(all), 4)
	l := newLab(t, Config{N: n, Bind: true})
	out, err := script(t.Context(), t, l, `echo "$BOBNET_RANK on $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"`, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	for rank := range n {
		if want := fmt.Sprintf("%d on %d", rank, all[rank]); rank >= len(lines) || lines[rank] != want {
			t.Fatalf("the ranks say %q, want %q of rank %d", lines, want, rank)
		}
	}
}
