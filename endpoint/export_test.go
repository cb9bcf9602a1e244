package endpoint

import "encoding/binary"

// HelloFor returns what a client says that wants a connection to an endpoint,
// with so many slots for messages of DefaultMaxMedium.
func HelloFor(from, to Name, slots int) []byte {
	h := hello{from: from, id: to.ID, incarnation: to.Incarnation, shape: shape{slots: slots, medium: DefaultMaxMedium}}
	return h.append(nil)
}

// Message returns a message as it goes over a connection.
func Message(k, handler uint8, slot uint16, use uint32, tag, replyTag Tag, offset uint64, length uint32, args []uint32, payload []byte) []byte {
	b := make([]byte, smallSize+len(payload))
	h := header{kind: kind(k), args: uint8(len(args)), handler: handler, slot: slot, use: use, tag: tag, replyTag: replyTag, offset: offset, length: length}
	n := putArgs(b, h.put(b), args)
	return b[:n+copy(b[n:], payload)]
}

// Kinds is how many kinds of messages there are, and MessageSize the longest.
const (
	Kinds       = int(kindEnd)
	BaseSize    = baseSize
	Spaced      = uint8(spaced)
	MessageSize = smallSize + DefaultMaxMedium
)

// Parts returns the messages that share msg, as its receiver finds them, and
// what is left and is none.
func Parts(msg []byte) (parts [][]byte, rest []byte) {
	for len(msg) > 0 && len(parts) < coalesceMost {
		m, next, ok := splitNext(msg, MessageSize)
		if !ok {
			break
		}
		parts, msg = append(parts, m), next
	}
	return parts, msg
}

// Join makes a follow the message before it, as its sender does.
func Join(before, a []byte) []byte {
	binary.LittleEndian.PutUint16(before[lengthAt:], uint16(len(before)))
	joined := make([]byte, rounded(len(before)), rounded(len(before))+len(a))
	copy(joined, before)
	return append(joined, a...)
}

// The kinds that the tests name.
const (
	KindMedium        = uint8(kindMedium)
	KindBulk          = uint8(kindBulk)
	KindAnnounce      = uint8(kindAnnounce)
	KindGet           = uint8(kindGet)
	KindReplyMedium   = uint8(kindReplyMedium)
	KindReplyBulk     = uint8(kindReplyBulk)
	KindReplyAnnounce = uint8(kindReplyAnnounce)
	KindDone          = uint8(kindDone)
	KindClear         = uint8(kindClear)
	KindReturn        = uint8(kindReturn)
	KindRefuse        = uint8(kindRefuse)
	KindAsk           = uint8(kindAsk)
	KindWindows       = uint8(kindWindows)
)

// BatchSize is the length of a window for batches.
const BatchSize = batchSize

// What each half of a connection sends.
var (
	ClientKinds = []uint8{uint8(kindShort), KindMedium, KindBulk, KindAnnounce, KindGet, uint8(kindRefuse), KindClear, KindAsk}
	ServerKinds = []uint8{uint8(kindReply), KindReplyMedium, KindReplyBulk, KindReplyAnnounce, uint8(kindReturn), KindDone, KindClear, KindWindows}
)

// ShapeMemory returns what a connection from a node of these credits takes, with
// windows for batches.
func ShapeMemory(c Credits, medium int) int {
	s := c.shape(medium)
	return s.memory(serving) + s.windowMemory()
}

// ConnectionMemory returns the limit that c stands for.
func (c *Config) ConnectionMemory() (int, error) {
	d, err := c.withDefaults()
	return d.MaxConnectionMemory, err
}

// Batches returns how many batches a client of these credits may have unanswered.
func Batches(c Credits, medium int) int { return c.shape(medium).batches() }

// Taken returns how much of Config.MaxConnectionMemory is in use.
func Taken(n *Node) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.taken
}

// Corked returns how many messages are corked.
func Corked(n *Node) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.corked[asking] + n.corked[serving]
}
