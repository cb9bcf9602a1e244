package daemon

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Snapshot is the state of a daemon at one moment.
type Snapshot struct {
	Node      ethertype.MAC
	Processes []Process `metric:"bobnet_daemon_processes" help:"Processes of the node."`
	Stats     Stats
}

// Process is a process of the node.
type Process struct {
	Job      string
	Process  uint32
	Addr     ethertype.Addr
	PID      int32 // 0 if it is of another pid namespace
	UID      uint32
	Exports  int `metric:"bobnet_daemon_exports" help:"Buffers exported by processes of the node."`
	Words    []string
	Matching int `metric:"bobnet_daemon_waiting_imports" help:"Imports of processes of the node whose exporter is not found yet."`
}

// Snapshot returns the state of the daemon, for display and for metrics.
func (d *Daemon) Snapshot() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Snapshot{Node: d.table.node, Stats: d.table.stats}
	for c := range d.table.clients {
		if !c.entered {
			continue
		}
		p := Process{Job: c.scope, Process: c.self.Process, Addr: c.self.Addr, PID: c.pid, UID: c.uid, Exports: len(c.exports), Matching: len(c.wants)}
		for word := range c.words {
			p.Words = append(p.Words, word)
		}
		slices.Sort(p.Words)
		s.Processes = append(s.Processes, p)
	}
	slices.SortFunc(s.Processes, func(a, b Process) int { return a.Addr.Compare(b.Addr) })
	return s
}

// WriteTo writes the snapshot as text: the processes of the node, and the number of their imports
// that wait for an exporter. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	n := &s.Stats
	fmt.Fprintf(&b, "vmmc daemon of node %v\n", s.Node)
	fmt.Fprintf(&b, "  exporters found %d, users proven %d, not proven %d, deaths here %d, heard of %d, processes refused %d\n",
		n.Matches, n.Proven, n.Unproven, n.Deaths, n.Told, n.Refused)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(s.Processes) > 0 {
		fmt.Fprintln(t, "\n  PROCESS\tAT\tPID\tUSER\tEXPORTS\tIMPORTS WAITING\tJOB\tADVERTISES")
	}
	for i := range s.Processes {
		p := &s.Processes[i]
		fmt.Fprintf(t, "  %d\t%v\t%d\t%d\t%d\t%d\t%s\t%s\n", p.Process, p.Addr, p.PID, p.UID, p.Exports, p.Matching,
			quoted(p.Job), quoted(p.Words...))
	}
	t.Flush()
	return b.WriteTo(w)
}

// quoted returns strings that a process has chosen, quoted so that they are safe to print on a terminal.
func quoted(words ...string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%q", w)
	}
	return cmp.Or(b.String(), "-")
}
