package endpoint

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
)

// The provider carries messages between endpoints and knows nothing of
// handlers, tags, credits or events. It makes channels, each between one
// endpoint that has a translation, whose half is the client, and the endpoint
// that the translation names, whose half is the server.
//
// There are two providers: virtual interfaces (vi.go), and memory for endpoints
// of one node (loop.go). What a third one must do, for example a network
// card that holds endpoints itself, is written here:
//
//   - A channel delivers messages reliably, in order and at most once.
//   - It has as many receive buffers on each side as there are slots, and one
//     more: see the reasoning in slot.go. No message finds less.
//   - Who has been granted a window may write to that memory, once, and the
//     other side hears of it (placed) when all of it is there. A peer can write
//     to nothing else.
//   - A channel that cannot go on says so once (broken), and never later than
//     the provider's limit for a silent peer. It also says what that means for
//     messages: nothing above knows the errors of a provider.
//
// All methods but wait, gate.wait, now and lookup are called with the node's mutex held, and
// call a half back only from within poll, deliver, or their own call.

// dialer makes channels.
type dialer interface {
	// dial begins to connect; messages may be posted at once. up's broken is
	// called if it fails, with the reason of the other node's admit if it refused.
	dial(to Name, greeting hello, up half) (channel, error)
}

// provider is a node's way to others. Who asks it for a connection is judged by
// Node.admit, which also makes the half that gets it, and becomes part of its
// endpoint by Node.attach.
type provider interface {
	dialer
	addr() ethertype.Addr // of the node, for names
	now() int64           // the time, in nanoseconds
	// opened and ended tell of the endpoints that the node has. A provider whose
	// card does not hold them need not listen.
	opened(id uint32)
	ended(id uint32)
	// advertise lets others look up addr by a name, until withdraw.
	advertise(name string) error
	withdraw(name string)
	lookup(ctx context.Context, name string) (ethertype.Addr, error)
	// poll takes in what has arrived, without blocking.
	poll() error
	// catchUp does what was put off until nobody waits for an answer. It comes
	// before wait.
	catchUp()
	// wait blocks until there is something for deliver, wake is called, or ctx
	// ends, whose error it returns. It is called without the node's mutex, by one
	// goroutine at a time, and followed by deliver.
	wait(ctx context.Context) error
	// deliver hands on what wait has found. A message that is all of it may be
	// handled at once if it is for bundle b, which may be nil; it returns how many
	// were.
	deliver(b *Bundle) (handled int)
	// flush sends what is corked on one side's channels. How many messages are is
	// counted in Node.corked.
	flush(side)
	// wake ends the present wait, or else the next one.
	wake()
	// gate returns a new place to wait at beside the goroutine in wait.
	gate() gate
	// drain flushes, and waits until the peers' interfaces have what was sent and
	// the node owes nothing, for drainTime at most. Nobody else waits meanwhile.
	drain(owes func() bool)
	close()
}

// gate is where a goroutine waits for the one that takes in messages for all.
type gate interface {
	// wait blocks until open has been called since it last returned, or ctx ends, whose
	// error it returns. It may return for no reason. It is called without the node's
	// mutex, by one goroutine at a time.
	wait(ctx context.Context) error
	open()
}

// side says which half a channel belongs to.
type side uint8

const (
	asking  side = iota // client
	serving             // server
)

// channel is one end of a connection.
type channel interface {
	// buffer returns send buffer i, into which a message is built.
	buffer(i int) []byte
	// post sends the first n bytes of buffer i, which must be idle. The message may be
	// corked until flush, or until so many go together; together may be uncork.
	post(i, n, together int)
	// idle reports whether send buffer i may be changed.
	idle(i int) bool
	// grant lets the peer write to mem on behalf of a slot, until it has done so
	// (placed).
	grant(slot int, mem []byte) (window, error)
	// revoke takes back what grant has let the peer do, who has not done it.
	revoke(slot int)
	// write places data in the peer's window; wrote is called when data may be
	// changed again. No other write for the slot may be under way.
	write(slot int, data []byte, to window)
	// writing reports whether the last write for a slot is still under way.
	writing(slot int) bool
	// release gives a received packet back.
	release(p *packet)
	// close ends the connection at once. Nothing is called back afterwards.
	close()
}

// uncork, in place of how many messages may go together, is for one that no other one
// will follow soon: it goes at once, with what is corked.
const uncork = -1

// half is what a channel calls back: client or server.
type half interface {
	received(p *packet)
	// handleNow is received for a message that is all that has arrived. It may handle
	// it at once on behalf of bundle b, and reports whether it has. It is a second
	// way, for what a program that waits for one message at a time does all day: it
	// takes a twentieth off the time of a ping-pong.
	handleNow(p *packet, b *Bundle) bool
	placed(slot int)
	wrote(slot int)
	sent() // some send buffer has become idle
	// broken says that the connection is gone, for a reason that is not 0. err
	// may be nil. It is ReasonBadEndpoint when the other side has ended it.
	broken(reason Reason, err error)
}

// packet is a received message. The provider parses it, and drops what is none.
type packet struct {
	head header
	body []byte  // arguments and payload, in the provider's memory; not nil
	slot int     // if placed: body is nil and bulk data for the slot has come
	next *packet // in the queue of its half
	home any     // the provider's own
}

// packets is a queue.
type packets struct{ head, tail *packet }

func (q *packets) push(p *packet) {
	p.next = nil
	if q.head == nil {
		q.head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
}

func (q *packets) pop() *packet {
	p := q.head
	if p != nil {
		q.head, p.next = p.next, nil
	}
	return p
}

// shape says how large a channel is.
type shape struct {
	slots  int // requests under way at most
	small  int // the first of these carry no payload
	medium int // longest payload of the others, and of all replies
}

// full returns the length of the longest message.
func (s shape) full() int { return smallSize + (s.medium+7)&^7 }

// receives is the number of receive buffers of each side.
func (s shape) receives() int { return s.slots + 1 }

// sends returns the length of send buffer i. A client has one for each slot,
// which keeps the request until it is answered, and behind these one for each
// slot in which it answers about bulk replies. A server has two for each slot,
// which it uses in turn: that the last message has arrived is clear from what
// the client has sent since, but the provider may hear it a moment later.
func (s shape) sends(i int, at side) int {
	switch {
	case at == asking && (i < s.small || i >= s.slots):
		return smallSize
	default:
		return s.full()
	}
}

func (s shape) numSends() int {
	return 2 * s.slots
}

// memory returns the bytes that all buffers of one end take.
func (s shape) memory(at side) int {
	total := s.receives() * s.full()
	for i := range s.numSends() {
		total += s.sends(i, at)
	}
	return total
}
