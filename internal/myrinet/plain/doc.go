// Package plain makes a transport.Link of a Myrinet card: a control program that moves
// Ethernet frames between the host and the fabric, over source routes that a table gives,
// and the host's side of it. It adds nothing to what the fabric promises, so that all that
// runs over an Ethernet interface runs over it unchanged.
//
// # On the card
//
// SRAM holds the table of routes, buffers for packets that go out, and buffers for those
// that come in: what is left, 64 at most. A packet is a route, the type TypeFrame, and the
// frame with its Ethernet header. The frame's destination address is looked up in the
// table; one to a group is sent along each route of it, one packet at a time. An entry
// for the broadcast address is the way of frames to groups and to stations that the table
// does not have: a direct cable is that entry alone, with a route of no turns.
//
// Where routes come from: Config.Routes and Link.SetRoutes, or the host's mapper (package
// mapper, Config.Mapper), whose packets share the card with the frames. Until it knows a
// route the table is that of a direct cable. Live the mapper is the default.
//
// The program works in the steps of VMMC, section 4.5: it takes the frame from the host by
// DMA, puts a route before it and has it sent, while the next frame comes by DMA and
// others are received. Each packet out or in costs 41 cycles of the processor; VMMC, 5.2,
// gives 2.5 us for both at 33 MHz.
//
// What comes is filtered as an Ethernet interface and the kernel filter it: by address,
// EtherType, version and port. When the host's receive ring is full the card drops frames and
// counts them (transport.Stats.RxDrops), so that a host that does not look keeps no packets of
// others, and none of the mapper's, in the fabric.
//
// # Between card and host
//
// Frames pass through two rings in the host's memory, and numbers through the doorbell page:
// the host writes how many frames it has put into the send ring, and rings; and how many
// it has taken out of the receive ring. The card believes neither: a number that cannot be
// is counted (Snapshot.BadDoorbells), and harms that host's own frames only.
//
// # Who drives it
//
// In virtual time events of the world do, and calls of the Link only write and ring. What
// the host has spent on programmed I/O is paid in Wait, which holds no lock. Live, Send,
// Recv and Wait of the Link drive cable and card: frames that Send has taken, beyond those
// that the other end has room for, leave when one of them is called again. So a station
// needs somebody who polls or waits, as the engine of a NIC does.
//
// A live card has a network interface for itself, which is one end of a cable (Open): what
// is at the other end is another card, or a port of a switch. Until the two have found each
// other frames wait in the send ring. A frame is one packet, and one frame of the cable,
// with the MTU that Open chooses: Overhead less than the interface's; or 30 KiB, if the
// interface may carry long frames (transport.LongLink), as the end of a veth pair does.
//
// Live each side copies a frame twice. The sender's DMA gathers it from where the caller of
// Send has it, and the cable takes a long packet from SRAM. The receiver's cable puts a
// packet into SRAM, and DMA moves the frame to the receive ring.
package plain
