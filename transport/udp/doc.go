// Package udp is the link that carries Bobnet's frames in UDP datagrams, over
// IPv4 or IPv6: for programs that may not open raw sockets, and for fabrics
// that route. It needs no privilege.
//
// A datagram holds one frame as it is, Ethernet header first. A batch of frames
// of one size to one place goes to the kernel as a single message that is cut
// into datagrams at the last moment (UDP_SEGMENT), and datagrams that arrived
// together are read as one (UDP_GRO); where the way between allows it, as on
// veth or loopback, they are never cut at all.
//
// # Stations
//
// A station is an IP address. Its MAC address is made of it: for IPv4
// 02:75 and the four octets, so that 02:75:0a:00:00:07 is 10.0.0.7 and nobody
// has to ask; for IPv6 46 bits of a hash, and who has which address is learned
// from the datagrams that come, as a switch learns, and from Config.Peers. A
// frame to an IPv6 station that is not known yet goes to all, as in a switch.
//
// The interface may get another MAC, and may go down and come up: traffic goes
// on. But other hosts learn of the MAC after a while, or when something is sent to them,
// as vipl does. It may lose the station's address, as Linux removes IPv6 addresses from an
// interface that goes down (see keep_addr_on_down in the kernel's ip-sysctl). Check then fails with transport.ErrLinkDown and names the address;
// so does Send, unless IPv6 has another way to the peer. When the interface has
// the address again, traffic goes on.
//
// # Ports
//
// UDP port BasePort+b of a station receives the frames to ports b*1024 to
// b*1024+1023. A link claims ports by binding these, so several processes share
// an address, and the kernel frees the ports of one that dies. The default,
// DefaultBasePort, lies outside of the range from which Linux takes ports for
// clients.
//
// Broadcasts are sent to a multicast group, 239.255.x.y or ff12::x:y with the
// EtherType in the last two octets, port BasePort+64, where every link of the
// segment listens. No router passes them on, so they are sent to each of
// Config.Peers as well. What goes to ethertype.PortAll of one station is sent to
// all its 64 UDP ports, because which of them are in use is known there only.
//
// # What is believed
//
// A frame's source must fit the datagram's: the MAC the IP address, the port
// the UDP port. Frames that do not, and those that are for somebody else, are
// counted as RxFiltered. Datagrams can be forged as frames can; the link keeps
// out mistakes, and processes that have not claimed the port they speak for.
//
// Info.Unprotected is false. Ethernet's check sequence guards each hop as it
// does under the other links, and UDP's checksum, which the link never switches
// off, guards the frame from end to end, through the memory of the routers
// between.
//
// # Sizes
//
// The MTU is the interface's less the headers of IP, UDP and the frame. Nothing
// is fragmented. A path with a smaller MTU answers with ErrFrameSize once its
// routers have said so, and needs Config.MTU.
package udp
