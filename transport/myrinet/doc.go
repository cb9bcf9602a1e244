// Package myrinet is a Myrinet in software: crossbar switches, full-duplex cables, cards with
// memory and a processor, and a mapper that discovers the topology. It moves packets,
// unreliably, and knows nothing of endpoints.
//
// Programs use a card through endpoint/lanai or vmmc/lanai, or as vipl's driver "myrinet".
// The commands bobnet card, switch and map run and inspect a live fabric. This package is for
// programs that build a fabric themselves: Fabric in virtual time, LiveSwitch and End over
// any transport.Link, and Card.
//
// Times are nanoseconds, of the World or of the link. Lengths are bytes. The package starts
// no goroutines. A Fabric and its parts belong to the goroutine that drives its World. The
// caller of an End or a live Card must hold the lock of its link. A LiveSwitch may be shared,
// and one goroutine for each port drives it. Equal seeds give equal runs.
//
// The papers are Chun, Mainwaring, Culler, "Virtual Network Transport Protocols for Myrinet"
// (1997), here VNT, and Dubnicki et al., "Design and Implementation of Virtual
// Memory-Mapped Communication on Myrinet" (1997), here VMMC.
//
// # Packets
//
// A packet is a source route, a type, a payload and a CRC-8 (AppendPacket). Each byte of
// the route is a turn: a switch removes it, and forwards the packet to the port at that
// distance from the port of arrival; 0 leads back. A switch therefore needs no address and no
// table, and a probe learns only the distances between its ports. The switch
// updates the CRC-8 so that an error stays an error; the receiving card checks it.
//
// # The fabric (VNT, 3.4)
//
// A switch is a crossbar of 8 ports; a link carries 160 MB/s in each direction. Packets cut
// through: the head continues as soon as its output is free, while the tail still arrives. An
// output serves waiting packets round-robin. Links have backpressure: a blocked packet
// stops and blocks those behind it, and normal operation loses nothing. A packet that is
// blocked for longer than a timeout is broken: the switch frees its links, drops what follows
// the buffer that holds its head, and delivers the rest truncated. Links and switches can fail
// and return, and bits can flip. Losses are counted by cause, at the port (PortStats).
//
// Without contention, a packet of z bytes after its route passes n switches in
//
//	(n+1)*Cable + n*CutThrough + z/Bandwidth
//
// from the departure of its head to the arrival of its tail. z counts 2 bytes of type, the
// payload, and the CRC-8.
package myrinet

// Notes for maintainers, which go doc does not print.
//
// # Two carriers
//
// What decides is one code, which knows neither time nor how bytes move: the crossbar
// (which input's packet leaves by which output, who is next), the turns and how they are
// stripped off, the counters, the packets' bytes. A carrier moves them, and tells it
// three things: the head of a packet stands at an input (crossbar.turn, crossbar.ask);
// the tail has passed an output (crossbar.release, which names the next input to serve);
// a wait is given up (crossbar.cancel).
//
// The virtual carrier is Fabric. Head and tail are events of a World (sim.World is one);
// switches and cards are no processes, so that a fabric of a hundred hosts costs what its
// packets cost: two events for each link that a packet passes, and no allocation,
// whatever its length. A buffer ahead that is free is what lets bytes come.
//
// The live carrier is LiveSwitch and End, over any transport.Link: a link is one end of a
// cable, and what its segment joins to it is the other one. Head and tail are frames: the
// one with offset 0 is the head, the one that ends with the packet's length is the tail.
// A frame that has come goes on at once, one byte earlier in its
// packet. Each frame tells up to which number the other end may send, so that the credit
// that is left takes the place of the free buffer; a FabricBreak ends a packet that was
// broken. A packet that fits the MTU is one frame a link, and so is a longer one, up to
// 32 KiB, where both links carry long frames (transport.LongLink): the ends try
// whether these arrive, by greetings of that length.
//
// The ends of a live cable find each other without being told: there must be two on a
// segment. A third one is counted (CableStats.Strangers) and gets no answer while the
// other two hear each other. One that takes the address of an end can do what a cable can
// that somebody holds in his hands: packets are lost, or come that nobody sent; what it
// can not is end a session whose frames it does not hear, or have memory grow.
//
// Nothing is lost as long as the links below lose nothing. Frames that they copy or
// reorder are put right; a frame that they lose costs its packet, and the credit for it
// comes back with the next greeting.
//
// # Cards (VMMC, 3; VNT, 3.4)
//
// A Card is the hardware of a network interface. Its SRAM, 256 KiB, holds all that its
// control program needs, and is given out by an allocator that refuses what there is not.
// One engine moves bytes between the host's memory and SRAM (Card.DMA), one sends packets
// out of SRAM (Card.Send), one puts those that come into buffers there (Card.Post,
// Card.Receive); they work side by side. The processor of the card cannot reach the
// host's memory otherwise. A process of the host has a Page of SRAM, which it reads and
// writes by programmed I/O and whose doorbell it rings; it sees no other, so that what it
// scribbles harms itself only. The card calls the host by an interrupt.
//
// A Program is a step function: it never waits, and is called when something has happened
// or the time has come that it named. In virtual time, events of the World call it. Live,
// whoever polls or waits on the link that the card carries calls Card.Poll.
//
// A Timing says what cycles of the processor, transfers, programmed I/O and interrupts
// take in virtual time; a live card has none, because its time passes by itself. The
// host's own time, for programmed I/O, is summed up (Card.TakeDebt): who drives the host
// pays it by sleeping, when it holds no lock.
//
// # Who may call what
//
// There are no goroutines here. A Fabric and all that belongs to it is for whoever drives
// its World, an End and a live Card for whoever holds the lock of the card's link. A
// LiveSwitch may be shared, and is driven by a goroutine for each port. Times are
// nanoseconds, of the World or of the link; lengths are bytes; seeds are arguments, and a
// run with the same seed is the same.
