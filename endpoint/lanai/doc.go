// Package lanai runs active messages (AM-II) on an emulated LANai card, which holds the
// endpoints (endpoint.Config.Card). The paper is Chun, Mainwaring, Culler, "Virtual Network
// Transport Protocols for Myrinet" (1997), here VNT.
//
//	card, err := lanai.Open(ctx, &lanai.Config{Interface: "eth0"})
//	node, err := endpoint.Open(ctx, &endpoint.Config{Card: card})
//
// The card takes the place of the NIC; endpoints work as usual. On a live cable (Config.Interface) the
// interface is one end of a cable. The other end is another card or a bobnet switch. If a process
// already serves the card (bobnet card --program am2, or Card.Serve), Open uses that card together with
// programs of other processes. It can be shared with other users if the serving process permits them.
// NewVirtual creates a card in virtual time, with the costs of the paper's hardware.
//
// A card holds 7 endpoints and the driver's own at a time (Config.Frames). The driver moves endpoints
// between the card and the host's memory. The caller closes the card after its nodes.
//
// # GAM
//
// Config.Unreliable, Unprotected and Pipelined together configure the paper's baseline: a control
// program without channels and tags, which trusts the network and its peers.
package lanai

// Notes for maintainers, which go doc does not print.
//
// # Endpoint frames
//
// An endpoint is a page with four queues (frame.go). A resident endpoint's page is one of the card's 8 frames, of which
// the driver uses one. Its program accesses the frame by programmed I/O. The control program sends from the frame and
// receives into it. The page of an endpoint that is not resident is in the host's memory.
//
// An endpoint must be loaded into a frame when its program has a message to write, or when a message for it arrives,
// which gets a NACK meanwhile. If the card needs a staging area that is not pinned, it requests that, too. The driver
// decides which endpoint leaves its frame (driver.go). The control program moves the pages once the endpoint has no
// message in flight (residency.go).
//
// The entry of a queue holds a message of up to 64 bytes: the number of a connection, a header, tags and 8 words. A
// longer message is in the entry's part of the staging area, which is host memory. The sender copies the message there,
// the card moves it by DMA, and the receiver's handler reads it where the card has stored it. Bulk data are sent as
// such messages of 8 KB, and the receiver copies them to their destination.
//
// # Between cards
//
// Each message travels on a channel of package channels. A few channels connect two cards. A channel uses stop-and-wait
// with an alternating bit, and one scan finds the messages to retransmit. An ACK means that the message has been
// written to its endpoint. A message returns to its sender through the sender's reply queue in three cases: the other
// card does not answer, the other card refuses the message permanently (another tag, no such endpoint), or there is no
// route to the other card. Only the card writes the private header (packet.go). The header identifies sender and
// receiver, whatever the program has written to its page.
//
// The frames take turns to send. In its turn, an endpoint has 256 attempts. If it has nothing more to send, the card
// loiters for the remaining attempts. A futile attempt takes the time Costs.Loiter. On a live card it takes no time:
// the host's processor is also the card's, so nothing new could be posted while the card loiters, and other endpoints
// would wait in vain.
//
// # Connections
//
// Endpoints have connections (package provider), which the card does not know: a connection is the number that begins a
// message. Drivers create and end connections, and report programs that have ended, by messages between their
// privileged endpoints (control.go). These messages are as reliable as all others, but return while there is no route.
// Drivers therefore also ask from time to time whether the other side has the same connections. To look up a name, a
// driver asks all cards that it has a route to.
//
// # Programs of other processes
//
// Card.Serve lets programs of other processes use the card. The process that calls it has the cable, the control
// program and the driver. Each other process (far.go) has a connection to that process (share.Desk, share.Line; tenant
// in serve.go serves it). It maps the following memory, and nothing else:
//
//   - a page with two bells (shared.Bell): the process rings one for the endpoints that it has written to, and the card
//     rings the other one for endpoints with news
//   - for each of its endpoints, the page and the staging areas
//
// The process runs its own half of the driver on this memory (posting.go), and its own connections. The card's driver
// sends the process's messages to other drivers, and adds the station, port and life of the program itself.
//
// A mapping cannot be revoked from another process. The page of such an endpoint therefore never moves, and a frame is
// only the right to be served. Faults, loading, draining and the choice of the endpoint to unload work as for all other
// endpoints. The control program reads an entry's head once and checks that copy. An entry contains no memory address,
// and a page contains nothing about other programs. Words that both sides use are atomic. A program of the card's own
// process waits for events under the engine's lock. A program of another process requests them in two additional words
// of its page (wants, starved). Each side writes its own word before it reads the other's.
//
// When the connection of a process ends, the driver removes the process's programs and endpoints. Messages that they
// have posted are sent while their frames are drained, and the memory is kept until then. Other drivers that ask for
// the programs learn that they are dead. Package untaken counts the messages from other drivers that a program has not
// handled, by program and by station (seat.go). A station that floods a program therefore only cuts itself off. The
// driver's own answers are counted by station for the same reason. When the process that has the card ends, the waits
// of the other processes end with an error that wraps transport.ErrGone. They can then open the card again.
//
// Messages to the card's own station do not use the wire (myrinet.Card.Loop).
//
// # Who runs what
//
// In virtual time, events of the world run the control program, interrupts run the driver, and the goroutines of a node
// run everything else. The host pays for its accesses to the card when it waits. The card sees what the host writes
// once the time of these accesses has passed.
//
// On a live card, a progress.Engine drives the cable, the card and the driver. It runs on a goroutine that waits, or on
// its own goroutine if none waits. The engine's lock guards all state of the card and the driver. It is acquired after
// the node's lock.
