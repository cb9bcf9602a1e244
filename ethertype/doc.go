// Package ethertype converts the bytes of Bobnet's Ethernet frames to Go values and back. It also
// defines the addresses that all packages use: MAC and Addr.
//
// A Bobnet frame is an Ethernet II header (14 bytes), the Bobnet header
// (48 bytes) and the payload:
//
//	offset  size  field     meaning
//	     0     6  dst       destination MAC
//	     6     6  src       source MAC
//	    12     2  type      EtherType, 0x88B5 unless configured otherwise
//	    14     1  version   1
//	    15     1  kind      what the frame is for, see Kind
//	    16     2  flags     see Flags
//	    18     2  dstport   port of the destination
//	    20     2  srcport   port of the source
//	    22     4  tag       connection tag, chosen by the receiver of the frame
//	    26     4  seq       frame sequence number within the connection
//	    30     4  ack       cumulative acknowledgement: next sequence expected
//	    34     4  msg       number of the (first) message, or of the read, in the frame
//	    38     8  sack      bit i: frame ack+1+i has been received
//	    46     4  offset    where in its message the payload belongs
//	    50     4  length    length of the whole message
//	    54     2  size      payload bytes in this frame (Ethernet may pad it)
//	    56     2  count     messages in a packed frame, else 1 or 0
//	    58     4  crc       CRC32C of bytes 0..57, and of the payload too when
//	                        FlagWholeCRC is set
//	    62        payload
//
// Every frame of a connection carries seq and ack. A frame that occupies no sequence number carries
// the number of the sender's next frame that does. A Reset carries the seq and ack of the frame
// that it answers, swapped. An off-path attacker must therefore guess both numbers, and the tag.
// Before a connection exists, the ack of an answer is the first sequence number of the requester.
// On the unreliable level ack stays the peer's first sequence number. Request and Retry carry an
// address token in sack, a Query for a name and its Answer a nonce.
//
// All fields are in network byte order. In a TPACKET ring the payload starts on a 16-byte boundary,
// because the ring aligns the Bobnet header to 16 bytes.
//
// Several frames between two NICs may share an Ethernet frame: a frame with FlagMore is
// followed by the next one, with its own headers, including the Ethernet header. A station
// sends such frames only to peers that have announced support.
//
// An address consists of the six-byte hardware address of the interface and a two-byte port, as in
// the Bobnet paper (section 2.2). There is no routing.
//
// The package keeps no state, starts no goroutine, reads no clock and does not
// allocate on the paths that frames take. After Header.Parse returned nil every
// field is in range: the payload lies within the frame, whatever the bytes were.
package ethertype
