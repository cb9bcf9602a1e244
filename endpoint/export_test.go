package endpoint

// HelloFor returns what a client says that wants a connection to an endpoint,
// with so many slots for messages of DefaultMaxMedium.
func HelloFor(from, to Name, slots int) []byte {
	h := hello{from: from, id: to.ID, incarnation: to.Incarnation, shape: shape{slots: slots, medium: DefaultMaxMedium}}
	return h.append(nil)
}

// Message returns a message as it goes over a connection.
func Message(kind, handler uint8, slot uint16, use uint32, tag, replyTag Tag, offset uint64, length uint32, args []uint32, payload []byte) []byte {
	b := make([]byte, smallSize+len(payload))
	h := header{kind: kindEnd - 1, args: uint8(len(args)), handler: handler, slot: slot, use: use, tag: tag, replyTag: replyTag, offset: offset, length: length}
	h.put(b)
	b[0] = kind
	n := putArgs(b, args)
	return b[:n+copy(b[n:], payload)]
}

// Kinds is how many kinds of messages there are, and MessageSize the longest.
const (
	Kinds       = int(kindEnd)
	MessageSize = smallSize + DefaultMaxMedium
)
