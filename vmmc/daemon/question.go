package daemon

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Messages between daemons. A request is the private data of a VI connection request, which proves the
// requesting node's address. The response is the only message on the connection.
//
//	offset  size  field
//	     0     4  magic number
//	     4     1  version
//	     5     1  whose (1) or died (2)
//	     6    20  the process that has shown the ticket, or has died
//	    26    16  ticket
//	    42     2  port of the requesting node at which the ticket was shown
//
// The response has the magic number, the version, whether the ticket is known, and the user.
const (
	whose = 1
	died  = 2

	magic        = 0x564D4E44 // VMND
	questionSize = 4 + 1 + 1 + directory.IdentitySize + provider.TicketSize + 2
	answerSize   = 4 + 1 + 1 + 4
)

type question struct {
	what   uint8
	who    provider.Identity
	ticket provider.Ticket
	port   uint16
}

func (q *question) bytes() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, questionSize), magic)
	b = directory.AppendIdentity(append(b, directory.Version, q.what), q.who)
	return binary.BigEndian.AppendUint16(append(b, q.ticket[:]...), q.port)
}

// parseQuestion parses a question from a node. A daemon does not ask about processes of its own
// node, and does not report processes of other nodes.
func parseQuestion(b []byte, asker, self ethertype.MAC) (q question, ok bool) {
	if len(b) != questionSize || binary.BigEndian.Uint32(b) != magic || b[4] != directory.Version {
		return q, false
	}
	q.what = b[5]
	q.who, b = directory.TakeIdentity(b[6:])
	q.port = binary.BigEndian.Uint16(b[copy(q.ticket[:], b):])
	return q, q.what == whose && q.who.Addr.MAC == self || q.what == died && q.who.Addr.MAC == asker
}

func putAnswer(known bool, uid uint32) []byte {
	b := append(binary.BigEndian.AppendUint32(nil, magic), directory.Version, 0)
	if known {
		b[5] = 1
	}
	return binary.BigEndian.AppendUint32(b, uid)
}

func parseAnswer(b []byte) (uid uint32, known, ok bool) {
	if len(b) != answerSize || binary.BigEndian.Uint32(b) != magic || b[4] != directory.Version || b[5] > 1 {
		return 0, false, false
	}
	return binary.BigEndian.Uint32(b[6:]), b[5] == 1, true
}
