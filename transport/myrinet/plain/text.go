package plain

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/mapper"
)

// WriteTo writes the snapshot as text for people: the card, its cable, and the host's
// mapper. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	c, st := &s.Card, &s.Card.Stats
	fmt.Fprintf(&b, "card %s  %d of %d octets of SRAM in use, %d doorbell pages, routes to %d stations\n",
		c.Name, st.SRAMUsed, st.SRAMTotal, c.Pages, s.Stations)
	fmt.Fprintf(&b, "  out    %d packets, %d octets, refused %d, frames in the send ring %d\n", st.PacketsOut, st.OctetsOut, st.Refused, s.ToSend)
	fmt.Fprintf(&b, "  in     %d packets, %d octets, found no buffer %d, frames in the receive ring %d\n", st.PacketsIn, st.OctetsIn, st.NoBuffer, s.Received)
	fmt.Fprintf(&b, "  dropped  truncated %d, too long %d, wrong CRC-8 %d, misrouted %d, program replaced %d; doorbells that cannot be %d\n",
		st.Truncated, st.TooLong, st.CRCErrors, st.Misrouted, st.Reloaded, s.BadDoorbells)
	fmt.Fprintf(&b, "  engines  DMA %d transfers, %d octets; doorbells %d, interrupts %d; posted buffers %d, filled %d%s%s%s\n",
		st.DMAs, st.DMAOctets, st.Doorbells, st.Interrupts, c.Posted, c.Filled,
		when(c.Blocked, ", a packet waits for a buffer"), when(c.Sending, ", sending"), when(c.Transferring, ", transferring"))
	for _, m := range uses(c.Memory) {
		fmt.Fprintf(&b, "  SRAM   %7d octets in %3d for %s\n", m.size, m.pieces, m.purpose)
	}
	if s.Cable != nil {
		myrinet.WriteLivePorts(&b, []myrinet.LivePort{*s.Cable}) // a buffer takes everything
	}
	if s.Mapper != nil {
		writeMapper(&b, s.Mapper)
	}
	return b.WriteTo(w)
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// use is what one purpose has of a card's memory.
type use struct {
	purpose      string
	size, pieces int
}

func uses(blocks []myrinet.BlockUse) (list []use) {
	at := map[string]int{}
	for _, b := range blocks {
		i, known := at[b.Purpose]
		if !known {
			i = len(list)
			at[b.Purpose] = i
			list = append(list, use{purpose: b.Purpose})
		}
		list[i].size += b.Size
		list[i].pieces++
	}
	return list
}

// writeMapper writes what a host's mapper is, and the last map of one that leads.
func writeMapper(b *bytes.Buffer, m *mapper.Snapshot) {
	leader := "nobody"
	switch {
	case m.Leading:
		leader = "itself"
	case m.Leader != ethertype.MAC{}:
		leader = m.Leader.String()
	}
	fmt.Fprintf(b, "  mapper   follows %s, %d routes; maps %d, changes %d, restarts %d, doubts %d, given up %d\n",
		leader, m.Routes, m.Maps, m.Changes, m.Restarts, m.Doubts, m.Abandoned)
	fmt.Fprintf(b, "           probes %d, timed out %d, answers %d, elections %d, yields %d, routes written %d, dropped %d\n",
		m.Probes, m.TimedOut, m.Answers, m.Elections, m.Yields, m.Installed, m.Dropped())
	if last := m.Map; last != nil {
		fmt.Fprintf(b, "           last map: %s; took %v\n", last.Summary(), last.Duration.Round(time.Microsecond))
	}
}
