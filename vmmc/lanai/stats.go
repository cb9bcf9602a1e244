package lanai

import (
	"bytes"
	"fmt"
	"io"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
)

// Stats counts events of a card's control program.
type Stats struct {
	PacketsOut uint64 `metric:"bobnet_vmmccard_transmit_packets_total" help:"Packets sent, including answers."`
	PacketsIn  uint64 `metric:"bobnet_vmmccard_receive_packets_total" help:"Packets received, including answers."`
	BytesOut   uint64 `metric:"bobnet_vmmccard_transmit_memory_bytes_total" help:"Bytes of memory sent, without headers."`
	BytesIn    uint64 `metric:"bobnet_vmmccard_receive_memory_bytes_total" help:"Bytes written to memory."`
	Chunks     uint64 `metric:"bobnet_vmmccard_chunks_total" help:"Pieces written to memory; a packet has one or two."`
	Misses     uint64 `metric:"bobnet_vmmccard_tlb_misses_total" help:"Translations missing in a TLB."`
	Refills    uint64 `metric:"bobnet_vmmccard_tlb_refills_total" help:"Interrupts that loaded translations."`
	LinesCut   uint64 `metric:"bobnet_vmmccard_lines_cut_total" help:"Connections (lines) between this node and another one that have ended."`

	Strange      uint64 `metric:"bobnet_vmmccard_dropped_packets_total" reason:"strange" help:"packets of another control program, packets from unknown nodes, and malformed packets"`
	Stale        uint64 `metric:"bobnet_vmmccard_dropped_packets_total" reason:"stale" help:"packets of a connection (line) that has ended"`
	TooSoon      uint64 `metric:"bobnet_vmmccard_dropped_packets_total" reason:"too_soon" help:"out of order (kept if a buffer is free, otherwise dropped and retransmitted), or no room in the driver (retransmitted)"`
	NoRoute      uint64 `metric:"bobnet_vmmccard_dropped_packets_total" reason:"no_route" help:"not sent: no route"`
	Unanswered   uint64 `metric:"bobnet_vmmccard_dropped_packets_total" reason:"no_room" help:"the queue of answers is full"`
	Refused      uint64 `metric:"bobnet_vmmccard_dropped_packets_total" reason:"not_writable" help:"packets with data for a page that the sender may not write, or may no longer write"`
	BadRequests  uint64 `metric:"bobnet_vmmccard_refused_requests_total" reason:"too_long" help:"longer than the largest request"`
	BadProxies   uint64 `metric:"bobnet_vmmccard_refused_requests_total" reason:"not_imported" help:"sends to pages that the process has not imported"`
	BadAddresses uint64 `metric:"bobnet_vmmccard_refused_requests_total" reason:"not_its_memory" help:"sends from memory that does not belong to the process"`
	BadQueues    uint64 `metric:"bobnet_vmmccard_refused_requests_total" reason:"no_request" help:"the doorbell was rung without a request"`
	Unsaid       uint64 `metric:"bobnet_vmmccard_dropped_messages_total" reason:"too_many" help:"messages from or to a process of another program that has the maximum number of peers"`
	Untold       uint64 `metric:"bobnet_vmmccard_dropped_messages_total" reason:"no_room" help:"messages to a process that has not handled earlier ones"`
	Unreplied    uint64 `metric:"bobnet_vmmccard_dropped_replies_total" help:"Queries to a node and replies to it, such as that a process is not there or a write was refused, dropped because too many wait to be sent."`
	RouteErrors  uint64 `metric:"bobnet_vmmccard_misfit_routes_total" help:"Route tables of the mapper that did not fit."`
}

// Snapshot is the state of a card at one moment.
type Snapshot struct {
	station.Snapshot
	MAC       ethertype.MAC
	Served    bool // another process serves the card; the snapshot is of this process's part of it
	Mapped    bool `metric:"bobnet_vmmccard_loaded" help:"1 if VMMC's control program runs on the card; 0 while the mapping program does."`
	Stats     Stats
	Sent      channels.SenderCounters
	Received  channels.ReceiverCounters
	Nodes     int               `metric:"bobnet_vmmccard_nodes" help:"Nodes known to the card, including its own."`
	Frames    int               `metric:"bobnet_vmmccard_writable_pages" help:"Pages of memory that others may write, or whose revocation is not complete."`
	Buffers   int               `metric:"bobnet_vmmccard_busy_buffers" help:"Packets on the card that are not sent or not acknowledged."`
	ToDriver  int               `metric:"bobnet_vmmccard_queued_messages"` // messages and notifications that wait for the driver
	ToSend    int               `metric:"bobnet_vmmccard_queued_messages"` // the driver's messages that wait to be sent
	Processes []ProcessSnapshot `metric:"bobnet_vmmccard_processes" help:"Processes on the card."`
}

// ProcessSnapshot is the state of a process on a card.
type ProcessSnapshot struct {
	Process uint32
	Port    uint16
	Pinned  int  `metric:"bobnet_vmmccard_pinned_pages" help:"Pages pinned by translations of processes."`
	Proxies int  `metric:"bobnet_vmmccard_proxy_pages" help:"Mapped proxy pages of processes."`
	Waiting int  `metric:"bobnet_vmmccard_queued_requests" help:"Requests of processes that wait for a slot in their send queue."`
	Missing bool // its TLB lacks a translation, which the driver has not supplied yet
}

// Snapshot returns the state of the card. Any goroutine may call it.
func (h *Card) Snapshot() Snapshot {
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	if h.far != nil {
		s := Snapshot{Served: true, MAC: h.cfg.MAC, Processes: h.processes()}
		s.Card.Name = h.far.info.Interface
		return s
	}
	p := h.prog
	s := Snapshot{
		Snapshot: h.host.Snapshot(&h.maps, &p.nodes),
		MAC:      h.cfg.MAC, Mapped: p.ready, Stats: p.count, Frames: h.frames.n, ToDriver: h.came.Len(), ToSend: h.leaving.Len(),
	}
	if p.ready {
		s.Sent, s.Received, s.Nodes, s.Buffers = p.send.Stats(), p.recv.Stats(), p.nodes.Len(), len(p.bufs)-p.free
	}
	s.Processes = h.processes()
	for _, x := range h.procs {
		if g, other := x.listener.(*guest); other { // its run is its own, whatever it has exported
			s.Frames -= int(g.pages.n) - h.frames.filled(g.pages)
		}
	}
	return s
}

func (h *Card) processes() (all []ProcessSnapshot) {
	for _, x := range h.inOrder() {
		all = append(all, ProcessSnapshot{Process: x.self.Process, Port: x.port, Pinned: len(x.space.pins),
			Proxies: x.queue.table.count(), Waiting: x.waiting(), Missing: x.queue.missing})
	}
	return all
}

// WriteTo writes the snapshot as text for display: the card, its processes and their traffic, its
// cable, and the host's mapper. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if s.Served {
		fmt.Fprintf(&b, "card %s of another process\n", s.Card.Name)
		s.writeProcesses(&b)
		return b.WriteTo(w)
	}
	s.WriteCard(&b, func() { s.writeProgram(&b) })
	return b.WriteTo(w)
}

func (s *Snapshot) writeProgram(b *bytes.Buffer) {
	if !s.Mapped {
		fmt.Fprint(b, "  VMMC   not loaded: the card maps\n")
		return
	}
	n := &s.Stats
	fmt.Fprintf(b, "  VMMC   of %v, %d nodes, pages that others may write %d; buffers in use %d; for the driver %d, from it %d\n",
		s.MAC, s.Nodes, s.Frames, s.Buffers, s.ToDriver, s.ToSend)
	fmt.Fprintf(b, "         out %d packets, %d bytes; in %d packets, %d bytes in %d chunks; sent again %d\n",
		n.PacketsOut, n.BytesOut, n.PacketsIn, n.BytesIn, n.Chunks, s.Sent.Again)
	fmt.Fprintf(b, "         TLB misses %d, refills %d; lines cut %d\n", n.Misses, n.Refills, n.LinesCut)
	fmt.Fprintf(b, "         requests refused: too long %d, not imported %d, other memory %d; queues without a request %d\n",
		n.BadRequests, n.BadProxies, n.BadAddresses, n.BadQueues)
	fmt.Fprintf(b, "         dropped: strange %d, stale %d, too soon %d, no route %d, no room for an answer %d, refused %d; tables that did not fit %d\n",
		n.Strange, n.Stale, n.TooSoon, n.NoRoute, n.Unanswered, n.Refused, n.RouteErrors)
	s.writeProcesses(b)
}

func (s *Snapshot) writeProcesses(b *bytes.Buffer) {
	for i := range s.Processes {
		p := &s.Processes[i]
		fmt.Fprintf(b, "         process %d at port %d: pinned %d pages, proxy pages %d, requests that wait %d", p.Process, p.Port, p.Pinned, p.Proxies, p.Waiting)
		if p.Missing {
			fmt.Fprint(b, ", lacks a translation")
		}
		b.WriteByte('\n')
	}
}
