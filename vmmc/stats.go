package vmmc

import "github.com/bobnet-go/bobnet/vmmc/internal/provider"

// Stats counts what a process has done since it was opened.
type Stats struct {
	Sends    uint64 // writes that messages have made
	Refused  uint64 // sends refused because of their address
	PastEnd  uint64 // of them, those that begin in an import and do not end there
	Imports  uint64 // made
	Granted  uint64 // to others
	Denied   uint64 // requests that a policy has refused
	Forced   uint64 // grants taken back from importers that did not answer
	Late     uint64 // messages that came too late for Redirect, and were copied
	Notified uint64 // notifications that came
	Handled  uint64 // handlers that have ended
	Panics   uint64 // handlers that have panicked
	provider.Counters
}

// Snapshot is the state of a process at a moment.
type Snapshot struct {
	Self     Peer
	Closed   bool
	Exports  []ExportSnapshot
	Imports  int // in use
	Asked    int // requests that wait for an export
	Queued   int // notifications that wait
	Blocks   int // by BlockNotifications
	Handling bool
	Peers    []provider.Peer
	Stats    Stats
}

// ExportSnapshot is an export's.
type ExportSnapshot struct {
	ID        uint32
	Bytes     int
	Importers int
	Words     []string
}

// Snapshot returns the state of the process, for people and for metrics.
func (p *Process) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.unlock()
	s := Snapshot{Self: p.Self(), Closed: p.closed, Imports: len(p.proxies.used), Asked: max(len(p.asked)-p.withdrawn, 0), Queued: p.notes.len(),
		Blocks: p.notes.blocks, Handling: p.notes.running, Peers: p.via.Peers(), Stats: p.stats}
	s.Stats.Counters = p.via.Counters()
	for _, e := range p.exports {
		s.Exports = append(s.Exports, ExportSnapshot{e.id, len(e.buf), len(e.grants), e.words})
	}
	return s
}
