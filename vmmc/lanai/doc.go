// Package lanai runs VMMC in the control program of an emulated Myrinet card, as in Dubnicki
// et al., "Design and Implementation of Virtual Memory-Mapped Communication on Myrinet",
// 1997, section 4 (package transport/myrinet has the card). A Card has the control program,
// and the driver and the daemon of its node. Processes of package vmmc share it:
//
//	card, err := lanai.Open(ctx, &lanai.Config{Interface: "eth1"})
//	p, err := vmmc.Open(ctx, &vmmc.Config{Card: card, Process: 1})
//
// On a live cable (Config.Interface) the interface is one end of a cable, whose other end is
// another card or a bobnet switch. NewVirtual creates a card in virtual time, with the costs
// of the paper's hardware (Config.Costs). Programs use the processes as over a NIC. Processes
// find each other through their cards, without a daemon, and users are not authenticated.
//
// Lost and damaged packets are sent again, and a send ends when its data is in the
// exporter's memory. With Config.Drop they are only counted, as in the paper, and a send ends
// when its data is in the card. If a node does not answer for Config.PeerTimeout or
// restarts, all imports from it end.
//
// The card refuses and counts requests for memory that the process may not use. Cards and
// drivers trust each other: Myrinet has no authentication.
package lanai

// Notes for maintainers, which go doc does not print.
//
// # On the card
//
// SRAM holds, for each process, its send queue, which is its doorbell page: 29 requests
// of 140 octets; its outgoing page table, 2,048 entries of 32 bits, each a node and a
// physical page there; and its software TLB, two-way set associative, 2,048 entries from
// virtual to pinned pages. For all of them it holds the table of nodes with routes, the
// incoming page table, an octet for each physical page, the tables of the channels, and
// buffers for 8 packets that leave and up to 16 that come.
//
// The program looks at the queues in turn. A short request has its data, up to 128 octets,
// in its slot, where programmed I/O has put it. A long one, up to 8 MB, has the virtual
// address. It leaves in chunks: the first to the end of its first page on this side, the
// others a page. Its translations come from the TLB; when one is missing, an interrupt has
// the driver pin up to 32 pages and write their translations. A chunk's header has its
// length and two physical addresses, because at the other side it may cross the end of a
// page. Host DMA and network DMA work side by side, and the next header is made meanwhile.
// While nothing else happens the program goes on with the next chunk at once, the tight
// loop; when a packet comes it looks at everything again (Costs.Leave). When a request has
// ended, one word in the process's memory says so, by DMA. While no route leads to its node a
// request waits, and takes no buffer: the route comes back, or the line ends.
//
// What comes is stored by DMA where its addresses say, if the incoming page table allows
// it. A notification, and a message for the driver, raise an interrupt.
//
// # What is lost
//
// A packet that arrives with a CRC error is dropped and counted. With Config.Drop that is
// all, as in the paper, and a send ends when its last data is in SRAM; the exporter's room for
// notifications that were lost is given back (notes.go). Otherwise packets
// go by stop-and-wait channels (package reliability), four from a card to another one, so
// that what is lost comes again; a place in an order, which all packets between two cards
// have, keeps the writes of all processes in the order of their sends (line.go). A send
// then ends when its data is in the exporter's memory. The driver's messages always go by
// channels. When a node does not answer for Config.PeerTimeout, or was started again, all
// that hung on the line ends: pages imported from there lead nowhere from that moment.
//
// # On the host
//
// The driver pins pages and knows where they are (memory.go). The daemon's part, names and
// the agreement about exports and imports, goes by messages between hosts; the paper has
// Ethernet for that. Physical pages have numbers that the driver gives out: a page that
// two importers may write has two, so that it can be taken from one of them. A number is
// given out again only when its importer has said that nothing more comes, or its line has
// ended.
//
// The mapping program is loaded first (mapping.go), then this one, with the routes that
// it has found, and the processes' tables. Beside its work it goes on mapping, so that
// nodes may come later. Config.Routes does without.
//
// # Who does what
//
// A process names proxy pages, in requests in its own page, and virtual addresses. The card
// refuses, and counts, what is not in its table, and memory that is not the process's; a
// page full of nonsense is that process's own affair. A write to a page that its exporter
// has taken back is refused at the other side, and ends the connection of the two
// processes. Cards and drivers believe each other: Myrinet has no secrets.
//
// In virtual time events of the world drive the card, and the driver's handlers are events
// of their own. What the host has spent on programmed I/O is paid by waits and polls. Live,
// whoever drives the host's engine (package progress) drives cable and card: the goroutines
// that poll or wait, and the engine's service when none does. Either way the engine's lock
// guards card, program and driver; a process's own lock guards its connections, and is
// taken before.
//
// # One process
//
// A card belongs to one process, as many VMMC processes (vmmc.Process) as it may have. AM-II's cards serve
// several (endpoint/lanai, "Programs of other processes"). What a VMMC card would need for that: the same desk
// and bells; the doorbell page and the send queue of a process in memory that it shares with the card's process,
// of which the card copies a request before it judges it; exported memory and what is sent from lying in such
// memory, too (AllocMem can make it), because the card reads and writes it without the process; page tables and the
// driver's names, grants and notes where the driver is. An export of other memory would be refused.
