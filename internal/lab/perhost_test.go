package lab

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestPerHost: ranks of one host share its namespace, its interface and its addresses,
// the last host has what is left, and each has what the caller adds for it.
func TestPerHost(t *testing.T) {
	l := newLab(t, Config{N: 3, PerHost: 2})
	if l.Topology() != Pair {
		t.Errorf("two namespaces are joined by %v, want a pair", l.Topology())
	}
	const text = `echo "$BOBNET_RANK of $BOBNET_SIZE $ADDED $(readlink /proc/self/ns/net) $(cat /sys/class/net/bob0/address)"`
	out, err := script(t.Context(), t, l, text, RunOptions{RankEnv: func(rank int) []string { return []string{"ADDED=" + l.Addr(rank).String()} }})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if len(lines) != 3 {
		t.Fatalf("got\n%s", out)
	}
	spaces := map[string]bool{}
	for rank, line := range lines {
		f := strings.Fields(line)
		if len(f) != 6 || f[0] != string(rune('0'+rank)) || f[2] != "3" || f[3] != l.Addr(rank).String() || f[5] != l.MAC(rank).String() {
			t.Errorf("rank %d says %q", rank, line)
			continue
		}
		spaces[f[4]] = true
		if err := l.Exec(rank, func() error { return checkInterface(l, rank) }); err != nil {
			t.Error(err)
		}
	}
	if len(spaces) != 2 || strings.Fields(lines[0])[4] != strings.Fields(lines[1])[4] {
		t.Errorf("the ranks are in the namespaces %v, want two, one of them for ranks 0 and 1", slices.Collect(maps.Keys(spaces)))
	}
}

// TestPerHostCut: a link is that of all ranks of its host, and a cut names them all.
func TestPerHostCut(t *testing.T) {
	cfg := Config{N: 4, PerHost: 2}
	for kind, texts := range map[Kind][]string{Flap: {"1", "0-2"}, Partition: {"0,2/1,3", "0"}} {
		cfg.Cuts = cuts(t, kind, texts...)
		for _, c := range cfg.Cuts {
			cfg.Cuts = []Cut{c}
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "are in one namespace") {
				t.Errorf("%v %v: %v", kind, c, err)
			}
		}
	}
	l := newLab(t, Config{N: 4, PerHost: 2, Cuts: cuts(t, Flap, "2,3")})
	if err := l.Cut(cuts(t, Flap, "2,3")...); err != nil {
		t.Fatal(err)
	}
	if l.wires.down[0] || !l.wires.down[1] {
		t.Errorf("links that are down: %v, want the second host's", l.wires.down)
	}
	if err := l.Cut(); err != nil {
		t.Fatal(err)
	}
}
