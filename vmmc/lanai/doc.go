// Package lanai runs VMMC in the control program of an emulated Myrinet card. It follows Dubnicki
// et al., "Design and Implementation of Virtual Memory-Mapped Communication on Myrinet", 1997,
// section 4. Package transport/myrinet emulates the card. A Card contains the control program, and
// the driver and the daemon of its node. Processes of package vmmc share it:
//
//	card, err := lanai.Open(ctx, &lanai.Config{Interface: "eth1"})
//	p, err := vmmc.Open(ctx, &vmmc.Config{Card: card, Process: 1})
//
// On a live cable (Config.Interface) the interface is one end of a cable. The other end is another
// card or a bobnet switch. NewVirtual creates a card in virtual time, with the costs of the paper's
// hardware (Config.Costs). Programs use the processes as they do over a NIC. Processes find each
// other through their cards. The drivers of the cards do the work of a daemon: they match imports
// with exports, prove users, and report processes that have ended.
//
// # Several programs on one card
//
// If another process serves the card (bobnet card --program vmmc, or Card.Serve), Open uses that
// card together with programs of other processes. The serving process can also permit other users.
// Each program maps its own send queue, page table and memory, and nothing of the others. Such
// programs can export only memory of vmmc.Process.AllocMem, because the serving process writes to
// it.
//
// The kernel reports the user of each program to the card. A policy by user (vmmc.Policy) refuses
// programs of other users, as far as you trust the importer's node. A user other than root and the
// card's own may have a quarter of the card's processes, and a quarter of the memory that programs
// share with the card.
//
// When a program ends, also by kill -9, the card frees its resources and notifies its peers. When
// the serving process ends, all waits of its programs return an error that wraps transport.ErrGone.
// The programs can then open the card again.
//
// The card retransmits lost and damaged packets, and a send completes when its data is in the
// exporter's memory. With Config.Drop the card only counts such packets, as in the paper, and a
// send completes when its data is in the card. If a node does not answer for Config.PeerTimeout, or
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
// of 140 bytes; its outgoing page table, 2,048 entries of 32 bits, each a node and a
// physical page there; and its software TLB, two-way set associative, 2,048 entries from
// virtual to pinned pages. For all of them it holds the table of nodes with routes, the
// incoming page table, a byte for each physical page, the tables of the channels, and
// buffers for 8 packets that leave and up to 16 that come.
//
// The program looks at the queues in turn. A short request has its data, up to 128 bytes,
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
// # Programs of other processes
//
// Card.Serve lets programs of other processes of the operating system use the card. Its process has the
// cable, the control program, the driver and the daemon's part. Each program (far.go) has a connection
// with it (share.Desk, share.Line), and each VMMC process of the program shares a page with the card
// (page.go). The program runs its own half: connections, questions, grants, regions, notes and the choice of
// proxy pages are the code of a process on a card of its own. The other half (serve.go) is a guest, which has
// the process's seat on the card.
//
//   - The send queue lies in the page. The card copies a request before it judges it. A process rings by a
//     bell (shared.Bell); what became of a request the card writes into the page, and rings.
//   - The outgoing page table lies in the page, too, and the process writes it: an entry says where a proxy
//     page leads, not that the process may write there. The exporter's card decides that: each frame has
//     one importer, named by node and port, and the port is what the sending card says.
//   - In the page the process also says which line to each node it knows. A request for a line that has
//     ended fails, until the process has ended what hung on it: else a write could land though those
//     before it are lost.
//   - The card makes the memory that a process exports and sends from (AllocMem), and gives it virtual
//     addresses, so that there is nothing to judge about them. Other data is copied to the request's place in
//     the page. Imports and exports need no trust in the process: the card writes only to memory that it has
//     made.
//   - A guest has a run of frame numbers for itself. Its process chooses among them. It says which memory a
//     number stands for, and for whom (grant); it waits for the answer when it takes memory back (shut).
//     The run is given out again when all importers have said that nothing more comes, or their lines
//     have ended: a process cannot have another one's importer write by a number of its own.
//   - Messages to other processes leave with the name that the card knows the process by. The card looks at
//     their first byte, to know with whom the process has to do: when the process ends without a word,
//     the card says it. It reads no more of a program whose messages wait.
//   - The card counts the messages and notifications that it has passed to a process, until the process's program
//     reports that the process has handled them (told.go). Each sender, and each station, may use only a part of the limit.
//     A sender that floods a process therefore cuts off only itself. The card drops and counts the sender's
//     messages, and notifies both processes that the other one is gone. The sender can connect again. The card
//     disconnects a program only if the program does not read the answers to its own requests.
//
// The card's process waits for no program. What a program may have is bounded by process, program and user
// (serve.go). Memory that is given back is retired first (shared.Memory): the mapping stays, and holds 0.
