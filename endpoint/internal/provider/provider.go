// Package provider defines the contract between endpoints and the provider that carries their
// messages: the interfaces of both sides, and their rules.
//
// A provider carries messages between endpoints and knows nothing of handlers,
// credits or events, and of tags only what Tagged says. It makes channels, each between one endpoint that has a translation,
// whose half is the client, and the endpoint that the translation names, whose half is the
// server. There are virtual interfaces (package vi), and memory for endpoints of one
// node (package loop). The card of package lanai is a third. Tests have one more, which uses all the freedom that these rules leave
// (package providertest). What a further one must do, for example a network card that holds
// endpoints itself, is written here:
//
//   - A message that is posted arrives once, unless it comes back (Undelivered) or the
//     channel breaks (Broken). One that came back may have arrived all the same, if what
//     should have said so was lost for long. Messages arrive in any order. The halves put
//     requests in order where the API promises it (endpoint/order.go), and of one slot send
//     no message before the other half has reacted to the last, but for skips.
//   - A send buffer is not idle from Post until it is known that the message has arrived or
//     come back. That may be known late, after the other half has reacted; then Sent or
//     Undelivered is called, after which the message is none of the provider's.
//   - Receive buffers, and what says that one was not there (NACK), are the provider's
//     affair. A half keeps as many packets as there are slots, and one more, at most.
//   - Who has been granted a window may write to that memory, once, and the other side
//     hears of it (Placed) when all of it is there. A peer can write to nothing else. A write
//     does not come back: Wrote is called when data may be changed, which may be late, or
//     the channel breaks.
//   - A channel that cannot go on says so once (Broken), and never later than
//     the provider's limit for a silent peer. It also says what that means for
//     messages: nothing above knows the errors of a provider. When one end is closed the
//     other breaks, for ReasonBadEndpoint if that is heard, after all that has arrived before
//     has been handed on.
//
// All methods but Wait, Gate.Wait, Now and Lookup are called with the node's mutex held,
// and call a half back only from within Poll, Deliver, or their own call.
package provider

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
)

// Host is the node that a provider belongs to, as far as the provider needs it. Its
// methods are called with the node's mutex held.
type Host interface {
	// Admit judges a request for a connection, and makes the half that gets it. A reason
	// that is not 0 refuses it. h.ID becomes the endpoint's number if it was that of a
	// published name. It counts nothing, and knows nothing of memory.
	Admit(h *wire.Hello) (Half, wire.Reason)
	// Attach gives a half that admit has made its channel. The half then belongs to its
	// endpoint.
	Attach(up Half, ch Channel)
	// Refused counts a request for a connection that the provider has refused.
	Refused(reason wire.Reason)
	// Stray counts a message, or a request for a connection, that was dropped because it
	// belongs to nothing or makes no sense.
	Stray()
}

// Budget is how much memory connections that others have asked for may take together,
// in bytes. One station may take half of what the others leave. All providers of a node share one, and keep its
// account: what a connection takes is theirs to know.
type Budget struct {
	Most, Taken int
	by          map[ethertype.MAC]int
}

// Take takes n bytes for a connection with a station if there are so many.
func (b *Budget) Take(station ethertype.MAC, n int) bool {
	own := b.by[station]
	if n > admission.Part(b.Most, b.Taken-own)-own {
		return false
	}
	b.add(station, n)
	return true
}

// Give gives n bytes back.
func (b *Budget) Give(station ethertype.MAC, n int) { b.add(station, -n) }

func (b *Budget) add(station ethertype.MAC, n int) {
	if b.by == nil {
		b.by = map[ethertype.MAC]int{}
	}
	b.Taken += n
	if b.by[station] += n; b.by[station] == 0 {
		delete(b.by, station)
	}
}

// Corked is how many messages of each side a provider has corked, on all channels. The
// node reads it to see whether there is something to flush.
type Corked [2]int

// Dialer makes channels.
type Dialer interface {
	// Dial begins to connect; messages may be posted at once. up's broken is
	// called if it fails, with the reason of the other node's admit if it refused.
	Dial(to wire.Name, greeting wire.Hello, up Half) (Channel, error)
}

// Provider is a node's way to others.
type Provider interface {
	Dialer
	Addr() ethertype.Addr // of the node, for names
	Now() int64           // the time, in nanoseconds
	Virtual() bool        // time is: goroutines run one at a time, and the host's clock does not count
	// Opened and ended tell of the endpoints that the node has, and tagged of their tags,
	// which are none at first. A provider whose card does not hold them need not listen.
	Opened(id uint32)
	Tagged(id uint32, tag wire.Tag)
	Ended(id uint32)
	// Advertise lets others look up addr by a name, until withdraw.
	Advertise(name string) error
	Withdraw(name string)
	// Lookup asks the segment for a name, or only the node's NIC at an address that is not
	// zero, if the provider can.
	Lookup(ctx context.Context, at ethertype.Addr, name string) (ethertype.Addr, error)
	// Poll takes in what has arrived, without blocking.
	Poll() error
	// CatchUp does what was put off until nobody waits for an answer. It comes
	// before wait.
	CatchUp()
	// Wait blocks until there is something for Deliver, Wake is called, or ctx
	// ends, whose error it returns. It is called without the node's mutex, by one
	// goroutine at a time, and followed by Deliver.
	Wait(ctx context.Context) error
	// Deliver hands on what Wait has found. If atOnce is set and Wait has found one message
	// alone, Deliver offers it to its half's HandleNow first, and reports whether that handled it.
	Deliver(atOnce bool) (handled bool)
	// Flush sends what is corked on one side's channels.
	Flush(wire.Side)
	// Wake ends the present wait, or else the next one.
	Wake()
	// Gate returns a new place to wait at beside the goroutine in Wait.
	Gate() Gate
	// Drain flushes, and waits until the peers' interfaces have what was sent and
	// the node owes nothing, for a second at most. Nobody else waits meanwhile.
	Drain(owes func() bool)
	// Close ends the provider and frees what it has opened. All channels are closed.
	Close() error
}

// Gate is where a goroutine waits for the one that takes in messages for all.
type Gate interface {
	// Wait blocks until open has been called since it last returned, or ctx ends, whose
	// error it returns. It may return for no reason. It is called without the node's
	// mutex, by one goroutine at a time.
	Wait(ctx context.Context) error
	Open()
}

// Channel is one end of a connection.
type Channel interface {
	// Buffer returns send buffer i, into which a message is built.
	Buffer(i int) []byte
	// Post sends the first n bytes of buffer i, which must be idle. The message may be
	// corked until Flush, or until so many go together; together may be Uncork.
	Post(i, n, together int)
	// Idle reports whether send buffer i may be changed.
	Idle(i int) bool
	// Grant lets the peer write to mem on behalf of a slot, until it has done so
	// (placed).
	Grant(slot int, mem []byte) (wire.Window, error)
	// Revoke withdraws a grant that the peer has not used.
	Revoke(slot int)
	// Write places data in the peer's window; wrote is called when data may be
	// changed again. No other write for the slot may be under way. If await is set, a caller
	// waits for wrote.
	Write(slot int, data []byte, to wire.Window, await bool)
	// Land sends the announcement of bulk data in the first n bytes of buffer i, and the data
	// with it as a message of the kind that has its data, if the peer has memory for that and
	// no write for the slot is under way. It reports false, and does nothing, if it cannot.
	// Wrote is called when data may be changed again, for which a caller waits if await is set.
	// The buffer stays idle.
	Land(i, slot, n int, data []byte, await bool) bool
	// Writing reports whether the last write for a slot is still under way.
	Writing(slot int) bool
	// Release gives a received packet back.
	Release(p *Packet)
	// Close ends the connection at once. Nothing is called back afterwards.
	Close()
}

// How many messages may go together.
const (
	CoalesceMost = 64 // the most
	Uncork       = -1 // no other one will follow soon: it goes at once, with what is corked
)

// Half is what a channel calls back: client or server.
type Half interface {
	Received(p *Packet)
	// HandleNow is Received for a message that is all that has arrived, while a bundle
	// waits for one. It may handle it at once on that one's behalf, and reports whether it
	// has. It is a second way, for what a program that waits for one message at a time does
	// all day: it takes a twentieth off the time of a ping-pong.
	HandleNow(p *Packet) bool
	Placed(slot int)
	Wrote(slot int)
	Sent() // some send buffer has become idle
	// Undelivered is Sent for a message that has come back from send buffer i, for a reason
	// that is not 0.
	Undelivered(i int, reason wire.Reason)
	// Broken says that the connection is gone, for a reason that is not 0. err
	// may be nil. It is ReasonBadEndpoint when the other side has ended it.
	Broken(reason wire.Reason, err error)
}

// MaxBulk is the longest payload of a bulk message, in bytes. Every provider carries it: the
// one over VIs, in one RDMA write.
const MaxBulk = 1 << 30

// Packet is a received message. The provider parses it, and drops what is none.
type Packet struct {
	Head   wire.Header
	Body   []byte  // arguments and payload, in the provider's memory; not nil
	Slot   int     // if placed: body is nil and bulk data for the slot has come
	next   *Packet // in the queue of its half
	Landed bool    // it has come by Land, and may be longer than medium messages are
	Home   any     // the provider's own
}

// Packets is a queue, linked through the packets themselves, because there are two for each
// connection, most of them empty: rings of their own (internal/fifo) would take memory, and
// allocate. The zero queue is empty.
type Packets struct{ Head, tail *Packet }

// Push appends a packet, which is in no other queue.
func (q *Packets) Push(p *Packet) {
	p.next = nil
	if q.Head == nil {
		q.Head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
}

// Pop removes and returns the first packet, or returns nil.
func (q *Packets) Pop() *Packet {
	p := q.Head
	if p != nil {
		q.Head, p.next = p.next, nil
	}
	return p
}

// Len returns how many there are.
func (q *Packets) Len() (n int) {
	for p := q.Head; p != nil; p = p.next {
		n++
	}
	return n
}

// MaxCardMedium is the longest payload of a medium message between cards, in bytes.
const MaxCardMedium = 8192

// OnCard connects a program, whose node is up, to a card (*lanai.Card). Connections that others ask for
// take memory from the budget. A silent program counts as dead after silent; 0 means a default. Package
// lanai sets OnCard, so that its documentation need not show what only package endpoint calls.
var OnCard func(card any, up Host, memory *Budget, silent time.Duration) (Provider, error)
