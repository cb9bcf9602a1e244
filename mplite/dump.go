package mplite

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// WriteTo writes what the rank waits for as text, for a person who wants to
// know why a job hangs. The order of lines and columns is stable. It
// implements io.WriterTo.
//
// Ranks that wait for each other show it here: follow the receives "for a
// message" from rank to rank until one waits for nothing, or the circle closes.
func (s Pending) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "rank %d of %d in job %q  ", s.Rank, s.Size, s.Job)
	switch {
	case s.Err != "":
		fmt.Fprintf(&b, "ended: %s\n", s.Err)
	case s.Leading:
		fmt.Fprintf(&b, "waits for the network, %d more goroutines with it\n", s.Following)
	case s.Following > 0:
		fmt.Fprintf(&b, "%d goroutines wait\n", s.Following)
	default:
		b.WriteString("computes: no goroutine waits\n")
	}
	fmt.Fprintf(&b, "  %d receives and %d sends not finished, %d messages that no receive has taken\n", s.NumReceives, s.NumSends, s.NumUnexpected)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s.writeOperations(t)
	s.writeMessages(t)
	s.writePeers(t)
	t.Flush()
	return b.WriteTo(w)
}

func (s *Pending) writeOperations(t *tabwriter.Writer) {
	if s.NumReceives+s.NumSends > 0 {
		fmt.Fprintln(t, "\n  OPERATION\tRANK\tTAG\tCOMMUNICATOR\tBYTES\tMOVED\tWAITS")
	}
	for _, list := range []struct {
		name  string
		all   []Operation
		count int
	}{{"receive", s.Receives, s.NumReceives}, {"send", s.Sends, s.NumSends}} {
		for _, o := range list.all {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%d\t%d\t%s\n", list.name, wild(o.Rank), wild(o.Tag), place(o.Communicator, o.Collective), o.Size, o.Moved, o.State)
		}
		more(t, list.count-len(list.all))
	}
	t.Flush()
}

func (s *Pending) writeMessages(t *tabwriter.Writer) {
	if s.NumUnexpected > 0 {
		fmt.Fprintln(t, "\n  UNEXPECTED\tRANK\tTAG\tCOMMUNICATOR\tBYTES")
	}
	for _, m := range s.Unexpected {
		kind := "message"
		if m.Announced {
			kind = "announcement"
		}
		if m.Matched {
			kind += ", matched"
		}
		fmt.Fprintf(t, "  %s\t%d\t%d\t%s\t%d\n", kind, m.Rank, m.Tag, place(m.Communicator, m.Collective), m.Size)
	}
	more(t, s.NumUnexpected-len(s.Unexpected))
	t.Flush()
}

func (s *Pending) writePeers(t *tabwriter.Writer) {
	if len(s.Peers) > 0 {
		fmt.Fprintln(t, "\n  WITH RANK\tSTATE\tVI\tCREDITS\tCONTROL\tQUEUED\tBUSY\tWRITES\tHELD\tWHY")
	}
	for _, p := range s.Peers {
		fmt.Fprintf(t, "  %d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", p.Rank, p.State, p.VI, p.Credits, p.Control, p.Queued, p.Busy, p.Writes, p.Held, orDash(p.Err))
	}
}

// wild returns a rank or tag, "any" if that is what it stands for.
func wild(n int) string {
	if n < 0 {
		return "any"
	}
	return strconv.Itoa(n)
}

// place names a communicator and says if a collective is at work in it.
func place(communicator int, collective bool) string {
	if collective {
		return strconv.Itoa(communicator) + " collective"
	}
	return strconv.Itoa(communicator)
}

func more(t *tabwriter.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(t, "  and %d more\n", n)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
