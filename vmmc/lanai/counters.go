package lanai

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/mapper"
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
	Refused      uint64 // packets dropped: for pages that may not be written
	BadRequests  uint64 // requests refused: longer than one can be
	BadProxies   uint64 // requests refused: for pages that the process has not imported
	BadAddresses uint64 // requests refused: of memory that is not the process's
	BadQueues    uint64 // doorbells of queues that hold no next request
	RouteErrors  uint64 // tables of a mapper's that do not fit: those of its nodes are used for which there is room
	LongRoutes   uint64 // a mapper's routes not taken: they have more turns than an entry of the table
}

// Snapshot is what a host is like at a moment.
type Snapshot struct {
	MAC       ethertype.MAC
	Mapped    bool // VMMC's program is loaded
	Card      myrinet.CardSnapshot
	Cable     *myrinet.LivePort // nil in virtual time, where it is the fabric's
	Mapper    *mapper.Snapshot  // nil for none
	Counters  Counters
	Sent      reliability.SendChannelCounters
	Received  reliability.RecvChannelCounters
	Nodes     int // known, itself among them
	Frames    int // pages that are, or may yet be, written by others
	Buffers   int // packets in SRAM that have not left, or not been answered
	Processes []ProcessSnapshot
}

// ProcessSnapshot is what a process of a host is like.
type ProcessSnapshot struct {
	Process uint32
	Port    uint16
	Pinned  int // pages that its TLB keeps in memory
	Proxies int // proxy pages in use
	Waiting int // requests that wait for a slot of the send queue
	Missing bool
}

// Snapshot returns what the host is like now. Any goroutine may call it.
func (h *Host) Snapshot() Snapshot {
	h.eng.Lock()
	defer h.eng.Unlock()
	p := h.prog
	s := Snapshot{MAC: h.cfg.MAC, Mapped: p.ready, Card: h.card.Snapshot(), Cable: h.carrier.snapshot(), Counters: p.count, Frames: h.frames.n, Mapper: h.maps.Snapshot()}
	s.Counters.LongRoutes = h.maps.Long
	if p.ready {
		s.Sent, s.Received, s.Nodes, s.Buffers = p.send.Stats(), p.recv.Stats(), p.nodes.n, sendBuffers-p.free
	}
	for _, x := range h.procs {
		s.Processes = append(s.Processes, ProcessSnapshot{Process: x.cfg.Process, Port: x.port, Pinned: len(x.space.pins),
			Proxies: x.queue.table.count(), Waiting: x.backlog.Len(), Missing: x.queue.missing})
	}
	return s
}
