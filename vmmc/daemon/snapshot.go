package daemon

import (
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Snapshot is the state of a daemon at a moment.
type Snapshot struct {
	Node      ethertype.MAC
	Processes []Process // in the order of their numbers
	Stats     Stats
}

// Process is one of the node's.
type Process struct {
	Scope    string
	Process  uint32
	Addr     ethertype.Addr
	PID      int32 // 0 if it is of another pid namespace
	UID      uint32
	Exports  int
	Words    []string
	Matching int // imports whose exporter is not found yet
}

// Snapshot returns the state of the daemon, for people and for metrics.
func (d *Daemon) Snapshot() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Snapshot{Node: d.table.node, Stats: d.table.stats}
	for c := range d.table.clients {
		if !c.entered {
			continue
		}
		p := Process{Scope: c.scope, Process: c.self.Process, Addr: c.self.Addr, PID: c.pid, UID: c.uid, Exports: len(c.exports), Matching: len(c.wants)}
		for word := range c.words {
			p.Words = append(p.Words, word)
		}
		slices.Sort(p.Words)
		s.Processes = append(s.Processes, p)
	}
	slices.SortFunc(s.Processes, func(a, b Process) int { return a.Addr.Compare(b.Addr) })
	return s
}
