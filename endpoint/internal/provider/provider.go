// Package provider defines the contract between endpoints and the provider that carries their
// messages: the interfaces of both sides, and their rules.
//
// A provider carries messages between endpoints. It knows nothing of handlers, credits or events,
// and only the tags that it receives by Tagged. It makes channels. Each connects an endpoint that
// has a translation, whose half is the client, with the endpoint that the translation names, whose
// half is the server. There are three providers: over virtual interfaces (package vi), through
// memory for endpoints of one node (package loop), and over the card of package lanai. Tests have a
// fourth, which uses all the freedom that these rules leave (package providertest). The rules for a
// new one, for example for a network card that holds endpoints itself:
//
//   - A posted message arrives once, unless it returns (Undelivered) or the channel breaks
//     (Broken). A message that returned may nevertheless have arrived, if its acknowledgement was
//     lost for long. Messages arrive in any order. The halves restore the order of requests where
//     the API promises it (endpoint/order.go). They send no message of a slot before the other half
//     has reacted to the previous one, except skips.
//   - A send buffer is not idle from Post until the provider knows that the message has arrived or
//     returned. It may learn this late, after the other half has reacted. It then calls Sent or
//     Undelivered, and does not touch the message afterwards.
//   - The provider manages receive buffers, and the report that none was free (NACK). A half keeps
//     at most one packet more than there are slots.
//   - A peer that has been granted a window may write to that memory, once. The provider reports
//     (Placed) when all data are there. A peer can write to nothing else. A write does not
//     return: either the provider calls Wrote when data may be changed, which may be late, or the
//     channel breaks.
//   - A channel that cannot continue calls Broken once, at the latest after the provider's time limit
//     for a silent peer. It passes the reason for which messages return: the layers above do not
//     know the errors of a provider. When one end is closed, the other breaks after it has passed
//     on all that arrived before. The reason is ReasonBadEndpoint if the notice of the close arrives.
//
// All methods but Wait, Gate.Wait, Now and Lookup are called with the node's mutex held, and call a
// half back only from within Poll, Deliver, or their own call.
package provider

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
)

// Host is the interface of a node to its providers. Its methods are called with the node's mutex
// held.
type Host interface {
	// Admit decides on a request for a connection, and makes the half that gets it. A reason that
	// is not 0 refuses it. If h.ID was that of a published name, it becomes the endpoint's number.
	// Admit counts nothing, and does not consider memory.
	Admit(h *wire.Hello) (Half, wire.Reason)
	// Attach gives its channel to a half that Admit has made. The half then belongs to its
	// endpoint.
	Attach(up Half, ch Channel)
	// Refused counts a request for a connection that the provider has refused.
	Refused(reason wire.Reason)
	// Stray counts a message, or a request for a connection, that was dropped because it
	// belongs to nothing or makes no sense.
	Stray()
}

// Budget limits the memory for connections that others have requested, in bytes. One station may
// use half of what the others leave. All providers of a node share one Budget and do its
// accounting, because they know how much memory a connection needs.
type Budget struct {
	Most, Taken int
	by          map[ethertype.MAC]int
}

// Take takes n bytes for a connection with a station, and reports whether they were available.
func (b *Budget) Take(station ethertype.MAC, n int) bool {
	own := b.by[station]
	if n > admission.Part(b.Most, b.Taken-own)-own {
		return false
	}
	b.add(station, n)
	return true
}

// Give returns n bytes to the budget.
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

// Corked is how many messages of each side a provider has corked, on all channels. The node reads
// it to see whether a flush is necessary.
type Corked [2]int

// Dialer makes channels.
type Dialer interface {
	// Dial begins to connect; messages may be posted at once. It calls up's Broken if the
	// connection fails, with the reason of the other node's Admit if that refused.
	Dial(to wire.Name, greeting wire.Hello, up Half) (Channel, error)
}

// Provider carries the messages of one node.
type Provider interface {
	Dialer
	Addr() ethertype.Addr // of the node, for names
	Now() int64           // the time, in nanoseconds
	Virtual() bool        // Now is virtual: goroutines run one at a time, and the host's clock does not count
	// Opened and Ended report the endpoints that the node has, and Tagged their tags. An endpoint
	// has no tag at first. A provider whose card does not hold endpoints may ignore the calls.
	Opened(id uint32)
	Tagged(id uint32, tag wire.Tag)
	Ended(id uint32)
	// Advertise lets others look up addr by a name, until Withdraw.
	Advertise(name string) error
	Withdraw(name string)
	// Lookup finds a name by broadcast discovery. If at is not zero and the provider can, it asks
	// only the NIC at that address.
	Lookup(ctx context.Context, at ethertype.Addr, name string) (ethertype.Addr, error)
	// Poll handles arrived messages, without blocking.
	Poll() error
	// CatchUp does work that was deferred while a program might wait for an answer. The node calls
	// it before Wait.
	CatchUp()
	// Wait blocks until there is something for Deliver, Wake is called, or ctx
	// ends, whose error it returns. It is called without the node's mutex, by one
	// goroutine at a time, and followed by Deliver.
	Wait(ctx context.Context) error
	// Deliver passes on what Wait has found. If atOnce is set and Wait has found a single message,
	// Deliver first offers it to its half's HandleNow, and reports whether that handled it.
	Deliver(atOnce bool) (handled bool)
	// Flush sends the corked messages of one side's channels.
	Flush(wire.Side)
	// Wake ends the current wait, or else the next one.
	Wake()
	// Gate returns a new place where a goroutine can wait in addition to the one in Wait.
	Gate() Gate
	// Drain flushes. Then it waits, for at most a second, until the peers' interfaces have received
	// all messages and owes returns false. No other goroutine waits meanwhile.
	Drain(owes func() bool)
	// Close closes the provider and frees its resources. All channels must be closed.
	Close() error
}

// Gate is where goroutines wait while another one receives messages for all.
type Gate interface {
	// Wait blocks until Open has been called since it last returned, or ctx ends, and returns the
	// error of ctx. It may return without a reason. It is called without the node's mutex, by one
	// goroutine at a time.
	Wait(ctx context.Context) error
	Open()
}

// Channel is one end of a connection.
type Channel interface {
	// Buffer returns send buffer i, into which a message is built.
	Buffer(i int) []byte
	// Post sends the first n bytes of buffer i, which must be idle. The provider may cork the
	// message until Flush, or until together messages can be sent as one; together may be Uncork.
	Post(i, n, together int)
	// Idle reports whether send buffer i may be changed.
	Idle(i int) bool
	// Grant lets the peer write to mem once, on behalf of a slot. Placed reports the write.
	Grant(slot int, mem []byte) (wire.Window, error)
	// Revoke withdraws a grant that the peer has not used.
	Revoke(slot int)
	// Write places data in the peer's window; wrote is called when data may be
	// changed again. No other write for the slot may be in progress. If await is set, a caller
	// waits for wrote.
	Write(slot int, data []byte, to wire.Window, await bool)
	// Land sends the announcement of bulk data, in the first n bytes of buffer i, together with the
	// data, as one message. This requires that the peer has memory for it, and that no write for
	// the slot is in progress. Otherwise Land returns false and does nothing. Wrote is called when
	// data may be changed again; if await is set, a caller waits for it. The buffer stays idle.
	Land(i, slot, n int, data []byte, await bool) bool
	// Writing reports whether the last write for a slot is still in progress.
	Writing(slot int) bool
	// Release gives a received packet back.
	Release(p *Packet)
	// Close ends the connection at once. Nothing is called back afterwards.
	Close()
}

// The number of messages that may be sent as one.
const (
	CoalesceMost = 64 // the limit
	Uncork       = -1 // no other message will follow soon: send it at once, with the corked ones
)

// Half is the interface that a channel calls: a client or a server.
type Half interface {
	Received(p *Packet)
	// HandleNow is Received for a message that is the only one that has arrived, while a bundle
	// waits for one. It may handle the message at once on behalf of the waiting goroutine, and
	// reports whether it did. It exists for programs that wait for one message at a time: it makes
	// a ping-pong 5 % faster.
	HandleNow(p *Packet) bool
	Placed(slot int)
	Wrote(slot int)
	Sent() // a send buffer has become idle
	// Undelivered is Sent for a message that has returned from send buffer i. The reason is not 0.
	Undelivered(i int, reason wire.Reason)
	// Broken reports that the connection is gone. The reason is not 0; it is ReasonBadEndpoint when
	// the other side has ended the connection. err may be nil.
	Broken(reason wire.Reason, err error)
}

// MaxBulk is the longest payload of a bulk message, in bytes. Every provider supports it; the one
// over VIs carries it in one RDMA write.
const MaxBulk = 1 << 30

// Packet is a received message. The provider parses it, and drops malformed ones.
type Packet struct {
	Head   wire.Header
	Body   []byte  // arguments and payload, in the provider's memory; not nil
	Slot   int     // slot whose bulk data have arrived, if Body is nil
	next   *Packet // next in the queue of its half
	Landed bool    // it arrived by Land, and may be longer than medium messages
	Home   any     // for the provider
}

// Packets is a queue, linked through the packets themselves. There are two queues for each
// connection, most of them empty: rings of their own (internal/fifo) would need memory, and
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

// Len returns the number of packets in the queue.
func (q *Packets) Len() (n int) {
	for p := q.Head; p != nil; p = p.next {
		n++
	}
	return n
}

// MaxCardMedium is the longest payload of a medium message between cards, in bytes.
const MaxCardMedium = 8192

// OnCard connects a program, whose node is up, to a card (*lanai.Card). Connections that others
// request take memory from the budget. A silent program counts as dead after silent; 0 means a
// default. Package lanai sets OnCard, so that its documentation need not show functions that only
// package endpoint calls.
var OnCard func(card any, up Host, memory *Budget, silent time.Duration) (Provider, error)
