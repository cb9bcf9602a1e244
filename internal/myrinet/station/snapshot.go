package station

import (
	"bytes"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
)

// Snapshot is the state of a host's card at one moment, the common part of all cards' snapshots.
type Snapshot struct {
	Card       hardware.CardSnapshot
	Cable      *hardware.LivePort // nil in virtual time
	Mapper     *mapper.Snapshot   // may be nil
	Stations   int                `metric:"bobnet_card_stations" help:"Stations in the card's route table."`
	LongRoutes uint64             `metric:"bobnet_card_long_routes_total" help:"Routes of the mapper that are too long for the card's table."`
}

// WriteCard writes the snapshot as human-readable text: the card, the output of host, its cable,
// and the host's mapper.
func (s *Snapshot) WriteCard(b *bytes.Buffer, host func()) {
	c, st := &s.Card, &s.Card.Stats
	fmt.Fprintf(b, "card %s  %d of %d bytes of SRAM in use, %d doorbell pages, routes to %d stations\n",
		c.Name, st.SRAMUsed, st.SRAMTotal, c.Pages, s.Stations)
	fmt.Fprintf(b, "  out    %d packets, %d bytes, refused %d\n", st.PacketsOut, st.BytesOut, st.Refused)
	fmt.Fprintf(b, "  in     %d packets, %d bytes, found no buffer %d\n", st.PacketsIn, st.BytesIn, st.NoBuffer)
	fmt.Fprintf(b, "  dropped  truncated %d, too long %d, wrong CRC-8 %d, misrouted %d, program replaced %d\n",
		st.Truncated, st.TooLong, st.CRCErrors, st.Misrouted, st.Reloaded)
	fmt.Fprintf(b, "  engines  DMA %d transfers, %d bytes; doorbells %d, interrupts %d; posted buffers %d, filled %d%s%s%s\n",
		st.DMAs, st.DMABytes, st.Doorbells, st.Interrupts, c.Posted, c.Filled,
		when(c.Blocked, ", a packet waits for a buffer"), when(c.Sending, ", sending"), when(c.Transferring, ", transferring"))
	for _, m := range uses(c.Memory) {
		fmt.Fprintf(b, "  SRAM   %7d bytes in %3d for %s\n", m.size, m.pieces, m.purpose)
	}
	host()
	if s.Cable != nil {
		hardware.WriteLivePorts(b, []hardware.LivePort{*s.Cable}) // a buffer never fails
	}
	if s.Mapper != nil {
		writeMapper(b, s)
	}
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// use is the part of a card's memory that is used for one purpose.
type use struct {
	purpose      string
	size, pieces int
}

func uses(blocks []hardware.BlockUse) (list []use) {
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

// writeMapper writes the mapper's state, and the last map if it has one.
func writeMapper(b *bytes.Buffer, s *Snapshot) {
	m := s.Mapper
	leader := "nobody"
	switch {
	case m.Leading:
		leader = "itself"
	case m.Leader != ethertype.MAC{}:
		leader = m.Leader.String()
	}
	fmt.Fprintf(b, "  mapper   follows %s, %d routes; maps %d, changes %d, restarts %d, doubts %d, given up %d\n",
		leader, m.Routes, m.Maps, m.Changes, m.Restarts, m.Doubts, m.Abandoned)
	fmt.Fprintf(b, "           probes %d, timed out %d, answers %d, elections %d, yields %d, routes written %d, too long %d, dropped %d\n",
		m.Probes, m.TimedOut, m.Answers, m.Elections, m.Yields, m.Installed, s.LongRoutes, m.Dropped())
	if last := m.Map; last != nil {
		fmt.Fprintf(b, "           last map: %s; took %v\n", last.Summary(), last.Duration.Round(time.Microsecond))
	}
}
