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
// SRAM holds for each process its send queue, which is its doorbell page (29 requests of 140
// bytes); its outgoing page table (2,048 entries of 32 bits, each a node and a physical page
// there); and its software TLB (two-way set associative, 2,048 entries from virtual to pinned
// pages). For all processes together it holds the table of nodes with routes, the incoming page
// table (a byte for each physical page), the tables of the channels, and buffers for 8 outgoing and
// up to 16 incoming packets.
//
// The program polls the queues round-robin. A short request has its data, up to 128 bytes, in its
// slot, where programmed I/O has written it. A long request, up to 8 MB, has the virtual address of
// its data, which is sent in chunks: the first up to the end of its first page on the sending side,
// the others a page each. The TLB translates the addresses; if an entry is missing, an interrupt
// makes the driver pin up to 32 pages and write their translations. A chunk's header has its length
// and two physical addresses, because the chunk may cross the end of a page on the receiving side.
// Host DMA and network DMA overlap, and the program builds the next header meanwhile. As long as
// nothing else happens, the program continues with the next chunk at once: the tight loop. When a
// packet arrives, it polls everything again (Costs.Leave). When a request has ended, the card
// writes one word to the process's memory by DMA. A request without a route to its node waits
// without a buffer, until the route returns or the line ends.
//
// Incoming chunks are stored by DMA at the addresses in their headers, if the incoming page table
// permits. A notification, and a message for the driver, cause an interrupt.
//
// # Lost packets
//
// A packet with a CRC error is dropped and counted. With Config.Drop that is all, as in the paper:
// a send ends when its last data is in SRAM, and the exporter returns the credit for lost
// notifications (notes.go). Otherwise packets use stop-and-wait channels (package channels), four
// from each card to another, which retransmit lost packets. All packets between two cards have a
// position in one order, which keeps the writes of all processes in the order of their sends
// (line.go). A send then ends when its data is in the exporter's memory. The drivers' messages
// always use channels. If a node does not answer for Config.PeerTimeout, or has restarted,
// everything that depends on its line ends: proxy pages of imports from there become invalid at
// once.
//
// # On the host
//
// The driver pins pages and knows their locations (memory.go). The daemon's work (names, and
// matching of exports and imports) uses messages between hosts; the paper uses Ethernet for that.
// The driver assigns the numbers of physical pages: a page that two importers may write has two
// numbers, so that it can be revoked from one of them. A number is reused only when its importer
// has confirmed that it sends nothing more, or its line has ended.
//
// The mapping program is loaded first (mapping.go), then this one, with the routes found so far and
// the processes' tables. It continues to map, so that nodes can join later. With Config.Routes
// there is no mapping.
//
// # Trust
//
// A process names proxy pages, in requests in its own page, and virtual addresses. The card refuses
// and counts pages that are not in its table, and memory that does not belong to the process; a
// page with garbage affects only its process. The receiving card refuses a write to a page that its
// exporter has revoked, which ends the connection of the two processes. Cards and drivers trust
// each other: Myrinet has no secrets.
//
// In virtual time, events of the world drive the card, and the driver's handlers are separate
// events. Waits and polls pay for the host's programmed I/O. Live, whoever drives the host's engine
// (package progress) drives cable and card: goroutines that poll or wait, or the engine's service.
// In both cases the engine's lock guards card, program and driver. A process's own lock guards its
// connections, and is locked before the engine's.
//
// # Programs of other processes
//
// Card.Serve lets programs of other operating-system processes use the card. The serving process
// has the cable, the control program, the driver and the daemon's part. Each program (far.go) has a
// connection with it (share.Desk, share.Line), and each VMMC process of the program shares a page
// with the card (page.go). The program runs its own half: connections, requests, grants, regions,
// notifications and the choice of proxy pages are the same code as for a process on its own card.
// The other half (serve.go) is a guest, which occupies the process's seat on the card.
//
//  - The send queue is in the page. The card copies a request before it checks it. A process rings
//    by a bell (shared.Bell). The card writes the result of a request into the page, and rings.
//  - The outgoing page table is in the page too, and the process writes it. An entry says where a
//    proxy page leads, not that the process may write there. The exporter's card decides that:
//    each frame has one importer, identified by node and port, and the sending card supplies the
//    port.
//  - In the page the process also reports the newest line to each node that it knows. A request
//    for an older line fails until the process has ended everything that depended on it. Otherwise
//    a write could arrive although earlier ones were lost.
//  - The card allocates the memory that a process exports and sends from (AllocMem), and assigns
//    its virtual addresses, so these need no checks. Other data is copied to the request's place
//    in the page. Imports and exports need no trust in the process: the card writes only to memory
//    that it has allocated.
//  - A guest has its own run of frame numbers. Its process chooses among them, says which memory a
//    number stands for, and for whom (grant); it waits for the answer when it revokes memory
//    (shut). The run is reused when all importers have confirmed that they send nothing more, or
//    their lines have ended: a process cannot make another one's importer write to a number of its
//    own.
//  - Messages to other processes carry the name by which the card knows the sender. The card reads
//    their first byte to know the process's peers: if the process ends without a bye, the card
//    sends it. The card stops reading from a program whose messages wait.
//  - The card counts the messages and notifications that it has passed to a process, until the
//    process's program reports that the process has handled them (told.go). Each sender, and each
//    station, may use only a part of the limit, so a sender that floods a process cuts off only
//    itself. The card drops and counts the sender's messages, and notifies both processes that the
//    other one is gone. The sender can connect again. The card disconnects a program only if the
//    program does not read the answers to its own requests.
//
// The card's process waits for no program. The resources of a program are bounded by process,
// program and user (serve.go). Freed memory is retired first (shared.Memory): the mapping stays,
// and reads as zeros.
