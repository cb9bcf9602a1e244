// Package framing defines the frame formats that only Bobnet's own packages need, in addition to
// package ethertype: the outer layout that links and the kernel's filters read, Ethernet frames
// that carry several Bobnet frames, the headers of long frames, sealed frames, and the frames and
// packets of the emulated fabric. It is pure, like ethertype.
//
// Frames of the emulated fabric (package transport/myrinet) have the EtherType 0x88B6 and the same
// first 22 bytes. A FabricHeader and a part of a packet follow:
//
//	offset  size  field     meaning
//	    14     1  version   1
//	    15     1  kind      0x80 and above, see FabricKind
//	    16     2            0
//	    18     2  dstport   receiving end of the cable, at its station
//	    20     2  srcport   sending end of the cable
//	    22     4  tag       incarnation of the receiving end
//	    26     4  seq       number of the frame on the cable, in this direction
//	    30     4  credit    the sender has room for frames up to this one, exclusive
//	    34     4  packet    number of the packet on the cable, in this direction
//	    38     4  offset    position of the part in its packet
//	    42     4  length    of the packet: route, type, payload, CRC-8
//	    46     2  size      bytes of the packet in this frame
//	    48    10            0
//	    58     4  crc       CRC32C of bytes 0..57
//	    62        part of the packet
package framing
