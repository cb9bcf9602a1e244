package em3d

// part is a rank's share of the graph. The values of a field that a rank knows are its
// own nodes' and, behind them, copies of those of other ranks' nodes that its other field
// depends on: those of rank 0 first, each rank's in the order of nodes.
type part struct {
	Config
	ranks, rank int
	own, away   [fields]adjacency // of this rank's nodes: what it has itself, and what others have
	copies      [fields]int       // how many there are of a field
	send        [fields][]message // to other ranks, of a field
}

// message is what another rank has to know of a field.
type message struct {
	to    int
	nodes []int32   // of this rank
	place int       // among the values that the other rank knows: where the first goes
	value []float64 // of the nodes, in order
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

// addNeeds notes which nodes of a field a rank depends on: where copies of them are if it
// is this one, or else what to send it.
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

// addGraph says where what this rank's nodes of a field depend on is.
func (p *part) addGraph(field int, needs [][]int32) {
	at := make([]map[int32]int32, p.ranks) // of each rank: from nodes to places
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

// pack takes the values that a message has to say from those of its field.
func (m *message) pack(values []float64) {
	for i, n := range m.nodes {
		m.value[i] = values[n]
	}
}

// known is how many values of a field a rank knows.
func (p *part) known(field int) int { return p.Particles + p.copies[field] }

// mutual reports whether there are two ranks, each of which needs values of either field
// from the other. Both find the same.
func (p *part) mutual() bool {
	both := p.ranks == 2
	for f := range fields {
		both = both && len(p.send[f]) > 0 && p.copies[f] > 0
	}
	return both
}
