package em3d

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// Config is the graph, and how long to compute.
type Config struct {
	Particles int     // nodes of each of the two fields that a rank has
	Degree    int     // others that a node depends on
	Remote    float64 // share of these that another rank has, 0 to 1, on average
	Steps     int
	Single    bool // each value is a store of its own; else a rank's for another are one bulk store
	Seed      uint64
}

// The paper's sizes and, where it is silent, what this program takes. The degree says how
// much is computed for each value that is stored: with 20, as in other graphs of the
// authors of Split-C, a processor of today is done before a message has travelled.
const (
	DefaultParticles = 500
	DefaultDegree    = 64
	DefaultRemote    = 0.3
	DefaultSteps     = 500
)

// ErrConfig is wrapped by the errors of a configuration that is not possible.
var ErrConfig = errors.New("em3d: configuration")

// Check returns an error if there can be no such graph.
func (c Config) Check() error {
	switch {
	case c.Particles < 1 || c.Particles > 1<<20:
		return fmt.Errorf("%w: %d particles a rank: want 1 to %d", ErrConfig, c.Particles, 1<<20)
	case c.Degree < 0 || c.Degree > 1<<10:
		return fmt.Errorf("%w: degree %d: want 0 to %d", ErrConfig, c.Degree, 1<<10)
	case !(c.Remote >= 0 && c.Remote <= 1):
		return fmt.Errorf("%w: a share %v of remote particles: want 0 to 1", ErrConfig, c.Remote)
	case c.Steps < 1:
		return fmt.Errorf("%w: %d steps: want one at least", ErrConfig, c.Steps)
	}
	return nil
}

// size says in a report what was computed.
func (c Config) size() string {
	return fmt.Sprintf("%d particles a rank, degree %d, %.0f %% remote, %d steps", c.Particles, c.Degree, 100*c.Remote, c.Steps)
}

// The fields.
const (
	electric = iota
	magnetic
	fields
)

// node is one of the field that another depends on.
type node struct {
	rank, index int
	weight      float64
}

// edges returns what node index of a rank's field depends on, in the order in which it is
// added up: what the rank has itself first. The weights are so small, and of both signs,
// that the values stay of moderate size for thousands of steps. The memory of buf is used.
func (c Config) edges(ranks, field, rank, index int, buf []node) []node {
	own, away := buf[:0], make([]node, 0, c.Degree)
	for k := range c.Degree {
		i := 4 * uint64(((field*ranks+rank)*c.Particles+index)*c.Degree+k)
		n := node{rank, spmd.Below(c.Seed, i, c.Particles), (2*spmd.Uniform(c.Seed, i+1) - 1) / float64(16*c.Degree)}
		if ranks == 1 || spmd.Uniform(c.Seed, i+2) >= c.Remote {
			own = append(own, n)
			continue
		}
		n.rank = (rank + 1 + spmd.Below(c.Seed, i+3, ranks-1)) % ranks
		away = append(away, n)
	}
	return append(own, away...)
}

// initial is the value of a node before the first step.
func (c Config) initial(ranks, field, rank, index int) float64 {
	return 2*spmd.Uniform(c.Seed+1, uint64((field*ranks+rank)*c.Particles+index)) - 1
}

// needs returns, for each rank, which of its nodes of the other field the given rank's
// nodes of a field depend on, in their order.
func (c Config) needs(ranks, field, rank int) [][]int32 {
	all := make([][]int32, ranks)
	var edges []node
	for i := range c.Particles {
		edges = c.edges(ranks, field, rank, i, edges)
		for _, e := range edges {
			all[e.rank] = append(all[e.rank], int32(e.index))
		}
	}
	for r := range all {
		slices.Sort(all[r])
		all[r] = slices.Compact(all[r])
	}
	return all
}

// adjacency says of each node of a field what it depends on: where that value is, and the
// weight.
type adjacency struct {
	start  []int32 // where each node's begin in the others, and where the last one's end
	index  []int32
	weight []float64
}

func newAdjacency() adjacency { return adjacency{start: []int32{0}} }

// add appends one that the next node depends on; next ends the list of a node.
func (a *adjacency) add(index int32, weight float64) {
	a.index, a.weight = append(a.index, index), append(a.weight, weight)
}

func (a *adjacency) next() { a.start = append(a.start, int32(len(a.index))) }

// relax moves values against the weighted sums of the others that they depend on.
func (a *adjacency) relax(values, others []float64) {
	start := a.start
	for i := range values {
		lo, hi := start[i], start[i+1]
		index, weight := a.index[lo:hi], a.weight[lo:hi]
		weight = weight[:len(index)]
		v := values[i]
		for k, at := range index {
			v -= float64(weight[k] * others[at])
		}
		values[i] = v
	}
}

// Serial computes the values of both fields after the last step in one process: those of
// all ranks' nodes, in order.
func Serial(c Config, ranks int) [fields][]float64 {
	return NewSystem(c, ranks).Run()
}

// System is the graph of all ranks in one process.
type System struct {
	steps  int
	graph  [fields]adjacency
	values [fields][]float64
}

// NewSystem returns the graph before the first step.
func NewSystem(c Config, ranks int) *System {
	s := &System{steps: c.Steps}
	var edges []node
	for f := range fields {
		g := newAdjacency()
		for r := range ranks {
			for i := range c.Particles {
				s.values[f] = append(s.values[f], c.initial(ranks, f, r, i))
				edges = c.edges(ranks, f, r, i, edges)
				for _, e := range edges {
					g.add(int32(e.rank*c.Particles+e.index), e.weight)
				}
				g.next()
			}
		}
		s.graph[f] = g
	}
	return s
}

// Run computes all steps and returns the values of both fields: those of all ranks' nodes,
// in order.
func (s *System) Run() [fields][]float64 {
	for range s.steps {
		s.graph[electric].relax(s.values[electric], s.values[magnetic])
		s.graph[magnetic].relax(s.values[magnetic], s.values[electric])
	}
	return s.values
}
