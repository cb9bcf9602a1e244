// Package share has several programs use one card of a Myrinet: a process that has the card serves them,
// whatever control program the card runs. They come to its Desk, which judges them, counts them by user and
// says which control program that is (Dial). The rest of this comment is about package plain's: Open, or
// bobnet card, serves it (VNT, section 3.1: one card, many
// processes; VMMC, section 3). Attach is the program's side, a transport.Link.
//
// # Memory
//
// Between the card's process and each program lie two rings of frames, in a sealed memfd
// that they share and nobody else (package shm), so that no program can see or touch
// another's. It is handed over by a Unix socket, to programs of root and of the card's own
// user unless Config.AnyUser lets in all. A ring that says what cannot be is torn down: who
// scribbles loses its own link. The card copies a frame of another user's program before it looks at it, and sends a frame
// only if it comes from the card's address and a port of the program's.
//
// In a ring each frame has a header in front, HeaderSize bytes, whose ports say from which
// program it is and for which; the frame's own is what goes over the fabric.
//
// # Who waits for whom
//
// The card's process has two goroutines: one drives the card and hands out what has come,
// the other one takes what programs send. A program that does not look loses frames when its
// ring is full, and holds up nobody. When the fabric holds up the card, what programs send
// waits in their rings, and beyond that is dropped and counted (transport.Stats.TxDrops).
//
// # Ends
//
// A card of root's makes the sockets of its programs' ports, as files under /run/bobnet, and gives
// them to the programs: at most 16 blocks of ports to one user, but root and the card's own. On
// other cards programs make these sockets themselves, under abstract names, which anybody can take.
//
// A program that ends, however it ends, gives its rings and its ports back, because the
// kernel closes its sockets. When the card's process ends, Check of its programs' links says
// so, with an error that wraps transport.ErrLinkDown, until there is a card again: they then
// go on, as after a cable that was out.
package share
