package endpoint

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Slots, credits, and why nothing can deadlock.
//
// A request takes a slot of its translation's connection and keeps it until its
// end: the slots are the credits. The messages that belong to one slot follow
// each other strictly, each sent only after the one before has been handled:
//
//	client                                       server
//	  | short, medium, bulk, get --------------->  |  handler
//	  | <--------------- reply, return, or done    |  the end of most
//
//	  | announce --------------------------------> |  checks
//	  | <---------------------------- clear, return|
//	  | write ...................................> |  handler
//
//	  | <-------------------------- announce reply |
//	  | clear -----------------------------------> |
//	  | <................................... write |  handler at the client
//	  | <- return, if it was a get that is refused |  instead
//
//	  | refuse (the reply) ----------------------> |  returned-message handler
//	  | <--------------------------------- done    |
//
//	  | skip (the request returned: alone.go) ---> |  handles those behind it
//	  | <--------------------------------- done    |
//
// With k slots at most k messages are in flight or unhandled in each direction, whatever their
// sizes. k receive buffers would suffice, except for the message whose handler is running. The
// handler reads its payload in place, so its buffer is posted again only after the handler has
// returned. But its reply may already have let the client send another request. So there is one
// extra receive (AMVIA, section 4.2). One is enough, because the handlers of one connection run one
// at a time.
//
// Batches (internal/vi/batch.go) need no more: their messages are in windows, and each batch uses
// one receive for at least one request. With batches, each side gets one message about windows, for
// which it has one more receive. Every buffer holds every size, so a reply may have another size
// than its request, as AMVIA requires.
//
// It follows that a handler never waits. Its reply needs no credit: the send buffer belongs to the
// slot, and a receive is posted for it. A long bulk reply is copied and announced. A caller that
// waits for a slot is not a handler, and serves replies and requests meanwhile. So two endpoints
// that flood each other both keep serving. The provider delivers or breaks within bounded time, and
// a broken connection ends every slot.

// slotState is the progress of a request at the client.
type slotState uint8

const (
	slotFree     slotState = iota
	slotWaiting            // for an answer
	slotGranting           // for the data of a bulk reply
	slotPlaced             // the data have arrived and wait for the handler
	slotHandling           // for the end of the handler of its reply or return
	slotRefusing           // the reply has been refused; for the server to end the request
	slotLost               // the request has returned alone; for the ReturnHandler
	slotSkipping           // the ReturnHandler has returned; for the answer to the skip
)

// slot is a request in flight.
type slot struct {
	state   slotState
	op      Op
	pool    uint8
	cleared bool   // the server has named the window
	awaited bool   // a RequestBulk waits until the data have been written
	use     uint32 // the number of the request, from 1 on
	n       int    // bytes of the request, in the send buffer of the slot's number
	sent    int64  // send time, set by Node.stamp
	data    []byte // bulk data that has not been written yet
	call    *call
	reply   wire.Header // of the bulk reply in progress
	hole    bool        // the server has not answered the skip yet
	landed  bool        // the bulk reply arrived by Land
	second  bool        // the slot's second send buffer has been used
	again   bool        // the message in it has returned once
	length  int         // bytes of this message
	owed    wire.Kind   // refuse or skip, if it waits for the second buffer
	why     wire.Reason // why the request returned alone, or why its reply is refused
	args    [MaxShort]uint32
	placed  provider.Packet
}

// granting reports whether the request holds a grant of the segment.
func (s *slot) granting() bool { return s.state == slotGranting || s.state == slotPlaced }

// long reports whether the last request in the slot, or its reply, was a bulk transfer.
func (s *slot) long() bool { return s.op == OpRequestBulk || s.second || s.landed }

// pool holds the free slots of a size, in the order in which they became free. The next one is the
// slot that has been free for longest, or the newest for a single request after a long one.
type pool struct {
	slots   []uint16
	head, n int
}

func newPool(from, n int) pool {
	p := pool{slots: make([]uint16, n), n: n}
	for i := range p.slots {
		p.slots[i] = uint16(from + i)
	}
	return p
}

func (p *pool) advance() {
	p.n--
	if p.head++; p.head == len(p.slots) {
		p.head = 0
	}
}

// newest returns the slot that became free last. There must be one.
func (p *pool) newest() int {
	at := p.head + p.n - 1
	if at >= len(p.slots) {
		at -= len(p.slots)
	}
	return int(p.slots[at])
}

func (p *pool) put(i int) {
	at := p.head + p.n
	if at >= len(p.slots) {
		at -= len(p.slots)
	}
	p.slots[at] = uint16(i)
	p.n++
}

// poolOf returns the pool from which a request takes its slot.
func (c Credits) poolOf(op Op) uint8 {
	switch {
	case c.shared() || op == OpRequest:
		return 0
	case op == OpRequestMedium:
		return 1
	}
	return 2
}

func (c Credits) pools() [3]pool {
	return [3]pool{newPool(0, c.Short), newPool(c.Short, c.Medium), newPool(c.Short+c.Medium, c.Bulk)}
}

// shape returns the shape of a channel with these credits.
func (c Credits) shape(medium int) wire.Shape {
	s := wire.Shape{Slots: c.total(), Medium: medium}
	if !c.shared() {
		s.Small = c.Short
	}
	return s
}
