package mapper

import (
	"encoding/binary"
	"errors"
	"hash/fnv"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// PacketType is the type of all packets of mappers.
const PacketType = 5

// MaxHosts is the maximum number of cards of a fabric that get routes (VNT, section 2).
const MaxHosts = 256

// kind is the purpose of a message.
type kind uint8

const (
	echo     kind = 1 + iota // a probe that returns to the mapper: a loop
	ask                      // a probe to a host
	answer                   // the identity of the host
	install                  // a part of a host's routes
	clearAll                 // tells the host to use no routes
	ack                      // confirms install and clearAll
	alive                    // the leader is alive
	look                     // ask, from a host that only observes
	kinds
)

const messageVersion = 1

// message is the payload of a packet. Its encoding is
//
//	1 version, 1 kind, 6 mapper, 8 token, 4 request
//	ask, look: route
//	answer:   6 host, 6 leader, 4 age, 8 digest, 1 length of the name, the name
//	install:  route, 6 host, 8 digest, 1 part, 1 parts, 2 number of entries, and for each 6 host and a route
//	clearAll: route, 6 host
//	ack:      6 host, 8 digest
//
// A route is one byte for the number of turns, and the turns as in a packet.
type message struct {
	kind    kind
	mapper  ethertype.MAC // the mapper that sends requests and receives answers
	token   uint64        // known only to hosts that have seen a message of this mapper
	request uint32        // number of the request or of the answered request

	back    myrinet.Route // route of the answer
	host    ethertype.MAC // the answering host, or the destination
	leader  ethertype.MAC // the leader that the host follows
	age     uint32        // milliseconds since the host has last heard that leader
	digest  uint64        // of the host's routes
	name    string        // of the host, for people
	part    uint8         // number of this part of the routes
	parts   uint8         // number of parts
	entries []myrinet.HostRoute
}

const maxNameLen = 32

var errMessage = errors.New("mapper: invalid message")

func appendRoute(b []byte, r myrinet.Route) []byte {
	b = append(b, byte(len(r)))
	for _, t := range r {
		b = append(b, framing.PutTurn(int(t)))
	}
	return b
}

func appendEntry(b []byte, e myrinet.HostRoute) []byte {
	return appendRoute(append(b, e.To[:]...), e.Turns)
}

// append appends the encoded message to b.
func (m *message) append(b []byte) []byte {
	be := binary.BigEndian
	b = append(append(b, messageVersion, byte(m.kind)), m.mapper[:]...)
	b = be.AppendUint32(be.AppendUint64(b, m.token), m.request)
	switch m.kind {
	case ask, look:
		b = appendRoute(b, m.back)
	case answer:
		b = append(append(b, m.host[:]...), m.leader[:]...)
		b = be.AppendUint64(be.AppendUint32(b, m.age), m.digest)
		b = append(append(b, byte(len(m.name))), m.name...)
	case install:
		b = append(appendRoute(b, m.back), m.host[:]...)
		b = append(be.AppendUint64(b, m.digest), m.part, m.parts)
		b = be.AppendUint16(b, uint16(len(m.entries)))
		for _, e := range m.entries {
			b = appendEntry(b, e)
		}
	case clearAll:
		b = append(appendRoute(b, m.back), m.host[:]...)
	case ack:
		b = be.AppendUint64(append(b, m.host[:]...), m.digest)
	}
	return b
}

// reader decodes from the front. If it runs out of bytes, it becomes bad and returns zeros.
type reader struct {
	b   []byte
	bad bool
}

var zeros [256]byte

func (r *reader) next(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return zeros[:n]
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) uint8() uint8       { return r.next(1)[0] }
func (r *reader) mac() ethertype.MAC { return ethertype.MAC(r.next(6)) }
func (r *reader) uint64() uint64     { return binary.BigEndian.Uint64(r.next(8)) }
func (r *reader) uint32() uint32     { return binary.BigEndian.Uint32(r.next(4)) }

func (r *reader) route() myrinet.Route {
	turns := r.next(int(r.uint8()))
	if r.bad {
		return nil
	}
	route := make(myrinet.Route, len(turns))
	for i, o := range turns {
		turn, ok := framing.Turn(o)
		route[i] = int8(turn)
		r.bad = r.bad || !ok || turn < -framing.MaxTurn
	}
	return route
}

// parse decodes a payload, and keeps no reference to it.
func (m *message) parse(payload []byte) error {
	r := reader{b: payload}
	version := r.uint8()
	*m = message{kind: kind(r.uint8()), mapper: r.mac(), token: r.uint64(), request: r.uint32()}
	switch m.kind {
	case echo, alive:
	case ask, look:
		m.back = r.route()
	case answer:
		m.host, m.leader, m.age, m.digest = r.mac(), r.mac(), r.uint32(), r.uint64()
		m.name = string(r.next(int(r.uint8())))
		r.bad = r.bad || len(m.name) > maxNameLen
	case install:
		m.back, m.host, m.digest, m.part, m.parts = r.route(), r.mac(), r.uint64(), r.uint8(), r.uint8()
		n := int(binary.BigEndian.Uint16(r.next(2)))
		r.bad = r.bad || n > MaxHosts || m.part >= m.parts
		for i := 0; i < n && !r.bad; i++ {
			m.entries = append(m.entries, myrinet.HostRoute{To: r.mac(), Turns: r.route()})
		}
	case clearAll:
		m.back, m.host = r.route(), r.mac()
	case ack:
		m.host, m.digest = r.mac(), r.uint64()
	default:
		return errMessage
	}
	if r.bad || len(r.b) != 0 || version != messageVersion {
		return errMessage
	}
	return nil
}

// digest identifies a table of routes; it is 0 for an empty one.
func digest(entries []myrinet.HostRoute) uint64 {
	if len(entries) == 0 {
		return 0
	}
	h := fnv.New64a()
	var b []byte
	for _, e := range entries {
		b = appendEntry(b[:0], e)
		h.Write(b)
	}
	return max(h.Sum64(), 1)
}
