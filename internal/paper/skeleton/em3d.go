package skeleton

import "math/rand/v2"

// EM3D moves the two fields of a graph: a rank has so many particles of each, and each
// depends on Degree of the other field, of which other ranks have a share.
type EM3D struct {
	Particles, Degree int
	Remote            float64
	Steps             int
	Single            bool // each value is a store of its own; else a rank's for another are one
}

// edges returns how many values a rank needs of each other, of a field, and how many of its
// edges lead to other ranks. All ranks find the same.
func (a EM3D) edges(field, rank, ranks int) (needs []int, away int) {
	needs = make([]int, ranks)
	rng := rand.New(rand.NewPCG(uint64(field), uint64(rank)))
	seen := make([]bool, ranks*a.Particles)
	for range a.Particles * a.Degree {
		if ranks == 1 || rng.Float64() >= a.Remote {
			continue
		}
		away++
		owner := (rank + 1 + rng.IntN(ranks-1)) % ranks
		if at := owner*a.Particles + rng.IntN(a.Particles); !seen[at] {
			seen[at] = true
			needs[owner]++
		}
	}
	return needs, away
}

// Run is one rank's part: it moves a field by what it has itself, waits for the values of
// the other one, moves it by these, and stores its own to the ranks that need them.
func (a EM3D) Run(r *Rank) error {
	var send [2][]int // values to each rank, of a field
	var away, come [2]int
	for f := range 2 {
		send[f] = make([]int, r.ranks)
		for rank := range r.ranks {
			needs, n := a.edges(f, rank, r.ranks)
			send[f][rank] = needs[r.me]
			if rank == r.me {
				away[f] = n
				for _, values := range needs {
					come[f] += values
				}
			}
		}
	}
	for s := range 2 * a.Steps {
		f := s % 2
		if err := r.link.Compute(2 * (a.Particles*a.Degree - away[f])); err != nil {
			return err
		}
		if s > 0 {
			if err := a.wait(r, come[1-f]); err != nil {
				return err
			}
		}
		if err := r.link.Compute(2 * away[f]); err != nil {
			return err
		}
		for to, values := range send[f] {
			if err := a.tell(r, to, values); err != nil {
				return err
			}
		}
	}
	return r.allStoreSync()
}

// wait waits for the values that come, which two ranks know of each other, and among more
// for those of all ranks.
func (a EM3D) wait(r *Rank, values int) error {
	if r.ranks == 2 {
		return r.storeSync(8 * values)
	}
	return r.allStoreSync()
}

func (a EM3D) tell(r *Rank, to, values int) error {
	if !a.Single && values > 0 {
		return r.store(to, 1, 8*values)
	}
	for range values {
		if err := r.store(to, 1, 8); err != nil {
			return err
		}
	}
	return nil
}
