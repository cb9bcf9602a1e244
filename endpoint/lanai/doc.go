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
// An endpoint is a page with four queues (frame.go). While it is resident the page is one
// of the card's frames, which its program reads and writes by programmed I/O, and from
// which the control program sends and into which it receives. There are 8 frames; one is
// the driver's. While it is away the page is in the host's memory. It is wanted in a
// frame when its program has a message to write, and when a message comes for it, which
// gets a NACK meanwhile; so is, for its staging area, one whose area is not pinned. The
// driver decides who leaves (driver.go), and the control program moves pages when what an
// endpoint has under way is done (residency.go).
//
// A message of up to 64 bytes lies in its entry: a connection's number, header, tags and
// 8 words. A longer one lies in the entry's part of the staging area, which is the host's memory: the
// sender copies it there, the card moves it by DMA, and the receiver's handler gets it
// where the card has put it. Bulk data go as such messages of 8 KB, which the receiver
// copies to where they belong.
//
// # Between cards
//
// Each message travels on a channel of package reliability, of which there are a few
// between two cards: stop and wait, an alternating bit, one scan that has things sent
// again. An ACK means that the message has been written into its endpoint. One that
// nobody answers, that the other card refuses for good (another tag, no such endpoint), or
// to whose card there is no route, comes back to its sender by its reply queue.
// The private header (packet.go) is the card's alone: it says who has sent what to whom,
// whatever the program has written into its page.
//
// The frames take turns to send: an endpoint has 256 attempts when it is its turn, and the
// card loiters for the rest of them when it has nothing more to send. An attempt in vain takes
// time if Costs.Loiter says how much. Live it takes none: the host's processor is the card's, so
// that nothing new can be posted while the card loiters, and others would wait for nothing.
//
// # Connections
//
// Endpoints have connections (package provider), of which the card knows nothing: they are
// numbers that messages begin with. Drivers make and end them, and tell each other that
// programs have ended, by messages between their privileged endpoints (control.go), which
// are reliable as all are, but come back while there is no route. So drivers ask now and then
// whether the other side has the connections, too. For names they ask all cards that they have routes to.
//
// # Programs of other processes
//
// Card.Serve lets programs of other processes use the card. The process that calls it has the cable, the
// control program and the driver. Each other process (far.go) has a connection with it (share.Desk,
// share.Line; served by tenant, serve.go), and maps a page with two bells (shared.Bell), by which it says
// which endpoints it has written to, and is told which have news; and of each of its endpoints the page
// and the staging areas. It maps nothing else. It runs its own half of the driver on this memory (posting.go)
// and its own connections; what it says to other drivers the card's driver sends for it, with the
// station, port and life that it knows the program by.
//
// A mapping cannot be taken back from another process. So the page of such an endpoint stays where it
// is, and a frame stands for the right to be served: faults, loading, draining and the choice of who
// leaves are as for all endpoints. The control program reads an entry's head once and judges that copy; an
// entry names no memory, and a page says nothing of others. Words that both sides use are atomic. What a
// program of the same process waits for under the engine's lock, a program of another one says in two
// words more of its page (wants, starved), each side writing its own before it reads the other's.
//
// When the connection of a process ends, the driver forgets its programs and endpoints. What they have
// posted goes out while their frames are drained; the memory is kept until then. Other drivers that ask for
// the programs hear that they are dead. What other drivers have said to a program, and the program has not handled,
// is counted by program and by station (package untaken, seat.go), so that one that floods a program cuts off only
// itself. So are the driver's own answers, by station. When the process that has the card ends, the others' waits end with
// an error that wraps transport.ErrGone; they open the card again.
//
// Messages to the card's own station do not pass the wire (myrinet.Card.Loop).
//
// # Who runs what
//
// In virtual time events of the world run the control program; interrupts run the driver;
// the goroutines of a node run the rest. What the host spends on access to the card it
// pays when it waits, and what it writes is seen by the card when that time has come.
//
// Live, a progress.Engine drives the cable, the card and the driver: whoever waits, or, while nobody does,
// a goroutine of its own. The engine's lock is around all of the card's and the driver's
// state, and is taken after the node's.
