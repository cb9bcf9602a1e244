// Package hardware is what the emulated Myrinet has besides the virtual fabric of
// transport/myrinet: cards with memory and a processor, live cables and switches over any
// transport.Link, and packets as bytes.
//
// # Two carriers
//
// What decides is one code, which knows neither time nor how bytes move: the crossbar
// (which input's packet leaves by which output, who is next), the turns and how they are
// stripped off, the counters, the packets' bytes. A carrier moves them, and tells it
// three things: the head of a packet stands at an input (Crossbar.Turn, Crossbar.Ask);
// the tail has passed an output (Crossbar.Release, which names the next input to serve);
// a wait is given up (Crossbar.Cancel).
//
// The virtual carrier is myrinet.Fabric. Head and tail are events of a World (sim.World is one);
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
// A myrinet.Timing says what cycles of the processor, transfers, programmed I/O and interrupts
// take in virtual time; a live card has none, because its time passes by itself. The
// host's own time, for programmed I/O, is summed up (Card.TakeDebt): who drives the host
// pays it by sleeping, when it holds no lock.
//
// # Who may call what
//
// There are no goroutines here. The caller of an End or of a live Card must hold the lock of the card's link. A
// LiveSwitch may be shared, and is driven by a goroutine for each port. Times are
// nanoseconds, of the World or of the link; lengths are bytes; seeds are arguments, and a
// run with the same seed is the same.
package hardware
