// Package admission bounds what each peer of a server costs it, and what all cost together:
// connections, or requests under way, and memory. The third bound, time, is a deadline that each
// server sets on its connections: what a Gate has let in must end by itself.
package admission

import (
	"slices"
	"sync"
)

// Limits are the most that a Gate lets in. 0 means no limit.
type Limits struct {
	Conns, AllConns int   // connections of one peer, and of all
	Bytes, AllBytes int64 // memory for one peer, and for all
}

// Gate counts what peers have. K tells peers apart: a user's number, or an address. Goroutines
// may share it.
type Gate[K comparable] struct {
	limits Limits
	free   []K

	mu    sync.Mutex
	peers map[K]*cost
	all   cost
}

type cost struct {
	conns int
	bytes int64
}

// Part returns the most that one peer may have of what there is for all: half of what the others leave, so that
// something is left for others still.
func Part(most, others int) int { return most - others - (most-others)/2 }

// New returns a Gate. The peers in free are bound by the limits for all only.
func New[K comparable](limits Limits, free ...K) *Gate[K] {
	return &Gate[K]{limits: limits, free: free, peers: map[K]*cost{}}
}

// Enter counts a connection of a peer. It returns false if there are too many.
func (g *Gate[K]) Enter(peer K) bool { return g.add(peer, 1, 0) }

// Leave ends what Enter has begun.
func (g *Gate[K]) Leave(peer K) { g.add(peer, -1, 0) }

// Take counts memory for a peer. It returns false if that is too much.
func (g *Gate[K]) Take(peer K, bytes int64) bool { return g.add(peer, 0, bytes) }

// Give gives back memory that Take has counted.
func (g *Gate[K]) Give(peer K, bytes int64) { g.add(peer, 0, -bytes) }

// Conns returns how many connections a peer has, and how many all have.
func (g *Gate[K]) Conns(peer K) (own, all int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.peers[peer]; c != nil {
		own = c.conns
	}
	return own, g.all.conns
}

func (g *Gate[K]) add(peer K, conns int, bytes int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.peers[peer]
	if c == nil {
		c = new(cost)
	}
	own, all, l := c.plus(conns, bytes), g.all.plus(conns, bytes), g.limits
	if conns > 0 || bytes > 0 {
		if !slices.Contains(g.free, peer) && !own.within(l.Conns, l.Bytes) || !all.within(l.AllConns, l.AllBytes) {
			return false
		}
	}
	*c, g.all = own, all
	if g.peers[peer] = c; own == (cost{}) {
		delete(g.peers, peer)
	}
	return true
}

func (c cost) plus(conns int, bytes int64) cost { return cost{c.conns + conns, c.bytes + bytes} }

func (c cost) within(conns int, bytes int64) bool {
	return (conns == 0 || c.conns <= conns) && (bytes == 0 || c.bytes <= bytes)
}
