package directory

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// The messages between a process and the daemon of its node. They use a Unix socket that
// preserves message boundaries (SOCK_SEQPACKET). Both sides begin with a greeting. If the
// connection ends without a Leave, the process has ended.

// Kind is the kind of a Message.
type Kind uint8

// The kinds of messages, with the fields that they use in parentheses. A process sends the first
// group, and the daemon sends the second.
const (
	Enter    Kind = 1 + iota // registers the process (Seq, Self, Text is its scope); answered by Entered or Refused
	Leave                    // the process ends, and has notified its peers
	Export                   // registers an export (ID, Text is a word or empty)
	Unexport                 // removes an export, or its word (ID, Text)
	Match                    // asks where an export is (Seq, Addr.MAC, Self.Process, ID, Text is a word or empty); answered by Matched
	Forget                   // withdraws a Match (Seq)
	Spent                    // the ticket will no longer be shown (Ticket)
	Shown                    // an earlier daemon has issued the ticket (Ticket, Addr)
	Met                      // the process communicates with a node, which must be notified of its death (Addr.MAC)
	Prove                    // asks for the user of a ticket (Seq, Ticket, Self is the process that shows it); answered by Proven

	Entered // (Seq)
	Refused // (Seq, Text is the reason)
	Matched // (Seq, Addr, Ticket)
	Proven  // (Seq, UID, Yes)
	Died    // a process has died (Self: Addr and Incarnation)

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

// Version is the version of the messages after the greeting. If the versions of a daemon
// and a process differ, both report this and close the connection.
const Version = 1

const (
	greeting = "bobnet vmmc daemon\n"
	addrSize = 6 + 2
	headSize = 1 + 1 + 4 + 4 + 4 + (addrSize + 4 + 8) + addrSize + provider.TicketSize
	// MaxText is the maximum length of a message's text, in bytes.
	MaxText = 512
	// MaxMessage is the maximum length of a message, in bytes.
	MaxMessage = headSize + MaxText
)

// AppendGreeting appends the greeting, which both sides send first.
func AppendGreeting(b []byte, version uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, greeting...), version)
}

// ParseGreeting returns the version of the other side; ok is false if b is not a
// greeting.
func ParseGreeting(b []byte) (version uint32, ok bool) {
	if len(b) < len(greeting)+4 || string(b[:len(greeting)]) != greeting {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[len(greeting):]), true
}

// Append appends the encoding of m. It truncates a text that is too long.
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

// Parse decodes a message.
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

// IdentitySize is the size of an encoded identity, in bytes.
const IdentitySize = addrSize + 4 + 8

// AppendIdentity appends the encoding of an identity.
func AppendIdentity(b []byte, id provider.Identity) []byte {
	b = binary.BigEndian.AppendUint32(appendAddr(b, id.Addr), id.Process)
	return binary.BigEndian.AppendUint64(b, id.Incarnation)
}

// TakeIdentity decodes an identity at the beginning of b, which must have at least
// IdentitySize bytes.
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
