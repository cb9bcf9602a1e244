// Package myrinet is a Myrinet in software: anonymous crossbar switches, full-duplex
// cables, cards with memory and a processor of their own, and a mapper that finds out
// what is plugged in where. It moves packets, unreliably, and knows no endpoint. The
// papers are Chun, Mainwaring, Culler, "Virtual Network Transport Protocols for Myrinet"
// (1997), here VNT, and Dubnicki et al., "Design and Implementation of Virtual
// Memory-Mapped Communication on Myrinet" (1997), here VMMC.
//
// # Packets
//
// A packet is a source route, a type, a payload and a CRC-8 (package ethertype has the
// octets). Each octet of the route is a turn: a switch takes it off, and the packet leaves
// by the port that lies so many beyond the one by which it came; 0 leads back. So a
// switch needs no address and no table, and who looks at it from outside never learns
// the numbers of its ports, only how far they lie apart. It puts the CRC-8 right for
// what is left, in a way that keeps an error one; the card that gets the packet judges.
//
// # The fabric (VNT, 3.4)
//
// A switch is a crossbar of 8 ports, a link carries 160 MB/s each way. Packets cut
// through: the head goes on as soon as its output is free, while the tail still comes.
// An output serves those that wait for it round robin. Links push back: what is blocked
// stops where it stands and blocks what follows, and nothing is lost in normal work. A
// packet that is blocked for longer than a time-out is broken: what lies behind the
// buffer that its head is in is thrown away, the links are free, and the rest arrives
// truncated. Links and switches fail and return; bits flip. What is lost is counted
// under a name, at the port where it was (PortStats).
//
// Without others in the way, a packet of z octets behind its route passes n switches in
//
//	(n+1)*Cable + n*CutThrough + z/Bandwidth
//
// from the departure of its head to the arrival of its tail: 2 octets of type, the
// payload, and the CRC-8 count; the octets of the route are gone before they are seen.
//
// # Two carriers
//
// What decides is one code, which knows neither time nor how octets move: the crossbar
// (which input's packet leaves by which output, who is next), the turns and how they are
// stripped off, the counters, the packets' octets. A carrier moves them, and tells it
// three things: the head of a packet stands at an input (crossbar.turn, crossbar.ask);
// the tail has passed an output (crossbar.release, which names the next input to serve);
// a wait is given up (crossbar.cancel).
//
// The virtual carrier is Fabric. Head and tail are events of a World (sim.World is one);
// switches and cards are no processes, so that a fabric of a hundred hosts costs what its
// packets cost: two events for each link that a packet passes, and no allocation,
// whatever its length. A buffer ahead that is free is what lets octets come.
//
// The live carrier is LiveSwitch and End, over any transport.Link: a link is one end of a
// cable, and what its segment joins to it is the other one. Head and tail are frames: the
// one with offset 0 is the head, the one that ends with the packet's length is the tail.
// A frame that has come goes on at once, one octet earlier in its
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
// One engine moves octets between the host's memory and SRAM (Card.DMA), one sends packets
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
// nanoseconds, of the World or of the link; lengths are octets; seeds are arguments, and a
// run with the same seed is the same.
package myrinet
