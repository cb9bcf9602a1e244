package lanai

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Messages between drivers: the first byte is the kind; integers are big-endian.
const (
	ctlPing    = 1 + iota // empty: the channel acknowledges it
	ctlProcess            // a message from a process to another one: envelope, body
	ctlNobody             // the destination process does not exist: envelope as in a response
	ctlRefused            // port of the process, frame: it has written to memory that it may not write
	ctlQuery              // seq, key: which process has this name?
	ctlFound              // seq, identity of the process
	ctlWhose              // seq, port, incarnation: who is the user of this process?
	ctlTheirs             // seq, user
)

// Messages between processes. The first byte of the body is the kind.
const (
	sayAsk        = 1 + iota // seq, export, ticket, word: requests an import
	sayForget                // seq: cancels a request
	sayGrant                 // seq, slot, frame, offset in the page, size
	sayDeny                  // seq, reason
	sayRevoke                // slot: revokes an import
	sayReleased              // slot: the importer sends nothing more
	sayRedirect              // slot, frame, offset in the page: write there from now on
	sayRedirected            // slot, lo, hi, count: writes pause until sayMoved
	sayCredit                // number of further notifications that may be sent
	sayBye                   // reason: the connection has ended; nothing more will be sent
	sayMoved                 // slot: after sayRedirect, the data of the old memory has been copied to the new
	sayNotified              // number of notifications sent, if there is no credit left and some may be lost
)

// envelope holds the sender and the receiver of a message between processes.
type envelope struct {
	port        uint16 // of the receiver
	incarnation uint64 // of the receiver, or 0 if unknown to the sender
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

// parseEnvelope decodes an envelope from a message that a node has sent.
func parseEnvelope(r *asking.Reader, mac ethertype.MAC) (e envelope) {
	e.port, e.incarnation = r.U16(), r.U64()
	e.from.Addr = ethertype.Addr{MAC: mac, Port: r.U16()}
	e.from.Process, e.from.Incarnation = r.U32(), r.U64()
	return e
}

// hear handles a message from a driver: of another node, or of this one. The caller must hold the
// lock.
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

// pass delivers a message to a process. The sender is notified if the process does not exist,
// another one has its port, or it has no room for the message.
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

// disconnected handles a process's announcement that it sends nothing more.
func (h *Card) disconnected(e *envelope) {
	h.keepFrames(func(k *kept) bool { return k.peer != e.from.Addr || k.port != e.port })
}
