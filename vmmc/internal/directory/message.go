package directory

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// What a process and the daemon of its node say to each other: over a Unix socket that
// keeps the bounds of messages (SOCK_SEQPACKET). Both begin with a
// greeting. The end of the connection without a Leave is the end of the process.

// Kind says what a Message is.
type Kind uint8

// The messages; in brackets, the fields that count. A process sends the first group.
const (
	Enter    Kind = 1 + iota // the process is there (Seq, Self, Text is its scope); answered by Entered or Refused
	Leave                    // it goes, and has told its peers
	Export                   // an export is there (ID, Text is a word or empty)
	Unexport                 // it is not, or the word is not (ID, Text)
	Match                    // where is this? (Seq, Addr.MAC, Self.Process, ID, Text is a word or empty); answered by Matched
	Forget                   // no answer to the Match is wanted (Seq)
	Spent                    // the ticket is not shown any more (Ticket)
	Shown                    // the ticket was given by a daemon that ran before (Ticket, Addr)
	Met                      // the process has to do with a node (Addr.MAC): it is to hear of its death
	Prove                    // whose is the ticket that somebody shows? (Seq, Ticket, Self is who); answered by Proven

	Entered // (Seq)
	Refused // (Seq, Text says why)
	Matched // (Seq, Addr, Ticket)
	Proven  // (Seq, UID, Yes)
	Died    // a process has (Self: Addr and Incarnation)

	kinds
)

// Message is one message.
type Message struct {
	Kind   Kind
	Yes    bool
	Seq    uint32
	ID     uint32
	UID    uint32
	Self   provider.Identity
	Addr   ethertype.Addr
	Ticket provider.Ticket
	Text   string
}

// Version is the version of what follows. A daemon and processes of different versions
// tell each other, and part.
const Version = 1

const (
	greeting = "bobnet vmmc daemon\n"
	addrSize = 6 + 2
	headSize = 1 + 1 + 4 + 4 + 4 + (addrSize + 4 + 8) + addrSize + provider.TicketSize
	// MaxText is the longest text of a message, bytes.
	MaxText = 512
	// MaxMessage is the longest message, bytes.
	MaxMessage = headSize + MaxText
)

// AppendGreeting appends what both sides say first.
func AppendGreeting(b []byte, version uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, greeting...), version)
}

// ParseGreeting returns the version of the other side; ok is false if it speaks something
// else.
func ParseGreeting(b []byte) (version uint32, ok bool) {
	if len(b) < len(greeting)+4 || string(b[:len(greeting)]) != greeting {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[len(greeting):]), true
}

// Append appends m as bytes. A text that is too long is cut.
func (m *Message) Append(b []byte) []byte {
	yes := byte(0)
	if m.Yes {
		yes = 1
	}
	b = append(b, byte(m.Kind), yes)
	for _, n := range []uint32{m.Seq, m.ID, m.UID} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = AppendIdentity(b, m.Self)
	b = appendAddr(b, m.Addr)
	b = append(b, m.Ticket[:]...)
	return append(b, m.Text[:min(len(m.Text), MaxText)]...)
}

// Parse takes a message apart.
func Parse(b []byte) (m Message, ok bool) {
	if len(b) < headSize || len(b) > MaxMessage || b[0] == 0 || Kind(b[0]) >= kinds || b[1] > 1 {
		return m, false
	}
	m.Kind, m.Yes = Kind(b[0]), b[1] == 1
	for i, n := range []*uint32{&m.Seq, &m.ID, &m.UID} {
		*n = binary.BigEndian.Uint32(b[2+4*i:])
	}
	b = b[14:]
	m.Self, b = TakeIdentity(b)
	m.Addr, b = takeAddr(b)
	b = b[copy(m.Ticket[:], b):]
	m.Text = string(b)
	return m, true
}

// IdentitySize is the size of an identity as bytes.
const IdentitySize = addrSize + 4 + 8

// AppendIdentity appends an identity as bytes.
func AppendIdentity(b []byte, id provider.Identity) []byte {
	b = binary.BigEndian.AppendUint32(appendAddr(b, id.Addr), id.Process)
	return binary.BigEndian.AppendUint64(b, id.Incarnation)
}

// TakeIdentity takes an identity from the beginning of b, which has IdentitySize bytes at
// least.
func TakeIdentity(b []byte) (id provider.Identity, rest []byte) {
	id.Addr, b = takeAddr(b)
	id.Process = binary.BigEndian.Uint32(b)
	id.Incarnation = binary.BigEndian.Uint64(b[4:])
	return id, b[12:]
}

func appendAddr(b []byte, a ethertype.Addr) []byte {
	return binary.BigEndian.AppendUint16(append(b, a.MAC[:]...), a.Port)
}

func takeAddr(b []byte) (a ethertype.Addr, rest []byte) {
	copy(a.MAC[:], b)
	a.Port = binary.BigEndian.Uint16(b[6:])
	return a, b[addrSize:]
}
