package mapper

import (
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// follower holds the routes of a host.
type follower struct {
	table  []myrinet.HostRoute
	digest uint64

	// Incomplete parts of new routes.
	parts struct {
		from   ethertype.MAC
		token  uint64
		digest uint64
		got    [][]myrinet.HostRoute
		left   int // missing parts
		hosts  int // entries received
	}
}

// identify answers a mapper's probe.
func (a *Agent) identify(now int64, m *message) {
	a.stats.Answers++
	reply := message{kind: answer, mapper: m.mapper, token: m.token, request: m.request,
		host: a.opts.ID, leader: a.leader, digest: a.digest, name: a.opts.Name}
	if !a.isLeading {
		reply.age = uint32(min(max(now-a.heard, 0)/1e6, 1<<31))
	}
	a.push(outgoing{m.back, reply})
}

// obey carries out the leader's order about this host's routes, and confirms it.
func (a *Agent) obey(m *message) {
	if m.kind == clearAll {
		a.stats.Cleared++
		a.setRoutes(nil)
	} else if m.digest != a.digest && !a.collect(m) {
		a.stats.DropInvalid++
		return
	}
	a.push(outgoing{m.back, message{kind: ack, mapper: m.mapper, token: m.token, request: m.request, host: a.opts.ID, digest: a.digest}})
}

// collect stores a part of the routes, and installs them when all parts are present.
func (a *Agent) collect(m *message) bool {
	p := &a.parts
	if p.from != m.mapper || p.token != m.token || p.digest != m.digest || len(p.got) != int(m.parts) {
		p.from, p.token, p.digest, p.got, p.left = m.mapper, m.token, m.digest, make([][]myrinet.HostRoute, m.parts), int(m.parts)
		p.hosts = 0
	}
	if p.got[m.part] == nil {
		if len(m.entries) == 0 || p.hosts+len(m.entries) > MaxHosts {
			return false
		}
		p.left--
		p.hosts += len(m.entries)
		p.got[m.part] = m.entries
	}
	if p.left > 0 {
		return true
	}
	table := slices.Concat(p.got...)
	p.got, p.digest = nil, 0
	if !a.fits(table, m.digest) {
		return false
	}
	a.setRoutes(table)
	a.digest = m.digest
	return true
}

// fits reports whether routes match the digest and are sorted by host without duplicates.
func (a *Agent) fits(table []myrinet.HostRoute, want uint64) bool {
	if digest(table) != want {
		return false
	}
	for i := 1; i < len(table); i++ {
		if !better(table[i-1].To, table[i].To) {
			return false
		}
	}
	return true
}

func (a *Agent) setRoutes(table []myrinet.HostRoute) {
	a.table, a.digest = table, digest(table)
	if len(table) > 0 {
		a.stats.Installed++
	}
	if a.card != nil {
		a.card.SetRoutes(table)
	}
}
