package lanai

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/ethertype"
)

// An endpoint frame is a page of the card's memory. While its endpoint is not resident, the page is
// in the host's memory. All numbers in it are little-endian, like the numbers in messages. Each
// word has one writer, the card or the host.
//
//	0 filled (4)    card: a bit for each entry of the receive queues
//	4 done (4)      card: a bit for each entry of the send queues
//	8 taken (4)     host: a bit for each entry of the receive queues
//	12 posted (4)   host: a bit for each entry of the send queues
//	16 tag (8)      host: the endpoint's tag
//	24 wants (4)    host: 1 if the host waits for an entry of a send queue
//	28 starved (4)  card: 1 if the card waits for an entry of a receive queue
//	64              entries: request send, reply send, request receive, reply receive
//
// Each message that passes an entry inverts the entry's bit. So an entry of a send queue has a
// message from the host while posted and done differ. An entry of a receive queue has a message
// from the card while filled and taken differ.
const (
	frameSize = 4096

	filledAt  = 0
	doneAt    = 4
	takenAt   = 8
	postedAt  = 12
	tagAt     = 16
	wantsAt   = 24 // used, like starvedAt, only in pages shared with programs of other processes
	starvedAt = 28
	entryAt   = 64

	sendEntries    = 8  // entries of each send queue
	receiveEntries = 16 // of each receive queue: 4 times K_user (VNT, 4.2.2)
	numSends       = 2 * sendEntries
	numReceives    = 2 * receiveEntries
	entrySize      = entryHead + inlineSize
	entryHead      = 16
	inlineSize     = 64 // bytes of a short message: number of the connection, header, tags, 8 words
)

// All entries fit into a page.
const _ = uint(frameSize - entryAt - (numSends+numReceives)*entrySize)

// queue is one of the two kinds of queues for messages, at both ends.
type queue uint8

const (
	requests queue = iota // from client to server
	replies               // from server to client, and returned messages
)

// entry begins an entry.
//
//	0 flags   1 op   2 length (2)   4 station (6)   10 port (2)   12 endpoint (4)
//
// The station, port and endpoint identify the destination or the source of the message. In a
// returned message (flagReturned), op is the reason, and length is the number of the entry of the
// send queues that had the message.
type entry struct {
	flags    uint8
	op       uint8
	length   int
	station  ethertype.MAC
	port     uint16
	endpoint uint32
}

// Flags of entries.
const (
	flagStaged   = 1 << iota // the message is in the entry's part of the staging area
	flagReturned             // the message was returned
	flagsEnd
)

// Kinds of messages (entry.op).
const (
	opMessage  = iota // a message of a connection
	opFragment        // a part of bulk data
	opControl         // between drivers; only privileged endpoints send and receive it
	opEnd
)

func (e *entry) put(b []byte) {
	b[0], b[1] = e.flags, e.op
	binary.LittleEndian.PutUint16(b[2:], uint16(e.length))
	copy(b[4:10], e.station[:])
	binary.LittleEndian.PutUint16(b[10:], e.port)
	binary.LittleEndian.PutUint32(b[12:], e.endpoint)
}

func (e *entry) parse(b []byte) {
	e.flags, e.op = b[0], b[1]
	e.length = int(binary.LittleEndian.Uint16(b[2:]))
	e.station = ethertype.MAC(b[4:10])
	e.port = binary.LittleEndian.Uint16(b[10:])
	e.endpoint = binary.LittleEndian.Uint32(b[12:])
}

// sendAt returns the offset of entry i of the send queues. Entries below sendEntries are for
// requests.
func sendAt(i int) int { return entryAt + i*entrySize }

// receiveAt returns the offset of entry i of the receive queues.
func receiveAt(i int) int { return entryAt + (numSends+i)*entrySize }

// word reads a word of a frame, setWord writes one.
func word(page []byte, at int) uint32       { return binary.LittleEndian.Uint32(page[at:]) }
func setWord(page []byte, at int, v uint32) { binary.LittleEndian.PutUint32(page[at:], v) }

// Staging areas. Each entry has a part of the host's memory for a message that does not fit the
// entry (VNT, 3.1).
const (
	stageSize = provider.MaxCardMedium + 128
)

// staging is the staging areas of an endpoint, allocated on first use. The card only transfers
// pinned memory.
type staging struct {
	send, receive []byte
	pinned        bool
	used          uint64 // when last used, in the order of faults
}

func (s *staging) sendPart(i int) []byte    { return s.send[i*stageSize:][:stageSize:stageSize] }
func (s *staging) receivePart(i int) []byte { return s.receive[i*stageSize:][:stageSize:stageSize] }

func (s *staging) make() {
	if s.send == nil {
		s.send, s.receive = make([]byte, numSends*stageSize), make([]byte, numReceives*stageSize)
	}
}

const stagingSize = (numSends + numReceives) * stageSize
