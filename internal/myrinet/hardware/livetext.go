package hardware

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteLivePorts writes a human-readable table of the ports that have a cable.
func WriteLivePorts(w io.Writer, ports []LivePort) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "PORT\tINTERFACE\tNEIGHBOR\tIN\tBYTES\tOUT\tBYTES\tBLOCKED\tFOR\tTRUNCATED\tCRC\tDROPPED\tLOST FRAMES\tSTRANGERS\tCREDIT\tBUFFERED\t")
	for i := range ports {
		p := &ports[i]
		if p.Interface == "" {
			continue
		}
		neighbor := "none"
		if p.Up {
			neighbor = p.Neighbor
		}
		s := &p.Packets
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%v\t%d\t%d\t%d\t%d\t%d\t%d\t%d of %d\t\n",
			p.Port, p.Interface, neighbor, s.PacketsIn, s.BytesIn, s.PacketsOut, s.BytesOut,
			s.Blocked, time.Duration(s.BlockedNanos).Round(time.Microsecond), s.Truncated, s.CRCErrors,
			s.Dropped()+p.Frames.TooLong, p.Frames.FramesLost, p.Frames.Strangers, p.Credit, p.Buffered, p.Slots)
	}
	return t.Flush()
}
