package em3d

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func small() Config {
	return Config{Particles: 25, Degree: 5, Remote: 0.3, Steps: 5, Seed: 3}
}

// TestSerial compares with the definition, node by node.
func TestSerial(t *testing.T) {
	c, ranks := small(), 3
	now := map[[3]int]float64{} // by field, rank and index
	for f := range fields {
		for r := range ranks {
			for i := range c.Particles {
				now[[3]int{f, r, i}] = c.initial(ranks, f, r, i)
			}
		}
	}
	for range c.Steps {
		for f := range fields {
			for r := range ranks {
				for i := range c.Particles {
					for _, e := range c.edges(ranks, f, r, i, nil) {
						now[[3]int{f, r, i}] -= float64(e.weight * now[[3]int{1 - f, e.rank, e.index}])
					}
				}
			}
		}
	}
	for f, values := range Serial(c, ranks) {
		for n, v := range values {
			if want := now[[3]int{f, n / c.Particles, n % c.Particles}]; v != want {
				t.Fatalf("node %d of field %d is %v, want %v", n, f, v, want)
			}
		}
	}
}

// TestParts exchanges what parts have to send by hand: the same as alone, bit for bit.
func TestParts(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 7} {
		for _, remote := range []float64{0, 0.3, 1} {
			c := small()
			c.Remote = remote
			values := make([][fields][]float64, ranks)
			parts := make([]*part, ranks)
			for r := range ranks {
				parts[r] = newPart(c, ranks, r)
				for f := range fields {
					values[r][f] = make([]float64, parts[r].known(f))
					parts[r].fill(values[r][f], f)
				}
			}
			exchange := func(f int) {
				for r, p := range parts {
					for _, m := range p.send[f] {
						m.pack(values[r][f])
						copy(values[m.to][f][m.place:], m.value)
					}
				}
			}
			exchange(magnetic)
			for range c.Steps {
				for f := range fields {
					for r, p := range parts {
						p.own[f].relax(values[r][f][:c.Particles], values[r][1-f])
						p.away[f].relax(values[r][f][:c.Particles], values[r][1-f])
					}
					exchange(f)
				}
			}
			for f, want := range Serial(c, ranks) {
				for r := range ranks {
					if got := values[r][f][:c.Particles]; !slices.Equal(got, want[r*c.Particles:(r+1)*c.Particles]) {
						t.Errorf("%d ranks, %v remote: field %d of rank %d differs from a serial run", ranks, remote, f, r)
					}
				}
			}
		}
	}
}

// TestRemote: about as many of the edges leave the rank as were asked for, and none leads
// to nowhere.
func TestRemote(t *testing.T) {
	c := Config{Particles: DefaultParticles, Degree: DefaultDegree, Remote: DefaultRemote, Steps: 1, Seed: 1}
	const ranks = 4
	away := 0
	for i := range c.Particles {
		edges := c.edges(ranks, electric, 2, i, nil)
		if len(edges) != c.Degree {
			t.Fatalf("node %d has %d edges", i, len(edges))
		}
		for k, e := range edges {
			if e.rank < 0 || e.rank >= ranks || e.index < 0 || e.index >= c.Particles {
				t.Fatalf("edge %d of node %d leads to node %d of rank %d", k, i, e.index, e.rank)
			}
			if e.rank != 2 {
				away++
			}
		}
	}
	if share := float64(away) / float64(c.Particles*c.Degree); math.Abs(share-DefaultRemote) > 0.02 {
		t.Errorf("%v of the edges lead to other ranks, want %v", share, DefaultRemote)
	}
}

// TestFinite: the values stay finite for as long as the default lasts.
func TestFinite(t *testing.T) {
	c := Config{Particles: 50, Degree: DefaultDegree, Remote: DefaultRemote, Steps: DefaultSteps, Seed: 1}
	for f, values := range Serial(c, 2) {
		for i, v := range values {
			if math.IsNaN(v) || math.Abs(v) > 1e6 {
				t.Fatalf("node %d of field %d is %v", i, f, v)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	if err := small().Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{Steps: 1}, {Particles: 1, Degree: -1, Steps: 1}, {Particles: 1, Remote: 1.5, Steps: 1}, {Particles: 1, Remote: math.NaN(), Steps: 1}, {Particles: 1}} {
		if err := c.Check(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func BenchmarkSerial(b *testing.B) {
	s := NewSystem(Config{Particles: DefaultParticles, Degree: DefaultDegree, Remote: DefaultRemote, Steps: DefaultSteps, Seed: 1}, 2)
	for b.Loop() {
		s.Run()
	}
}
