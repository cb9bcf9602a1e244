package vrpc

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/counters"
)

// WriteTo writes the snapshot as text for people: the counters that are not 0, and a line for
// each version of a program. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "RPC server  %d connections open\n  %s\n", s.ConnsOpen, s.counters())
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(s.Programs) > 0 {
		fmt.Fprintln(t, "\n  PROGRAM\tVERSION\tNAME\tSUCCESS\tNO PROCEDURE\tGARBAGE\tSYSTEM ERROR\tDENIED\tNO REPLY")
	}
	for _, p := range s.Programs {
		fmt.Fprintf(t, "  %d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Program, p.Version, cmp.Or(p.Name, "-"), p.Accepted[Success],
			p.Accepted[ProcUnavail], p.Accepted[GarbageArgs], p.Accepted[SystemErr], p.Denied, p.NoReply)
	}
	t.Flush()
	return b.WriteTo(w)
}

// counters lists those that are not 0 and belong to no program.
func (s *Snapshot) counters() string {
	parts := counters.NonZero(s)
	for stat, n := range s.AuthErrors {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("denied because %s %d", AuthStat(stat).String(), n))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing has come")
}
