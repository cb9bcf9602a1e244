package endpoint

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/vi"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// HelloFor returns what a client says that wants a connection to an endpoint,
// with so many slots for messages of DefaultMaxMedium.
func HelloFor(from, to Name, slots int) []byte {
	h := wire.Hello{From: from, ID: to.ID, Incarnation: to.Incarnation, Shape: wire.Shape{Slots: slots, Medium: DefaultMaxMedium}}
	return h.Append(nil)
}

// Message returns a message as it goes over a connection.
func Message(k, handler uint8, slot uint16, use uint32, tag, replyTag Tag, offset uint64, length uint32, args []uint32, payload []byte) []byte {
	b := make([]byte, wire.SmallSize+len(payload))
	h := wire.Header{Kind: wire.Kind(k), Args: uint8(len(args)), Handler: handler, Slot: slot, Use: use, Tag: tag, ReplyTag: replyTag, Offset: offset, Length: length}
	n := wire.PutArgs(b, h.Put(b), args)
	return b[:n+copy(b[n:], payload)]
}

// Kinds is how many kinds of messages there are, and MessageSize the longest.
const (
	Kinds       = int(wire.KindEnd)
	BaseSize    = wire.BaseSize
	Spaced      = uint8(wire.Spaced)
	MessageSize = wire.SmallSize + DefaultMaxMedium
)

// Parts returns the messages that share msg, as its receiver finds them, and
// what is left and is none.
func Parts(msg []byte) (parts [][]byte, rest []byte) {
	for len(msg) > 0 && len(parts) < provider.CoalesceMost {
		m, next, ok := wire.SplitNext(msg, MessageSize)
		if !ok {
			break
		}
		parts, msg = append(parts, m), next
	}
	return parts, msg
}

// Join makes a follow the message before it, as its sender does.
func Join(before, a []byte) []byte {
	binary.LittleEndian.PutUint16(before[wire.LengthAt:], uint16(len(before)))
	joined := make([]byte, wire.Rounded(len(before)), wire.Rounded(len(before))+len(a))
	copy(joined, before)
	return append(joined, a...)
}

// The kinds that the tests name.
const (
	KindMedium        = uint8(wire.KindMedium)
	KindBulk          = uint8(wire.KindBulk)
	KindAnnounce      = uint8(wire.KindAnnounce)
	KindGet           = uint8(wire.KindGet)
	KindReplyMedium   = uint8(wire.KindReplyMedium)
	KindReplyBulk     = uint8(wire.KindReplyBulk)
	KindReplyAnnounce = uint8(wire.KindReplyAnnounce)
	KindDone          = uint8(wire.KindDone)
	KindClear         = uint8(wire.KindClear)
	KindReturn        = uint8(wire.KindReturn)
	KindRefuse        = uint8(wire.KindRefuse)
	KindSkip          = uint8(wire.KindSkip)
	KindAsk           = uint8(wire.KindAsk)
	KindWindows       = uint8(wire.KindWindows)
	KindLanding       = uint8(wire.KindLanding)
)

// BatchSize is the length of a window for batches.
const BatchSize = vi.BatchSize

// What each half of a connection sends.
var (
	ClientKinds = []uint8{uint8(wire.KindShort), KindMedium, KindBulk, KindAnnounce, KindGet, uint8(wire.KindRefuse), KindSkip, KindClear, KindAsk}
	ServerKinds = []uint8{uint8(wire.KindReply), KindReplyMedium, KindReplyBulk, KindReplyAnnounce, uint8(wire.KindReturn), KindDone, KindClear, KindWindows}
)

// ShapeMemory returns what a connection from a node of these credits takes, with
// windows for batches.
func ShapeMemory(c Credits, medium int) int {
	return connectionMemory(c.shape(medium))
}

// ConnectionMemory returns the limit that c stands for.
func (c *Config) ConnectionMemory() (int, error) {
	d, err := c.withDefaults()
	return d.MaxConnectionMemory, err
}

// Batches returns how many batches a client of these credits may have unanswered.
func Batches(c Credits, medium int) int { return vi.Batches(c.shape(medium)) }

// Taken returns how much of Config.MaxConnectionMemory is in use.
func Taken(n *Node) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.budget.Taken
}

// Corked returns how many messages are corked.
func Corked(n *Node) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.corked[wire.Asking] + n.corked[wire.Serving]
}

// Held returns how many messages wait for their turn that will be counted then, and how
// many that may be, because they are of a kind that is taken in silence at the right moment.
func Held(n *Node, silent func(kind uint8) bool) (sure, perhaps uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ep := range n.endpoints {
		for s := range ep.servers.places {
			for i := range s.slots {
				p := s.slots[i].held
				switch {
				case p == nil || s.reason != 0 || !p.Head.Kind.Request() && p.Head.Kind != wire.KindRefuse:
				case silent(uint8(p.Head.Kind)):
					perhaps++
				default:
					sure++
				}
			}
		}
	}
	return sure, perhaps
}

// Seeds runs a test under several seeds, as the flags say that endpoint_test registers.
var Seeds func(t *testing.T, def int, run func(seed uint64) error)

// CloseMeter counts what it takes to close the connections of a node.
type CloseMeter struct {
	Entries int // in the completion queue of the node, before
	Closed  int // connections
	Steps   int // entries that were gone through when some left the queue
}

// MeterCloses has closes counted of the connections that n has now.
func MeterCloses(n *Node) *CloseMeter {
	n.mu.Lock()
	defer n.mu.Unlock()
	ring := reflect.ValueOf(n.way.(*vi.Provider)).Elem().FieldByName("cq").Elem().FieldByName("ring")
	inRing := func() int { return int(ring.FieldByName("entries").FieldByName("n").Int()) }
	m := &CloseMeter{Entries: inRing()}
	for _, ep := range n.endpoints {
		for c := range ep.clients.places {
			c.ch = &meteredChannel{c.ch, m, inRing}
		}
		for s := range ep.servers.places {
			s.ch = &meteredChannel{s.ch, m, inRing}
		}
	}
	return m
}

type meteredChannel struct {
	provider.Channel
	m      *CloseMeter
	inRing func() int
}

func (c *meteredChannel) Close() {
	before := c.inRing()
	c.Channel.Close()
	if c.m.Closed++; c.inRing() != before {
		c.m.Steps += before
	}
}

// DefaultMaxConnections is defaultMaxConnections, for tests.
const DefaultMaxConnections = defaultMaxConnections

// DefaultTranslations is defaultTranslations, for tests.
const DefaultTranslations = defaultTranslations

// BounceBytes returns how much memory the connections to ep keep for the data of bulk replies.
func (ep *Endpoint) BounceBytes() (n int) {
	for s := range ep.servers.places {
		for i := range s.slots {
			for _, b := range s.slots[i].bounce {
				n += cap(b)
			}
		}
	}
	return n
}

// MaxMediumLimit is maxMediumLimit, for tests.
const MaxMediumLimit = maxMediumLimit

// NameSize is wire.NameSize, for tests.
const NameSize = wire.NameSize
