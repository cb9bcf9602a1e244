package skeleton

import "math/rand/v2"

// EM3D moves the two fields of a graph. Each rank has a number of particles of each field. A
// particle depends on Degree particles of the other field, a share of which belongs to other ranks.
type EM3D struct {
	Particles, Degree int
	Remote            float64
	Steps             int
	Single            bool // each value is a separate store; if false, all values from one rank to another are one store
}

// edges returns how many values of a field a rank needs from each other rank, and how many of its
// edges lead to other ranks. The result is the same on all ranks.
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

// Run is one rank's part. For each field, the rank updates its particles with its own values of the
// other field, waits for the values of other ranks, and updates its particles with these. Then it
// stores the new values to the ranks that need them.
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

// wait waits for the values of other ranks. With two ranks, each knows how many values to expect.
// With more ranks, wait waits until all stores of all ranks have arrived.
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
