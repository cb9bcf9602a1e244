package vmmc

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Stats are the counters of a process since it was opened.
type Stats struct {
	Sends uint64 `metric:"bobnet_vmmc_writes_total" help:"Posted writes. A message needs one, or a few if it is long or gathered." text:"writes"`
	provider.Counters
	Refused  uint64 `text:"refused sends"`
	PastEnd  uint64 `metric:"bobnet_vmmc_refused_total" reason:"past_end" help:"local: a send extends beyond its import"`
	Imports  uint64 `metric:"bobnet_vmmc_imports_made_total" help:"Imports made." text:"imports made"`
	Granted  uint64 `metric:"bobnet_vmmc_imports_granted_total" help:"Imports granted to other processes." text:"granted"`
	Denied   uint64 `metric:"bobnet_vmmc_refused_total" reason:"policy" help:"by a peer: the export's policy does not allow the import" text:"denied"`
	Forced   uint64 `metric:"bobnet_vmmc_imports_forced_total" help:"Imports revoked from processes that did not answer." text:"taken back by force"`
	Late     uint64 `metric:"bobnet_vmmc_late_messages_total" help:"Messages that arrived too late for a redirection and were copied." text:"late for a redirection"`
	Notified uint64 `metric:"bobnet_vmmc_notifications_received_total" help:"Notifications received." text:"notifications that came"`
	Handled  uint64 `metric:"bobnet_vmmc_handlers_total" help:"Completed handlers of notifications." text:"handled"`
	Panics   uint64 `metric:"bobnet_vmmc_handler_panics_total" help:"Panics of handlers." text:"panics"`
}

// Snapshot is the state of a process at one moment.
type Snapshot struct {
	Self     Peer
	Closed   bool
	Exports  []ExportSnapshot `metric:"bobnet_vmmc_exports" help:"Exported buffers."`
	Imports  int              `metric:"bobnet_vmmc_imports" help:"Imported buffers of other processes."`
	Asked    int              `metric:"bobnet_vmmc_waiting_requests" help:"Requests of other processes for buffers that are not exported yet."`
	Queued   int              `metric:"bobnet_vmmc_queued_notifications" help:"Notifications whose handlers have not started."`
	Blocks   int              // nesting depth of BlockNotifications
	Handling bool
	Peers    []provider.Peer `metric:"bobnet_vmmc_connections" help:"Connections with other processes."`
	Stats    Stats
}

// ExportSnapshot is the state of an export at one moment.
type ExportSnapshot struct {
	ID        uint32
	Bytes     int `metric:"bobnet_vmmc_exported_bytes" help:"Bytes in exported buffers."`
	Importers int `metric:"bobnet_vmmc_importers" help:"Imports of this process's buffers by other processes."`
	Words     []string
}

// Snapshot returns the current state of the process.
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

// WriteTo writes the snapshot as text, for a person who investigates why a program hangs: the
// counters that are not 0, the exports, and the connections with other processes. It implements
// io.WriterTo.
//
// WAITING counts sends of a connection that wait for room at the other side. The program there may
// not run its handlers: check the number of queued notifications there.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "vmmc process %d at %v  ", s.Self.Process, s.Self.Node)
	switch {
	case s.Closed:
		b.WriteString("closed\n")
	case s.Handling:
		b.WriteString("a handler runs\n")
	case s.Blocks > 0:
		fmt.Fprintf(&b, "notifications are blocked %d times\n", s.Blocks)
	default:
		b.WriteString("open\n")
	}
	fmt.Fprintf(&b, "  %d imports, %d notifications queued, %d requests wait for an export\n", s.Imports, s.Queued, s.Asked)
	fmt.Fprintf(&b, "  %s\n", s.Stats)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s.writeExports(t)
	s.writePeers(t)
	return b.WriteTo(w)
}

func (s *Snapshot) writeExports(t *tabwriter.Writer) {
	if len(s.Exports) > 0 {
		fmt.Fprintln(t, "\n  EXPORT\tSIZE\tIMPORTERS\tADVERTISED AS")
	}
	for _, e := range s.Exports {
		fmt.Fprintf(t, "  %d\t%d B\t%d\t%s\n", e.ID, e.Bytes, e.Importers, cmp.Or(strings.Join(e.Words, " "), "-"))
	}
	t.Flush()
}

func (s *Snapshot) writePeers(t *tabwriter.Writer) {
	if len(s.Peers) > 0 {
		fmt.Fprintln(t, "\n  PEER\tAT\tSTATE\tASKS\tIMPORTED\tGRANTED\tUNDER WAY\tWAITING\tCREDITS")
	}
	for _, p := range s.Peers {
		fmt.Fprintf(t, "  %d\t%v\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Process, p.Addr, p.State, p.Asks, p.Regions, p.Grants, p.UnderWay, p.Waiting, p.Credits)
	}
	t.Flush()
}

// String returns the counters that are not 0.
func (s Stats) String() string {
	return cmp.Or(strings.Join(counters.NonZero(&s), ", "), "nothing sent, imported or granted")
}
