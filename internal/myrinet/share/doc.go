// Package share lets several programs use one Myrinet card. A process that owns the card serves the
// programs, whatever control program the card runs. They connect to its Desk (Dial), which checks the
// user of each program, limits the number of programs per user, and reports which control program the
// card runs. The rest of this comment is about cards that run package plain. Open, or the command
// bobnet card, serves such a card (VNT, section 3.1: one card, many processes; VMMC, section 3). Attach
// is the program's side, a transport.Link.
//
// # Memory
//
// The card's process shares two rings of frames with each program, in a sealed memfd that no other
// process has (package shm), so no program can read or write another's. The card's process passes
// it over a Unix socket, to programs of root and of the card's own user, or of all users if
// Config.AnyUser is set. A ring with impossible values is torn down: a program that corrupts its
// ring loses only its own link. The card copies a frame of another user's program before it checks
// it. It sends a frame only if the frame has the card's address and one of the program's ports as
// source.
//
// In a ring each frame is preceded by a header of HeaderSize bytes, whose ports identify the
// sending and the receiving process. The frame itself is what crosses the fabric.
//
// # Flow control
//
// The card's process has two goroutines. One drives the card and distributes received frames; the
// other takes the programs' frames. A program that does not poll loses frames when its ring is
// full, and blocks no other. If the fabric blocks the card, the programs' frames wait in their
// rings; frames beyond that are dropped and counted (transport.Stats.TxDrops).
//
// # Life cycle
//
// If root serves the card, the card creates the sockets of the programs' ports, as files in
// /run/bobnet, and passes them to the programs. It gives at most 16 blocks of ports to one user,
// except root and the card's own. On other cards the programs create these sockets themselves,
// under abstract names, which any process can take.
//
// When a program ends in any way, its rings and ports become free, because the kernel closes its
// sockets. When the card's process ends, Check of the programs' links returns an error that wraps
// transport.ErrLinkDown, until a process serves the card again. The links then continue, as after a
// cable that was unplugged.
package share
