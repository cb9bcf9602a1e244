// Package tun connects hosts of one segment by an IP network whose packets travel over VIs. Unchanged programs can
// use it. Each host has a kernel interface (a TUN device), and each pair of hosts that communicate has a stream
// (package stream).
//
//	t, err := tun.Open(ctx, &tun.Config{Addrs: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24")}})
//	err = t.Run(ctx) // until ctx ends
//
// # Neighbours
//
// Each host advertises its addresses as names in the segment's directory (vipl.NIC.Advertise), "tun/NETWORK/ADDRESS".
// The first packet for an address triggers a lookup of that name, like an ARP request, and opens a stream to the host
// that answers. Meanwhile packets wait, up to 256 KiB for each address. Both ends greet with their network, their MTU
// and their addresses.
//
// An address that the other end claims counts only if the directory confirms it for that host. So no host can receive
// packets for an address, or send packets from it, by claiming it to one neighbour. As with ARP, a host can do so if
// it answers the whole segment's queries for the address, unless frames are encrypted. The number of streams is
// bounded, per station and in total. Open fails if another host already answers to an address. If several hosts claim
// an address at the same time, the one with the lowest Bobnet address (MAC, then port) gets it, and Open fails on the
// others.
//
// After a neighbour has restarted or moved, the next packet finds it again. If no host answers to an address, the
// sender gets an ICMP message (host unreachable), and the next lookup is at least a second later.
//
// # Packets
//
// Packets may be as long as Config.MTU on every segment, because a VI splits messages into frames. TCP segments
// travel unsplit: the kernel passes up to 64 KiB with a header that describes how to split them (TSO), and the other
// end's kernel accepts them as if its card had reassembled them (GRO). Checksums that the kernel leaves to the card
// are not computed, because the frames below have their own protection.
//
// The VI repairs losses on the wire. Packets that are sent faster than the other end accepts them wait in a bounded
// queue. Further packets are dropped, so TCP reduces its rate. One stream for each neighbour keeps packets in order.
//
// A packet is copied three times. First the kernel copies it into the stream's write buffer, if the buffer has room
// and the packet goes to the same neighbour as the previous one. Then the VI copies it into the neighbour's ring.
// There the neighbour's kernel copies it from the ring; only the headers are copied once more, to be checked safely.
// A VI delays acknowledgements so that answers carry them, including TCP's own acknowledgements.
//
// A packet from a neighbour is accepted if it is complete, its source is an address of that neighbour, and its
// destination is an address of this host. All others are counted and dropped. So packets are never forwarded: there
// are no loops, and a host with several interfaces does not connect two networks. Multicast and broadcast packets are
// dropped and counted.
//
// The kernel's own TCP/IP on the same card is not affected.
package tun
