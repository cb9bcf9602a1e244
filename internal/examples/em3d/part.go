package em3d

// part is a rank's share of the graph. For each field a rank has the values of its own nodes,
// followed by copies of the other ranks' values that its other field depends on. The copies are in
// the order of ranks, and within a rank in the order of nodes.
type part struct {
	Config
	ranks, rank int
	own, away   [fields]adjacency // the dependencies of this rank's nodes: on own values, and on copies
	copies      [fields]int       // number of copies of a field
	send        [fields][]message // messages to other ranks, by field
}

// message contains the values of a field that another rank needs.
type message struct {
	to    int
	nodes []int32   // of this rank
	place int       // index of the first value among the other rank's values
	value []float64 // values of the nodes, in order
}

func newPart(c Config, ranks, rank int) *part {
	p := &part{Config: c, ranks: ranks, rank: rank}
	for f := range fields {
		other := fields - 1 - f
		for r := range ranks {
			p.addNeeds(f, r, c.needs(ranks, other, r))
		}
	}
	return p
}

// addNeeds records which nodes of a field a rank depends on. If it is this rank, addNeeds assigns
// places to the copies; otherwise it adds a message to that rank.
func (p *part) addNeeds(field, rank int, needs [][]int32) {
	place := p.Particles
	for owner, nodes := range needs {
		if owner == rank {
			continue
		}
		if owner == p.rank && len(nodes) > 0 {
			p.send[field] = append(p.send[field], message{rank, nodes, place, make([]float64, len(nodes))})
		}
		place += len(nodes)
	}
	if rank == p.rank {
		p.copies[field] = place - p.Particles
		p.addGraph(fields-1-field, needs)
	}
}

// addGraph records, for this rank's nodes of a field, the indices of the values that they depend
// on.
func (p *part) addGraph(field int, needs [][]int32) {
	at := make([]map[int32]int32, p.ranks) // for each rank: the index of each node's copy
	place := int32(p.Particles)
	for owner, nodes := range needs {
		if owner == p.rank {
			continue
		}
		at[owner] = map[int32]int32{}
		for _, n := range nodes {
			at[owner][n] = place
			place++
		}
	}
	own, away := newAdjacency(), newAdjacency()
	var edges []node
	for i := range p.Particles {
		edges = p.edges(p.ranks, field, p.rank, i, edges)
		for _, e := range edges {
			if e.rank == p.rank {
				own.add(int32(e.index), e.weight)
			} else {
				away.add(at[e.rank][int32(e.index)], e.weight)
			}
		}
		own.next()
		away.next()
	}
	p.own[field], p.away[field] = own, away
}

// fill sets the values of this rank's own nodes to those before the first step.
func (p *part) fill(values []float64, field int) {
	for i := range p.Particles {
		values[i] = p.initial(p.ranks, field, p.rank, i)
	}
}

// pack copies the values of a message from the values of its field.
func (m *message) pack(values []float64) {
	for i, n := range m.nodes {
		m.value[i] = values[n]
	}
}

// known returns the number of values of a field that a rank has, including copies.
func (p *part) known(field int) int { return p.Particles + p.copies[field] }

// mutual reports whether there are exactly two ranks, and each needs values of both fields from the
// other. Both ranks get the same result.
func (p *part) mutual() bool {
	both := p.ranks == 2
	for f := range fields {
		both = both && len(p.send[f]) > 0 && p.copies[f] > 0
	}
	return both
}
