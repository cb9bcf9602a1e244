package mapper

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// disguise gives switches other names and places in the list, and shifts their ports.
func disguise(rng *rand.Rand, t *topology.Topology) *topology.Topology {
	d := &topology.Topology{Ports: t.Ports + 3, Hosts: slices.Clone(t.Hosts), Switches: make([]string, len(t.Switches))}
	place, shift := rng.Perm(len(t.Switches)), make([]int, len(t.Switches))
	for i, name := range t.Switches {
		d.Switches[place[i]] = "x" + name
		shift[i] = rng.IntN(4)
	}
	for _, i := range rng.Perm(len(t.Cables)) {
		c := t.Cables[i]
		for _, p := range []*topology.Plug{&c.A, &c.B} {
			if !p.Host {
				*p = topology.AtSwitch(place[p.Node], p.Port+shift[p.Node])
			}
		}
		if rng.IntN(2) == 0 {
			c.A, c.B = c.B, c.A
		}
		d.Cables = append(d.Cables, c)
	}
	return d
}

// TestCompare: a network is the same whatever its switches are called and however their
// ports are shifted; and each cable that is missing, or plugged in elsewhere, is told.
func TestCompare(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		top := topology.Random(seed, 6, 1+int(seed%8), 3+int(seed%9))
		found := disguise(rng, top)
		if says := Compare(found, top, ""); len(says) > 0 {
			t.Fatalf("seed %d: %q", seed, says)
		}
		i := rng.IntN(len(found.Cables))
		missing := *found
		missing.Cables = slices.Delete(slices.Clone(found.Cables), i, i+1)
		if len(Compare(&missing, top, "")) == 0 || len(Compare(top, &missing, "")) == 0 {
			t.Errorf("seed %d: a missing cable is not told", seed)
		}
		moved := *found
		moved.Cables = slices.Clone(found.Cables)
		p := &moved.Cables[i].A
		if p.Host {
			p = &moved.Cables[i].B
		}
		p.Port += 20
		if len(Compare(&moved, top, "")) == 0 {
			t.Errorf("seed %d: a cable that is plugged in elsewhere is not told", seed)
		}
	}
}

func TestCompareSays(t *testing.T) {
	const truth = "host a b c\nswitch s t\nlink a s:0\nlink b s:1\nlink s:2 t:2\nlink c t:3"
	for found, want := range map[string]string{
		truth: "",
		"host a b c\nswitch p q\nlink a q:3\nlink b q:4\nlink q:5 p:0\nlink c p:1":               "",
		"host a b\nswitch s t\nlink a s:0\nlink b s:1\nlink s:2 t:2":                             "host c is not on the map",
		"host a b c d\nswitch s t\nlink a s:0\nlink b s:1\nlink s:2 t:2\nlink c t:3\nlink d t:4": "host d is on the map, but not in the truth",
		"host a b c\nswitch s t\nlink a s:0\nlink b s:1\nlink c t:3":                             "the cable from port 2 of switch s to port 2 of switch t is not on the map",
		"host a b c\nswitch s t\nlink a s:0\nlink b s:3\nlink s:2 t:2\nlink c t:3":               "the cable from host b leads to port 1 of switch s, on the map to port 3 of the same switch",
		"host a b c\nswitch s t\nlink a s:0\nlink b t:4\nlink s:2 t:2\nlink c t:3":               "the cable from host b leads to port 1 of switch s, which is switch s of the map; there it leads to port 4 of switch t",
		"host a b c\nswitch s t\nlink a s:0\nlink b s:1\nlink s:2 t:2\nlink c t:3\nlink s:7 t:7": "the map has a cable from port 7 of switch s to port 7 of switch t; in the truth nothing is plugged in there",
		"host a b c\nswitch s\nlink a s:0\nlink b s:1\nlink c s:2":                               "the cable from port 2 of switch s leads to port 2 of switch t, on the map to host c",
	} {
		f, err := topology.ParseFile(found)
		if err != nil {
			t.Fatal(err)
		}
		g, err := topology.ParseFile(truth)
		if err != nil {
			t.Fatal(err)
		}
		says := strings.Join(Compare(&f.Topology, &g.Topology, "a"), "; ")
		if want == "" && says != "" || !strings.Contains(says, want) {
			t.Errorf("%q\nsays %s\nwant %s", found, says, want)
		}
	}
}

// TestCompareReach: what the host has no path to need not be on the map.
func TestCompareReach(t *testing.T) {
	top := topology.Line(8, 2, 2)
	top.Cables = slices.DeleteFunc(top.Cables, func(c topology.Join) bool { return !c.A.Host && !c.B.Host })
	m := (&oracle{t: top}).explore(1, 64).result()
	if says := Compare(&m.Topology, top, "h0"); len(says) > 0 {
		t.Errorf("%q", says)
	}
	if says := Compare(&m.Topology, top, "h3"); len(says) == 0 {
		t.Error("another host's map is taken for this one's")
	}
}
