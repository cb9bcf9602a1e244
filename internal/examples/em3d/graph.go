package em3d

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// Config describes the graph and the number of steps.
type Config struct {
	Particles int     // number of nodes of each field on a rank
	Degree    int     // number of nodes that a node depends on
	Remote    float64 // average share of these on other ranks, 0 to 1
	Steps     int
	Single    bool // one store for each value; otherwise one bulk store for each pair of ranks
	Seed      uint64
}

// The paper's sizes, and this program's choices for sizes that the paper does not give. The degree
// determines the computation for each stored value. With 20, as in other graphs by the authors of
// Split-C, a present-day processor finishes before a message arrives.
const (
	DefaultParticles = 500
	DefaultDegree    = 64
	DefaultRemote    = 0.3
	DefaultSteps     = 500
)

// ErrConfig is wrapped by the errors for an impossible configuration.
var ErrConfig = errors.New("em3d: configuration")

// Check returns an error if the graph is impossible.
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

// size returns the size of the graph for a report.
func (c Config) size() string {
	return fmt.Sprintf("%d particles a rank, degree %d, %.0f %% remote, %d steps", c.Particles, c.Degree, 100*c.Remote, c.Steps)
}

// The fields.
const (
	electric = iota
	magnetic
	fields
)

// node is a dependency: a node of the other field, and its weight.
type node struct {
	rank, index int
	weight      float64
}

// edges returns the dependencies of node index of a rank's field, in the order of addition: nodes
// of the same rank first. The weights are small and have both signs, so that the values stay
// moderate for thousands of steps. It uses the memory of buf.
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

// adjacency contains the dependencies of each node of a field: the index of each value, and its
// weight.
type adjacency struct {
	start  []int32 // index in the other slices at which each node's dependencies begin, and at which the last ones end
	index  []int32
	weight []float64
}

func newAdjacency() adjacency { return adjacency{start: []int32{0}} }

// add appends a dependency of the current node; next ends the list of this node.
func (a *adjacency) add(index int32, weight float64) {
	a.index, a.weight = append(a.index, index), append(a.weight, weight)
}

func (a *adjacency) next() { a.start = append(a.start, int32(len(a.index))) }

// relax subtracts from values the weighted sums of the others that they depend on.
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

// Serial computes the values of both fields after the last step in one process. They are in the
// order of ranks and nodes.
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

// Run computes all steps and returns the values of both fields, in the order of ranks and nodes.
func (s *System) Run() [fields][]float64 {
	for range s.steps {
		s.graph[electric].relax(s.values[electric], s.values[magnetic])
		s.graph[magnetic].relax(s.values[magnetic], s.values[electric])
	}
	return s.values
}
