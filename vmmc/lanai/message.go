package lanai

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// What drivers say to each other: a byte that says what follows, and integers in big
// endian.
const (
	ctlPing    = 1 + iota // nothing: it is answered by its channel
	ctlProcess            // a message from a process to another one: envelope, body
	ctlNobody             // the process that a message was for is not there: envelope as of an answer
	ctlRefused            // port of the process, frame: it has written where it may not
	ctlQuery              // seq, key: whose name is this?
	ctlFound              // seq, identity of the process
	ctlWhose              // seq, port, incarnation: whose process is this?
	ctlTheirs             // seq, user
)

// What processes say to each other. The first byte of the body says what.
const (
	sayAsk        = 1 + iota // seq, export, ticket, word: an import, please
	sayForget                // seq: no answer is wanted any more
	sayGrant                 // seq, slot, frame, offset in the page, size
	sayDeny                  // seq, reason
	sayRevoke                // slot: do not write any more
	sayReleased              // slot: nothing more comes, asked for or not
	sayRedirect              // slot, frame, offset in the page: write there
	sayRedirected            // slot, lo, hi, count: nothing comes until sayMoved
	sayCredit                // how many notifications more may be sent
	sayBye                   // reason: the connection has ended, and nothing more comes
	sayMoved                 // slot: after a sayRedirect, what had gone to the old memory is in the new
	sayNotified              // how many notifications have been sent, if there is room for no more and some may be lost
)

// envelope is from whom to whom a message of processes is.
type envelope struct {
	port        uint16 // of the receiver
	incarnation uint64 // of the receiver, 0 if the sender does not know it
	from        provider.Identity
}

const envelopeSize = 2 + 8 + 2 + 4 + 8

func be16(b []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(b, v) }
func be32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }
func be64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

func putWord(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }

func (e *envelope) append(b []byte) []byte {
	b = be64(be16(b, e.port), e.incarnation)
	return be64(be32(be16(b, e.from.Addr.Port), e.from.Process), e.from.Incarnation)
}

// parseEnvelope takes an envelope off a message that has come from a node.
func parseEnvelope(r *asking.Reader, mac ethertype.MAC) (e envelope) {
	e.port, e.incarnation = r.U16(), r.U64()
	e.from.Addr = ethertype.Addr{MAC: mac, Port: r.U16()}
	e.from.Process, e.from.Incarnation = r.U32(), r.U64()
	return e
}

// hear acts upon a message of another node's driver, or of this one. The lock is held.
func (h *Card) hear(m *message) {
	r := asking.Reader{B: m.data}
	mac := h.prog.nodes.MAC(m.node)
	switch r.U8() {
	case ctlPing:
	case ctlProcess:
		h.pass(m.node, parseEnvelope(&r, mac), &r)
	case ctlNobody:
		e := parseEnvelope(&r, mac)
		h.disconnected(&e)
		if p := h.procs[e.port]; p != nil && p.self.Incarnation == e.incarnation {
			p.hearMessage(event{kind: eventMessage, from: e.from.Addr, id: e.from, body: []byte{sayBye, byte(byeNobody)}})
		}
	case ctlRefused:
		port := r.U16()
		if p := h.procs[port]; p != nil {
			p.hearRefusal(ethertype.Addr{MAC: mac}, r.U32())
		}
	case ctlQuery:
		seq := r.U32()
		h.names.asked(m.node, seq, string(r.B))
	case ctlFound:
		seq := r.U32()
		h.names.found(seq, ethertype.Addr{MAC: mac, Port: r.U16()})
	case ctlWhose:
		seq, port, incarnation := r.U32(), r.U16(), r.U64()
		if uid, ok := h.names.user(port, incarnation); ok {
			h.query(m.node, be32(be32([]byte{ctlTheirs}, seq), uid))
		}
	case ctlTheirs:
		h.names.theirs(mac, r.U32(), r.U32())
	default:
		r.Bad = true
	}
	if r.Bad {
		h.prog.count.Strange++
	}
}

// pass hands a process its message. The sender is told if the process is not there, another one has its port, or
// it has no room for the message.
func (h *Card) pass(node int, e envelope, r *asking.Reader) {
	if len(r.B) > 0 && r.B[0] == sayBye {
		h.disconnected(&e)
	}
	p := h.procs[e.port]
	if p != nil && (e.incarnation == 0 || e.incarnation == p.self.Incarnation) &&
		p.hearMessage(event{kind: eventMessage, from: e.from.Addr, id: e.from, body: r.B}) {
		return
	}
	if len(r.B) == 2 && r.B[0] == sayBye && (bye(r.B[1]) == byeAnswer || bye(r.B[1]) == byeNobody) {
		return
	}
	back := envelope{port: e.from.Addr.Port, incarnation: e.from.Incarnation}
	back.from = provider.Identity{Addr: ethertype.Addr{MAC: h.cfg.MAC, Port: e.port}, Incarnation: e.incarnation}
	h.reply(message{node: node, data: back.append([]byte{ctlNobody})})
	h.page.Ring()
}

// disconnected: a process has said that nothing more comes from it.
func (h *Card) disconnected(e *envelope) {
	h.keepFrames(func(k *kept) bool { return k.peer != e.from.Addr || k.port != e.port })
}
