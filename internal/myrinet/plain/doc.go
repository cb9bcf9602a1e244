// Package plain makes a transport.Link of a Myrinet card. It consists of a control program that
// moves Ethernet frames between the host and the fabric, along source routes from a table, and of
// the host's side. It adds no guarantees to those of the fabric. So everything that runs over an
// Ethernet interface runs over it unchanged.
//
// # On the card
//
// SRAM holds the table of routes, buffers for outgoing packets, and in the remaining space up to 64
// buffers for incoming packets. A packet is a route, the type TypeFrame, and the frame with its
// Ethernet header. The program looks up the frame's destination address in the table. A frame to a
// group address is sent along each route of the table, one packet at a time. An entry for the
// broadcast address is the route of frames to groups and to stations that are not in the table. The
// table of a direct cable has only that entry, with a route of no turns.
//
// Routes come from Config.Routes and Link.SetRoutes, or from the host's mapper (package mapper,
// Config.Mapper), whose packets share the card with the frames. Until the mapper has provided
// routes, the table is that of a direct cable. Live, the mapper is the default.
//
// The program works in the steps of VMMC, section 4.5: it copies the frame from the host by DMA,
// prepends a route and sends the packet. Meanwhile the DMA of the next frame runs, and packets
// arrive. Each outgoing or incoming packet costs 41 processor cycles; VMMC, 5.2, gives 2.5 us for
// both at 33 MHz.
//
// The program filters incoming frames as an Ethernet interface and the kernel do: by address,
// EtherType, version and port. If the host's receive ring is full, the card drops frames and counts
// them (transport.Stats.RxDrops). So a host that does not poll blocks neither other hosts' packets
// nor the mapper's in the fabric.
//
// # Between card and host
//
// Frames pass through two rings in the host's memory, and counters through the doorbell page. The
// host writes the number of frames that it has put into the send ring and rings the doorbell; and
// it writes the number of frames that it has taken from the receive ring. The card trusts neither:
// it counts impossible values (Snapshot.BadDoorbells), and they harm only that host's own frames.
//
// # Who drives it
//
// In virtual time, events of the world drive the card, and methods of the Link only write and ring.
// The host pays for its programmed I/O in Wait, which holds no lock. Live, the methods Send, Recv
// and Wait of the Link drive cable and card. If Send has accepted more frames than the other end
// has room for, these leave during later calls. So some goroutine must poll or wait, as the engine
// of a NIC does.
//
// A live card owns a network interface, which is one end of a cable (Open). The other end is
// another card, or a port of a switch. Until the two have found each other, frames wait in the send
// ring. A frame is one packet, and one frame on the cable. Open chooses the MTU: by default that of
// the interface less Overhead, or 30 KiB if the interface may carry long frames
// (transport.LongLink), as the end of a veth pair does.
//
// Live, each side copies a frame twice. The sender's DMA gathers it from the memory of Send's
// caller, and the cable sends a long packet from SRAM. The receiver's cable puts a packet into
// SRAM, and DMA copies the frame to the receive ring.
package plain
