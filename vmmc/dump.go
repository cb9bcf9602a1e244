package vmmc

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/counters"
)

// WriteTo writes the snapshot as text for a person who wants to know what hangs and why:
// the counters that are not 0, the exports, and the connections with other processes. It
// implements io.WriterTo.
//
// WAITING counts what waits at a connection for room at the other side, whose program may
// not run its handlers: look there at the notifications that are queued.
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

// String lists the counters that are not 0.
func (s Stats) String() string {
	return cmp.Or(strings.Join(counters.NonZero(&s), ", "), "nothing sent, imported or granted")
}
