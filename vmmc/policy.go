package vmmc

import (
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Node names a station: the MAC address of its interface.
type Node = ethertype.MAC

// Peer names a process by its node and number. As a part of a Policy, a zero Node means
// any.
type Peer struct {
	Node    Node
	Process uint32
}

// Policy says who may import a buffer. The zero Policy allows nobody. Otherwise it is
// enough to be in one of the lists. A node is proven by its answering at its address, a
// user by the daemon of its node (without daemons no user is), the number of a process by
// nothing: it keeps out mistakes.
type Policy struct {
	All       bool
	Nodes     []Node
	Processes []Peer
	Users     []uint32
}

// Everybody allows all.
var Everybody = Policy{All: true}

// allows judges an importer. uid counts if it is proven.
func (p *Policy) allows(who Peer, uid uint32, proven bool) bool {
	return p.All || slices.Contains(p.Nodes, who.Node) || proven && slices.Contains(p.Users, uid) ||
		slices.ContainsFunc(p.Processes, func(x Peer) bool {
			return x.Process == who.Process && (x.Node == who.Node || x.Node == Node{})
		})
}

// asksForUser reports whether the verdict depends on who the user is.
func (p *Policy) asksForUser(who Peer) bool { return len(p.Users) > 0 && !p.allows(who, 0, false) }

// copied returns a policy that its caller cannot change any more.
func (p Policy) copied() Policy {
	p.Nodes, p.Processes, p.Users = slices.Clone(p.Nodes), slices.Clone(p.Processes), slices.Clone(p.Users)
	return p
}
