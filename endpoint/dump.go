package endpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/internal/counters"
)

// WriteTo writes the snapshot as text, for a person who investigates why a program hangs: the
// counters that are not 0, the bundles, their endpoints, a line for each translation in use, and
// the senders that this program has not answered yet. It implements io.WriterTo.
//
// A request without an answer and with a growing AGE waits for the other side. Examine that
// program, or find the connection's VI, by the address, in the dump of the NIC. A request that
// waits for this program to poll shows which bundle does not poll.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "node %v  incarnation %08x  ", s.Addr, s.Incarnation)
	switch {
	case s.Closed:
		b.WriteString("closed\n")
	case s.Leading:
		fmt.Fprintf(&b, "waits for the network, %d more goroutines with it\n", s.Following)
	default:
		b.WriteString("computes: no goroutine waits\n")
	}
	fmt.Fprintf(&b, "  %s\n", s.Stats)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s.writeEndpoints(t)
	s.writeTranslations(t)
	s.writeSenders(t)
	return b.WriteTo(w)
}

// String returns the counters that are not 0.
func (s Stats) String() string {
	s.StallTime = s.StallTime.Round(time.Microsecond)
	parts := counters.NonZero(&s)
	for _, r := range wire.Reasons() {
		if n := s.Refused[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("refused for %v %d", r, n))
		}
		if n := s.Returned[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("came back for %v %d", r, n))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing sent or handled")
}

func (s *Snapshot) writeEndpoints(t *tabwriter.Writer) {
	if len(s.Bundles) > 0 {
		fmt.Fprintln(t, "\n  BUNDLE\tTYPE\tEVENTS\tRUNNING\tREQUESTS\tREPLIES\tENDPOINT\tACCEPTS\tSEGMENT\tGRANTS\tMAPPED\tSENDERS\tPUBLISHED")
	}
	for i := range s.Bundles {
		b := &s.Bundles[i]
		events := b.Events
		if b.Posted {
			events += ", posted"
		}
		bundle := fmt.Sprintf("  %d\t%s\t%s\t%d\t%d\t%d", i, b.Type, events, b.Running, b.Requests, b.Replies)
		for k := range b.Endpoints {
			ep := &b.Endpoints[k]
			fmt.Fprintf(t, "%s\t%d\t%s\t%d B\t%d\t%d of %d\t%d\t%s\n", bundle, ep.ID, ep.Accepts, ep.Segment, ep.Grants, ep.Mapped, ep.Table,
				ep.Senders, cmp.Or(strings.Join(ep.Published, " "), "-"))
			bundle = "  \t\t\t\t\t"
		}
		if len(b.Endpoints) == 0 {
			fmt.Fprintf(t, "%s\tnone\n", bundle)
		}
	}
	t.Flush()
}

func (s *Snapshot) writeTranslations(t *tabwriter.Writer) {
	title := "\n  FROM\tINDEX\tTO\tUNDER WAY\tCREDITS\tANSWERS\tOLDEST\tAGE\tWAITS\n"
	s.each(func(ep *EndpointSnapshot) {
		for _, x := range ep.Translations {
			index, oldest, age := strconv.Itoa(x.Index), "-", "-"
			if x.Index < 0 {
				index = "unmapped"
			}
			if x.Oldest != "" {
				oldest, age = x.Oldest, span(x.Age)
			}
			waits := cmp.Or(x.Waits, "-")
			if x.Err != "" {
				waits += ": " + x.Err
			}
			fmt.Fprintf(t, "%s  %d\t%s\t%v\t%d\t%d\t%d\t%s\t%s\t%s\n", title, ep.ID, index, x.To, x.UnderWay, x.Credits, x.Answers, oldest, age, waits)
			title = ""
		}
	})
	t.Flush()
}

func (s *Snapshot) writeSenders(t *tabwriter.Writer) {
	title := "\n  AT\tSENDER\tWAITING\tINCOMING\tOUTGOING\tDEFERRED\n"
	s.each(func(ep *EndpointSnapshot) {
		for _, x := range ep.Asked {
			fmt.Fprintf(t, "%s  %d\t%v\t%d\t%d\t%d\t%d\n", title, ep.ID, x.From, x.Waiting, x.Incoming, x.Outgoing, x.Deferred)
			title = ""
		}
	})
	t.Flush()
}

func (s *Snapshot) each(f func(ep *EndpointSnapshot)) {
	for i := range s.Bundles {
		for k := range s.Bundles[i].Endpoints {
			f(&s.Bundles[i].Endpoints[k])
		}
	}
}

// span returns a time to about three digits.
func span(d time.Duration) string {
	unit := time.Duration(1)
	for x := max(d, -d); x >= 1000; x /= 10 {
		unit *= 10
	}
	return d.Round(unit).String()
}
