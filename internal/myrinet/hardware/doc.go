// Package hardware implements the emulated Myrinet, except for the virtual fabric of
// transport/myrinet: cards with memory and a processor, live cables and switches over any
// transport.Link, and the encoding of packets.
//
// # Two carriers
//
// The logic is shared and knows neither time nor how bytes move: the crossbar (which input's packet
// leaves by which output, and which is next), the turns and how a switch strips them, the counters,
// the packets' bytes. A carrier moves the bytes, and calls the crossbar on three events: the head
// of a packet is at an input (Crossbar.Turn, Crossbar.Ask); the tail has passed an output
// (Crossbar.Release, which names the next input to serve); a wait is cancelled (Crossbar.Cancel).
//
// The virtual carrier is myrinet.Fabric. Head and tail are events of a World (sim.World is one).
// Switches and cards are not processes, so the cost of a fabric with a hundred hosts depends only
// on its packets: two events for each link that a packet passes, and no allocation, whatever its
// length. Bytes move when the next buffer is free.
//
// The live carrier is LiveSwitch and End, over any transport.Link. A link is one end of a cable;
// the other station on its segment is the other end. Head and tail are frames: the frame with
// offset 0 is the head, and the frame that completes the packet's length is the tail. A switch
// forwards a received frame at once, one byte earlier in its packet. Credit replaces the free
// buffer: each frame carries the number up to which the other end may send. A FabricBreak ends a
// packet that was broken off. A packet that fits the MTU needs one frame on each link. So does a
// longer packet of up to 32 KiB if both links carry long frames (transport.LongLink); the ends test
// this with greetings of that length.
//
// The ends of a live cable find each other without configuration. A segment must contain exactly
// two. Frames of a third one are counted (CableStats.Strangers) and not answered while the other
// two hear each other. A station that spoofs the address of an end has the power of somebody who
// holds the cable: it can lose or insert packets. It cannot end a session whose frames it does not
// receive, and cannot make memory grow.
//
// The cable loses nothing if the links below lose nothing. It discards duplicates and restores the
// order of frames. A lost frame costs its packet; the next greeting restores the credit.
//
// # Cards (VMMC, 3; VNT, 3.4)
//
// A Card is the hardware of a network interface. Its SRAM, 256 KiB, holds everything that its
// control program needs; an allocator refuses requests that do not fit. One engine copies between
// the host's memory and SRAM (Card.DMA), one sends packets from SRAM (Card.Send), one puts received
// packets into buffers there (Card.Post, Card.Receive). They work concurrently. The card's
// processor cannot reach the host's memory in any other way. A process of the host has a Page of
// SRAM, which it accesses by programmed I/O and whose doorbell it rings. It sees no other page, so
// a process that overwrites its page harms only itself. The card calls the host by an interrupt.
//
// A Program is a step function. It never waits; it is called after an event, or at the time that it
// has requested. In virtual time, events of the World call it. Live, the goroutine that polls or
// waits on the card's link calls Card.Poll.
//
// A myrinet.Timing defines the duration of processor cycles, transfers, programmed I/O and
// interrupts in virtual time. A live card has none: its time passes in reality. The host's own time
// for programmed I/O accumulates (Card.TakeDebt); whoever drives the host pays it by sleeping when
// it holds no lock.
//
// # Concurrency
//
// This package starts no goroutines. The caller of an End or of a live Card must hold the lock of
// the card's link. Goroutines may share a LiveSwitch; one goroutine for each port drives it. Times
// are nanoseconds of the World or of the link; lengths are bytes. Seeds are arguments, and runs
// with the same seed are identical.
package hardware
