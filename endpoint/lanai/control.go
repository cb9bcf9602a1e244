package lanai

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/transport"
)

// topic is the kind of a control message. A driver sends control messages from its privileged endpoint
// to another driver's, about connections of their programs. Each one begins with the ports of both
// programs and the sender's number of the connection.
//
//	0 to port (2)   2 from port (2)   4 from connection (4)   8 life (4)   fields of the topic
type topic uint32

const (
	sayOpen   topic = 1 + iota // requests a connection; the Hello follows
	sayAccept                  // to connection (4), endpoint (4)
	sayRefuse                  // to connection (4), reason (4)
	sayGone                    // the connection does not exist, or has ended: to connection (4), or 0 if the message is about from connection
	sayAlive                   // inquires whether the receiving program is alive: its life (4) or 0 for any, 0 (4), and for each connection the sender's number (4) and the receiver's number (4) or 0
	sayDead                    // the program is not alive: port (4), life (4)
	sayNone                    // the program has none of these connections: those of a sayAlive, in the same form
)

const sayHead = 12

// saying is a control message that this driver sends to another driver.
type saying struct {
	what topic
	to   peerName
	from *seat // nil: no program waits for the outcome
	user user
	body []byte
	back int // how often it was returned
}

// newSaying returns a control message of the program from, or of the driver if from is nil, about the connection
// with the number conn.
func newSaying(what topic, to peerName, from *seat, conn uint32, more []byte) *saying {
	b := make([]byte, sayHead, sayHead+len(more))
	binary.LittleEndian.PutUint16(b, to.port)
	u := nobody
	if from != nil {
		u = userOf(from.listener)
		if what == sayOpen || what == sayAccept || what == sayAlive { // with other topics, the program may respond to a peer that it did not contact
			from.met.add(peerKey{to.mac, to.port})
		}
		binary.LittleEndian.PutUint16(b[2:], from.port)
		binary.LittleEndian.PutUint32(b[8:], from.life)
	}
	binary.LittleEndian.PutUint32(b[4:], conn)
	return &saying{what: what, to: peerName{mac: to.mac}, from: from, user: u, body: append(b, more...)}
}

// goneTries is the maximum number of times that a driver sends the notification that a connection has ended. If all
// are lost, the other driver detects the end by its next inquiry.
const goneTries = 16

// The maximum number of the driver's own control messages in flight or waiting, in total and for one station.
// They respond to other drivers. The driver drops further responses, and the other drivers repeat their inquiries.
const (
	mostReplies    = 1024
	stationReplies = mostReplies / 4
)

// say sends a control message about a connection, for the program from, or for the driver if from is nil.
func (d *driver) say(what topic, to peerName, from *seat, conn uint32, more ...byte) {
	switch {
	case from != nil:
		from.saying++
	case !d.replies.Enter(to.mac):
		d.prog.stats.Unsaid++
		return
	}
	if d.far != nil {
		d.far.say(what, to, from, conn, more)
		return
	}
	d.send(newSaying(what, to, from, conn, more))
}

// send queues a control message for the privileged endpoint. The driver calls said with the outcome.
func (d *driver) send(s *saying) {
	d.sayings.push(s)
	d.flush(d.control)
}

// readControl handles the control messages that other drivers sent, and the outcomes of this driver's own.
func (d *driver) readControl() {
	e := d.control
	e.news = false
	e.want(true)
	d.read(e, func(_ int, h *entry, body []byte) bool {
		d.heard(h.station, topic(word(body, 0)), body[connSize:])
		return false
	}, d.said)
	d.flush(e)
	d.show(e)
}

// said handles the outcome of a control message. why is 0 if the other driver has received the message.
func (d *driver) said(r *ref, why wire.Reason) {
	s := r.say
	if s.back++; s.what == sayGone && why == wire.ReasonUnreachable && s.back < goneTries {
		d.send(s)
		return
	}
	if s.from == nil {
		d.replies.Leave(s.to.mac)
	}
	if p := s.from; p != nil {
		p.saying--
		p.said(s.what, peerKey{s.to.mac, binary.LittleEndian.Uint16(s.body)}, word(s.body, 4), why)
	}
}

// heard handles a control message that another driver sent.
func (d *driver) heard(station ethertype.MAC, what topic, b []byte) {
	if len(b) < sayHead {
		d.prog.stats.Malformed++
		return
	}
	port, conn, life := binary.LittleEndian.Uint16(b), word(b, 4), word(b, 8)
	from := peerName{mac: station, port: binary.LittleEndian.Uint16(b[2:])}
	rest := b[sayHead:]
	p := d.programs[port]
	switch {
	case p == nil && what == sayOpen:
		d.say(sayRefuse, from, nil, 0, pair(conn, uint32(wire.ReasonBadEndpoint))...)
	case p == nil && what == sayAccept:
		d.say(sayGone, from, nil, 0, pair(conn, 0)...)
	case p == nil && what == sayAlive:
		d.sayDead(from, port, rest)
	case p == nil:
	case what == sayAlive && len(rest) >= pairSize && word(rest, 0) != 0 && word(rest, 0) != p.life:
		d.sayDead(from, port, rest)
	default:
		p.hear(d, what, from, conn, life, rest)
	}
}

// heard implements listener: it queues the received control message for the program.
func (p *way) heard(what topic, from peerName, conn, life uint32, rest []byte) {
	switch {
	case what == sayOpen:
		p.push(item{what: itemOpen, from: from, conn: conn, life: life, data: append([]byte(nil), rest...)})
	case what == sayAccept && len(rest) >= 8:
		p.push(item{what: itemAccepted, from: peerName{from.mac, from.port, word(rest, 4)}, conn: word(rest, 0), peerConn: conn, life: life})
	case what == sayRefuse && len(rest) >= 8:
		p.push(item{what: itemRefused, from: from, conn: word(rest, 0), reason: wire.Reason(word(rest, 4))})
	case what == sayGone && len(rest) >= 8:
		p.push(item{what: itemGone, from: from, conn: word(rest, 0), peerConn: conn})
	case what == sayAlive && len(rest) >= pairSize:
		p.push(item{what: itemAlive, from: from, data: append([]byte(nil), rest[pairSize:]...)})
	case what == sayNone:
		for ; len(rest) >= pairSize; rest = rest[pairSize:] {
			p.push(item{what: itemGone, from: from, conn: word(rest, 0), peerConn: word(rest, 4)})
		}
	case what == sayDead && len(rest) >= 8:
		p.dead(peerKey{from.mac, uint16(word(rest, 0))}, word(rest, 4))
	}
	if n := len(p.items); n > 0 { // the account frees the oldest message's share first
		p.items[n-1].heard++
	} else {
		p.took(1)
	}
}

// stopped implements listener.
func (p *way) stopped() bool { return false }

// tookAtOnce is the number of handled control messages that a program of another process reports to the card in one
// note.
const tookAtOnce = 8

// took reports that the program has handled n received control messages, and so makes room for n more. The caller
// must hold the engine's lock.
func (p *way) took(n int) {
	far := p.card.driver.far
	if far == nil {
		p.seat.untaken.Took(n)
		return
	}
	if p.tookNow += n; p.tookNow >= tookAtOnce {
		far.line.Send(note{Do: doTook, Port: p.seat.port, Size: p.tookNow})
		p.tookNow = 0
	}
}

// said implements listener: it handles the outcome of a control message that the program sent.
func (p *way) said(what topic, to peerKey, conn uint32, why wire.Reason) {
	if p.closed {
		return
	}
	if p.seat.saying == 0 {
		p.wakeUp()
	}
	switch ch := p.conns[conn]; {
	case why == 0 && what == sayAlive:
		p.lives(to)
	case why == 0:
	case what == sayAlive:
		p.lose(to, wire.ReasonUnreachable)
	case ch != nil && (what == sayOpen || what == sayAccept):
		p.push(item{what: itemBroken, ch: ch, reason: why})
	}
}

// sayDead responds to an inquiry about a program that has ended.
func (d *driver) sayDead(to peerName, port uint16, rest []byte) {
	if len(rest) >= 4 {
		d.say(sayDead, to, nil, 0, pair(uint32(port), word(rest, 0))...)
	}
}

// pairSize is the size of two words in bytes.
const pairSize = 8

// pair encodes two words.
func pair(a, b uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, a), b)
}

// peerKey identifies a remote program.
type peerKey struct {
	mac  ethertype.MAC
	port uint16
}

func (k peerKey) compare(other peerKey) int {
	return ethertype.Addr{MAC: k.mac, Port: k.port}.Compare(ethertype.Addr{MAC: other.mac, Port: other.port})
}

// Look-ups of names. A program sends a query to all cards, without a channel, and repeats it until a
// response arrives.
const (
	querySize = 256
	maxName   = querySize - 4
	mostAsked = 1024 // queries that wait to be sent
	mostHas   = 1024 // responses to other cards' queries that wait to be sent
)

// query is a packet that a driver sends without a channel.
type query struct {
	kind kind
	to   ethertype.MAC
	peer int
	body []byte
}

// queries holds the queries and responses that wait to be sent.
type queries struct {
	list []query
	ways []int
	has  *admission.Gate[ethertype.MAC] // limits the waiting responses, by the station that they are sent to
}

// nextQuery returns the next query to send, or nil. It is valid until the next call.
func (d *driver) nextQuery() *query {
	q := &d.queries
	if len(q.list) == 0 {
		return nil
	}
	first := q.list[0]
	if q.list = q.list[1:]; first.kind == kindHas {
		q.has.Leave(first.to)
	}
	return &first
}

// inOrder returns the programs ordered by port.
func (d *driver) inOrder() []*seat {
	return slices.SortedFunc(maps.Values(d.programs), func(a, b *seat) int { return cmp.Compare(a.port, b.port) })
}

// ask queues a query for a name to every card that this card has a route to.
func (d *driver) ask(name string) {
	if d.far != nil {
		d.far.ask(name)
		return
	}
	q := &d.queries
	q.ways = d.prog.peers.Routed(q.ways[:0])
	for _, i := range q.ways {
		to := d.prog.peers.MAC(i)
		if _, answers := q.has.Conns(to); to != d.prog.self && len(q.list)-answers < mostAsked {
			q.list = append(q.list, query{kindQuery, to, i, append(make([]byte, 4, 4+len(name)), name...)})
		}
	}
	d.kick()
}

// queried handles a query, or the response to one.
func (d *driver) queried(h *header, body []byte) {
	if len(body) < 4 || len(body) > querySize || h.to != d.prog.self && h.to != ethertype.Broadcast {
		d.prog.stats.Malformed++
		return
	}
	name := string(body[4:])
	if h.kind == kindHas {
		for _, p := range d.inOrder() {
			p.found(name, ethertype.Addr{MAC: h.from, Port: uint16(word(body, 0))})
		}
		return
	}
	peer, ok := d.prog.sender(h.from)
	for _, p := range d.inOrder() {
		if _, has := p.names[name]; has && ok && d.queries.has.Enter(h.from) {
			b := append([]byte(nil), body...)
			setWord(b, 0, uint32(p.port))
			d.queries.list = append(d.queries.list, query{kindHas, h.from, peer, b})
		}
	}
}

// Inquiries. A program sends one every few seconds to each remote program that it has connections with.
// If the remote card does not acknowledge the inquiry, the channels report it. If the remote program has
// ended, its driver reports that. If the remote program lacks a connection, it reports that itself.

// attend sends the inquiries that are due, and returns when it must run again.
func (d *driver) attend(now int64) int64 {
	if now < d.askAt {
		return d.askAt
	}
	d.askAt = transport.Forever
	for _, p := range d.inOrder() {
		d.askAt = min(d.askAt, p.attend(now))
	}
	return d.askAt
}

// speaks reports whether a control message of the driver waits, or is not yet acknowledged.
func (d *driver) speaks() bool {
	if d.far != nil {
		return false // the process that has the card sends this process's control messages
	}
	p := &d.control.post
	return d.sayings.n > 0 || p.posted != p.done
}
