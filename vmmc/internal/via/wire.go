package via

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Messages between the two ends of a connection. Integers are big endian.
//
//	offset  size  field
//	     0     1  kind
//	     1     1  notifications that the receiver of this message may send more
//	     2     1  messages that it may send more
//	     3        body
//
// A hello is the private data of a connection request, and the first message of the other side. Its
// body has the magic number, process, port and incarnation, and the number of connections that the
// process has requested. The number distinguishes a new request from a late one whose process has
// accepted the peer's request instead. A notification is not a message but an RDMA write with
// immediate data, the slot.
const (
	sayHello      = 1 + iota
	sayAsk        // seq, export, ticket, word: requests an import
	sayForget     // seq: withdraws a request
	sayGrant      // seq, slot, address, handle, size
	sayDeny       // seq, reason
	sayRevoke     // slot: revokes an import
	sayReleased   // slot: the importer sends nothing more
	sayRedirect   // slot, address, handle: the new destination of writes
	sayRedirected // slot, lo, hi, count
	sayCredit     // without fields; needs no credit itself
	sayMoved      // slot: after a sayRedirect, writes may continue
)

const (
	magic       = 0x564D4333 // VMC3
	headSize    = 3
	helloSize   = 4 + 4 + 2 + 8 + 4
	messageSize = 176 // at least that of the longest, an ask
)

func putHello(b []byte, id provider.Identity, dials uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint32(b, id.Process)
	b = binary.BigEndian.AppendUint16(b, id.Addr.Port)
	b = binary.BigEndian.AppendUint64(b, id.Incarnation)
	return binary.BigEndian.AppendUint32(b, dials)
}

// parseHello parses the hello of the process at a station.
func parseHello(b []byte, mac ethertype.MAC) (id provider.Identity, dials uint32, ok bool) {
	if len(b) != helloSize || binary.BigEndian.Uint32(b) != magic {
		return id, 0, false
	}
	id.Process = binary.BigEndian.Uint32(b[4:])
	id.Addr = ethertype.Addr{MAC: mac, Port: binary.BigEndian.Uint16(b[8:])}
	id.Incarnation = binary.BigEndian.Uint64(b[10:])
	return id, binary.BigEndian.Uint32(b[18:]), true
}

// message starts a message. The credits are filled in when it is sent.
func message(kind byte, numbers ...uint32) []byte {
	b := append(make([]byte, 0, messageSize), kind, 0, 0)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}
