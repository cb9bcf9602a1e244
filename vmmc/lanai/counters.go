package lanai

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/reliability"
)

// Counters count what a card's program has done.
type Counters struct {
	PacketsOut, PacketsIn uint64 // with answers and mapping
	OctetsOut, OctetsIn   uint64 // of memory, without headers
	Chunks                uint64 // pieces stored in memory: a packet has one or two
	Misses                uint64 // of software TLBs
	Refills               uint64 // interrupts that have brought translations
	LinesCut              uint64 // times that a line between two nodes has ended

	Strange      uint64 // packets or messages dropped: not of this program, of unknown nodes, or without sense
	Stale        uint64 // packets dropped: of a line that has ended
	TooSoon      uint64 // packets that wait, or come again: one before them is missing, or the driver has no room
	NoRoute      uint64 // packets not sent: no route leads there
	Unanswered   uint64 // packets dropped: as many answers wait to be sent as have room
	Refused      uint64 // packets dropped: for pages that may not be written
	BadRequests  uint64 // requests refused: longer than one can be
	BadProxies   uint64 // requests refused: for pages that the process has not imported
	BadAddresses uint64 // requests refused: of memory that is not the process's
	BadQueues    uint64 // doorbells of queues that hold no next request
	RouteErrors  uint64 // tables of a mapper's that do not fit: those of its nodes are used for which there is room
}

// Snapshot is what a host is like at a moment.
type Snapshot struct {
	station.Snapshot
	MAC       ethertype.MAC
	Mapped    bool // VMMC's program is loaded
	Counters  Counters
	Sent      reliability.SendChannelCounters
	Received  reliability.RecvChannelCounters
	Nodes     int // known, itself among them
	Frames    int // pages that are, or may yet be, written by others
	Buffers   int // packets in SRAM that have not left, or not been answered
	ToDriver  int // messages and notifications that wait for the driver
	ToSend    int // messages of the driver's that wait to be sent
	Processes []ProcessSnapshot
}

// ProcessSnapshot is what a process of a host is like.
type ProcessSnapshot struct {
	Process uint32
	Port    uint16
	Pinned  int  // pages that its TLB keeps in memory
	Proxies int  // proxy pages in use
	Waiting int  // requests that wait for a slot of the send queue
	Missing bool // its TLB lacks a translation, and the driver has not brought it yet
}

// Snapshot returns what the host is like now. Any goroutine may call it.
func (h *Host) Snapshot() Snapshot {
	h.eng.Lock()
	defer h.eng.Unlock()
	p := h.prog
	s := Snapshot{
		Snapshot: station.Snapshot{Card: h.card.Snapshot(), Cable: h.carrier.snapshot(), Mapper: h.maps.Snapshot(), Stations: len(p.nodes.Routed(nil)), LongRoutes: h.maps.Long},
		MAC:      h.cfg.MAC, Mapped: p.ready, Counters: p.count, Frames: h.frames.n, ToDriver: h.came.Len(), ToSend: h.leaving.Len(),
	}
	if p.ready {
		s.Sent, s.Received, s.Nodes, s.Buffers = p.send.Stats(), p.recv.Stats(), p.nodes.Len(), sendBuffers-p.free
	}
	for _, x := range h.procs {
		s.Processes = append(s.Processes, ProcessSnapshot{Process: x.cfg.Process, Port: x.port, Pinned: len(x.space.pins),
			Proxies: x.queue.table.count(), Waiting: x.backlog.Len(), Missing: x.queue.missing})
	}
	slices.SortFunc(s.Processes, func(a, b ProcessSnapshot) int { return int(a.Port) - int(b.Port) })
	return s
}

// WriteTo writes the snapshot as text for people: the card, its processes and what they have
// moved, its cable, and the host's mapper. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	s.WriteCard(&b, func() { s.writeProgram(&b) })
	return b.WriteTo(w)
}

func (s *Snapshot) writeProgram(b *bytes.Buffer) {
	if !s.Mapped {
		fmt.Fprint(b, "  VMMC   not loaded: the card maps\n")
		return
	}
	n := &s.Counters
	fmt.Fprintf(b, "  VMMC   of %v, %d nodes, pages that others may write %d; buffers in use %d; for the driver %d, from it %d\n",
		s.MAC, s.Nodes, s.Frames, s.Buffers, s.ToDriver, s.ToSend)
	fmt.Fprintf(b, "         out %d packets, %d octets; in %d packets, %d octets in %d chunks; sent again %d\n",
		n.PacketsOut, n.OctetsOut, n.PacketsIn, n.OctetsIn, n.Chunks, s.Sent.Again)
	fmt.Fprintf(b, "         TLB misses %d, refills %d; lines cut %d\n", n.Misses, n.Refills, n.LinesCut)
	fmt.Fprintf(b, "         requests refused: too long %d, not imported %d, other memory %d; queues without a request %d\n",
		n.BadRequests, n.BadProxies, n.BadAddresses, n.BadQueues)
	fmt.Fprintf(b, "         dropped: strange %d, stale %d, too soon %d, no route %d, no room for an answer %d, refused %d; tables that did not fit %d\n",
		n.Strange, n.Stale, n.TooSoon, n.NoRoute, n.Unanswered, n.Refused, n.RouteErrors)
	for i := range s.Processes {
		p := &s.Processes[i]
		fmt.Fprintf(b, "         process %d at port %d: pinned %d pages, proxy pages %d, requests that wait %d", p.Process, p.Port, p.Pinned, p.Proxies, p.Waiting)
		if p.Missing {
			fmt.Fprint(b, ", lacks a translation")
		}
		b.WriteByte('\n')
	}
}
