// Package udp is the link that carries Bobnet's frames in UDP datagrams, over IPv4 or IPv6. It is for programs that
// may not open raw sockets, and for routed networks. It needs no privilege.
//
// A datagram holds one complete frame, Ethernet header first. A batch of frames of one size to one destination is one
// message to the kernel, which splits it into datagrams as late as possible (UDP_SEGMENT). Datagrams that arrive
// together are read as one message (UDP_GRO). If the path supports it, as veth and loopback do, the message is never
// split.
//
// # Stations
//
// A station is an IP address. Its MAC address is derived from it. For IPv4 it is 02:75 and the four bytes of the
// address: 02:75:0a:00:00:07 is 10.0.0.7, and no lookup is needed. For IPv6 it contains 46 bits of a hash. A link
// learns the stations' IPv6 addresses from the datagrams that it receives, as a switch does, and from Config.Peers. A
// frame to an unknown IPv6 station goes to all stations, as in a switch.
//
// Traffic continues if the interface gets another MAC, or goes down and comes up. But other hosts learn the new MAC
// after a while, or when this host sends to them, as vipl does. The interface may lose the station's address: Linux
// removes IPv6 addresses from an interface that goes down (see keep_addr_on_down in the kernel's ip-sysctl). Check
// then fails with transport.ErrLinkDown and the address. Send fails, too, unless IPv6 has another route to the peer.
// When the interface has the address again, traffic continues.
//
// # Ports
//
// UDP port BasePort+b of a station receives the frames to ports b*1024 to b*1024+1023. A link claims ports by binding
// these UDP ports. So several processes share an address, and the kernel frees the ports of a process that dies. The
// default, DefaultBasePort, lies outside of the range from which Linux assigns client ports.
//
// Broadcasts go to a multicast group at port BasePort+64, which every link of the segment joins. The group is
// 239.255.x.y or ff12::x:y, with the EtherType in the last two bytes. Routers do not forward it, so the link also
// sends broadcasts to each of Config.Peers. A frame to ethertype.PortAll of one station goes to all its 64 UDP ports,
// because only that station knows which of them are in use.
//
// # Trust
//
// A frame's source must match its datagram's: the MAC must match the IP address, and the port the UDP port. Other
// frames, and frames for other stations, are counted as RxFiltered. Datagrams can be forged, as frames can. The link
// keeps out mistakes, and processes that have not claimed the port that they send from.
//
// Info.Unprotected is false. The Ethernet frame check sequence protects each hop, as for the other links. UDP's
// checksum, which the link never disables, protects the frame end to end, including the memory of routers.
//
// # Sizes
//
// The MTU is the interface's, minus the headers of IP, UDP and the frame. Nothing is fragmented. On a path with a
// smaller MTU, Send returns ErrFrameSize once a router has reported it; such a path needs Config.MTU.
package udp
