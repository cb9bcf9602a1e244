// Package admission limits the resources that each peer of a server uses, and that all peers use
// together: connections (or requests in progress), and memory. It does not limit time: each server
// sets a deadline on its connections, so that everything that a Gate admits ends.
package admission

import (
	"slices"
	"sync"
)

// Limits contains the limits of a Gate. 0 means no limit.
type Limits struct {
	Conns, AllConns int   // connections of one peer, and of all
	Bytes, AllBytes int64 // memory for one peer, and for all
}

// Gate counts the connections and the memory of peers. K identifies a peer: a user's number, or an
// address. Goroutines may share a Gate.
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

// Part returns the maximum number that one peer may have, if all peers together may have most and
// the other peers have others: half of the rest, so that other peers can still get some.
func Part(most, others int) int { return most - others - (most-others)/2 }

// New returns a Gate. Only the limits for all peers apply to the peers in free.
func New[K comparable](limits Limits, free ...K) *Gate[K] {
	return &Gate[K]{limits: limits, free: free, peers: map[K]*cost{}}
}

// Enter counts a connection of a peer. It returns false if there are too many.
func (g *Gate[K]) Enter(peer K) bool { return g.charge(peer, 1, 0) }

// Leave removes a connection that Enter has counted.
func (g *Gate[K]) Leave(peer K) { g.charge(peer, -1, 0) }

// Take counts memory for a peer. It returns false if that is too much.
func (g *Gate[K]) Take(peer K, bytes int64) bool { return g.charge(peer, 0, bytes) }

// Give removes memory that Take has counted.
func (g *Gate[K]) Give(peer K, bytes int64) { g.charge(peer, 0, -bytes) }

// Conns returns the number of connections of a peer, and of all peers.
func (g *Gate[K]) Conns(peer K) (own, all int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.peers[peer]; c != nil {
		own = c.conns
	}
	return own, g.all.conns
}

// charge adds to what a peer costs, or subtracts. It returns false, and changes nothing, if an addition exceeds a limit.
func (g *Gate[K]) charge(peer K, conns int, bytes int64) bool {
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
