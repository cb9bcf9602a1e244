package mapper

import (
	"slices"

	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// plan holds the tables to write, by host index in the last map.
type plan struct {
	entries [][]myrinet.HostRoute
	change  []bool // the host has other routes
	clear   []bool // the host must use no routes until all such hosts have confirmed this
}

// makePlan compares the current routes of the hosts with the new ones. For a while both are in use.
// If they could deadlock together, or the old ones are unknown, the old ones are withdrawn before
// the new ones are written.
func (a *Agent) makePlan() {
	l := &a.lead
	n := len(l.last.IDs)
	l.plan = plan{entries: make([][]myrinet.HostRoute, n), change: make([]bool, n), clear: make([]bool, n)}
	old := make(Tables, n)
	for i, id := range l.last.IDs {
		for k, route := range l.tables[i] {
			if route != nil {
				l.plan.entries[i] = append(l.plan.entries[i], myrinet.HostRoute{To: l.last.IDs[k], Turns: route})
			}
		}
		has := l.explore.digests[id]
		if i == l.last.Mapper {
			has = a.digest
		}
		l.plan.change[i] = has != digest(l.plan.entries[i])
		if !l.plan.change[i] || has == 0 {
			continue
		}
		was, known := a.had(i, has)
		l.plan.clear[i] = !known
		for _, e := range was {
			old[i] = append(old[i], e.Turns)
		}
	}
	if slices.Contains(l.plan.change, true) && Deadlocks(&l.last.Topology, l.tables, old) != nil {
		for i := range old {
			l.plan.clear[i] = l.plan.clear[i] || len(old[i]) > 0
		}
	}
}

// had returns the current routes of host i, if they are known.
func (a *Agent) had(i int, sum uint64) ([]myrinet.HostRoute, bool) {
	if i == a.lead.last.Mapper {
		return a.table, true
	}
	for _, entries := range a.lead.given[a.lead.last.IDs[i]] {
		if digest(entries) == sum {
			return entries, true
		}
	}
	return nil, false
}

// withdraw orders hosts to use no routes.
func (a *Agent) withdraw() {
	l := &a.lead
	l.stage, l.req.window = clearing, a.opts.Window
	for i, must := range l.plan.clear {
		if !must {
			continue
		}
		a.stats.Withdrawn++
		if i == l.last.Mapper {
			a.setRoutes(nil)
			continue
		}
		a.tell(i, func() message { return message{kind: clearAll} }, func() {})
	}
}

// install writes routes to the hosts.
func (a *Agent) install(int64) {
	l := &a.lead
	l.stage = installing
	for i, entries := range l.plan.entries {
		if !l.plan.change[i] {
			continue
		}
		if i == l.last.Mapper {
			a.setRoutes(entries)
			continue
		}
		id := l.last.IDs[i]
		l.given[id] = append([][]myrinet.HostRoute{entries}, l.given[id]...)
		l.given[id] = l.given[id][:min(len(l.given[id]), 3)]
		sum, parts, failed := digest(entries), split(entries), false
		for k, part := range parts {
			a.tell(i, func() message {
				return message{kind: install, digest: sum, part: uint8(k), parts: uint8(len(parts)), entries: part}
			}, func() {
				if !failed {
					failed = true
					a.stats.Unreached++
					a.opts.Logger.Warn("a host has not confirmed its routes", "id", id)
				}
			})
		}
	}
}

// tell sends an order to a host until it is confirmed, and calls failed if it is not.
func (a *Agent) tell(i int, order func() message, failed func()) {
	l := &a.lead
	there, back := l.tables[l.last.Mapper][i], l.tables[i][l.last.Mapper]
	l.req.add(&request{
		packet: func(int) (myrinet.Route, message) {
			m := order()
			m.host, m.back = l.last.IDs[i], back
			return there, m
		},
		reply: ack,
		done: func(m *message) {
			if m == nil {
				failed()
			}
		},
	})
}

// partSize is the approximate size in bytes of a part of a host's routes. It is small, so that a
// packet does not occupy links for long.
const partSize = 1024

// split splits routes into parts.
func split(entries []myrinet.HostRoute) (parts [][]myrinet.HostRoute) {
	size, from := 0, 0
	for i, e := range entries {
		size += len(e.To) + 1 + len(e.Turns)
		if size >= partSize || i == len(entries)-1 {
			parts = append(parts, slices.Clip(entries[from:i+1]))
			size, from = 0, i+1
		}
	}
	return parts
}
