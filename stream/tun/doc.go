// Package tun joins hosts of one segment by an IP network whose packets travel on VIs, so
// that programs which know nothing of Bobnet use it: an interface of the kernel's
// (a TUN device) on each host, and a stream (package stream) between each two of them that
// talk.
//
//	t, err := tun.Open(ctx, &tun.Config{Addrs: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24")}})
//	err = t.Run(ctx) // until ctx ends
//
// # Neighbours
//
// Each host advertises its addresses as names of the segment's directory
// (vipl.NIC.Advertise), "tun/NETWORK/ADDRESS". The first packet for an address has that name
// asked for, as ARP would, and a stream opened to who answers; packets wait meanwhile, for
// each address up to 256 KiB of them. Both ends greet with their network, their MTU and their addresses. An address
// that the other end claims counts only if the directory names its station for it. So
// nobody gets packets for, or sends packets from, an address by claiming it to one
// neighbour; a host that answers the segment for an address of another's can, as with ARP,
// unless frames are sealed. The streams with one station are bounded, and those of all. Open fails if somebody else answers to an address already; of hosts that claim one at the
// same moment the one whose Bobnet address (MAC, then port) is lowest gets it, and the others' Open
// fails.
//
// A neighbour that has restarted or moved is found again by the next packet. For an address
// that nobody answers to, the sender gets an ICMP message (host unreachable), and the
// segment is asked again a second later at the earliest.
//
// # Packets
//
// Packets may be as long as Config.MTU says on every segment, since a VI cuts messages into
// frames. Segments of TCP pass whole: the kernel hands over up to 64 KiB with a header that
// says how to cut them (TSO), and the other end's kernel takes them as if its card had put
// them together. Checksums that the kernel leaves to cards stay undone, because frames are
// protected below.
//
// Losses on the wire are repaired by the VI. What is sent faster than the other end takes
// waits in a queue of bounded length, and is dropped beyond that, by which TCP learns to
// slow down. A stream for each neighbour keeps packets in order.
//
// A packet is copied three times: the kernel reads it to where the stream sends from, if that
// has room and the packet is for the neighbour that the one before was for; the VI writes it to
// the neighbour's ring; and there the kernel takes it from, but for its beginning, which is
// copied before it is checked. Acknowledgements of VIs wait for an answer that carries them, as
// those of TCP are.
//
// A packet from a neighbour is taken if it is whole, comes from an address of the
// neighbour's, and goes to one of this host's; all else is counted and dropped. So packets
// are never passed on: there are no loops, and a host with several interfaces is no way
// between two networks. Multicast and broadcast are dropped, and counted.
//
// The kernel's own TCP/IP on the same card goes on as before.
package tun
