// Package reliable is Split-C's communication layer over VIs of reliable delivery (paper, 5.3). It
// uses two VIs between two ranks, for short and for medium messages. There are no handlers: small
// integers select the action in one switch. Credits prevent that a message finds no receive, which
// would end the connection.
//
// Data of bulk messages that lie in the heap are sent in place, and others are copied. Messages
// that are sent faster than this rank polls are sent together.
//
// A request consumes a credit, and its reply returns it. Stores and control messages have no reply.
// Instead, every message carries the number of them that its sender has processed. If a quarter of
// the credits is due and no other message has been sent, a separate message carries it: the special
// acknowledgement. Each VI has receives for the credits, for as many replies, and for the special
// acknowledgements that can be in flight.
package reliable

import (
	"context"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
)

// credits are the credits of the channels: the number of requests of a rank that another one has
// room for.
var credits = [msg.Channels]int{msg.Short: 48, msg.Medium: 32}

// share is the number of requests that are sent together if they are posted faster than this rank
// polls. The first two are sent at once.
const share = 8

// gather is the length in bytes from which data in the heap are sent in place.
const gather = 2048

// specials is the most special acknowledgements in flight: one for each quarter of the credits, and
// one that is in flight when its sender has more to report.
const specials = 4 + 1

var scheme = msg.Scheme{Name: "reliable", Credits: credits, Spare: specials, Gather: true, Flow: newChannel}

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l, err := msg.Open(ctx, cfg, &scheme)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// channel is msg.Flow with credits.
type channel struct {
	*msg.Channel
	l        *msg.Layer
	total    int // number of credits
	credit   int // requests that may be sent now
	done     int // requests without a reply that were processed and not acknowledged
	telling  bool
	requests []uint8      // free buffers for requests: of the first total ones
	replies  []uint8      // free buffers for replies: of the next total ones
	waiting  []*mesh.Recv // requests that wait for a free reply buffer
}

func newChannel(l *msg.Layer, c *msg.Channel) msg.Flow {
	n := credits[c.Kind]
	free := make([]uint8, 2*n)
	for i := range free {
		free[i] = uint8(i)
	}
	return &channel{Channel: c, l: l, total: n, credit: n, requests: free[:n:n], replies: free[n:]}
}

// special returns the buffer for special acknowledgements.
func (c *channel) special() int { return 2 * c.total }

// last returns the buffer that was freed last. There must be one.
func last(free []uint8) int { return int(free[len(free)-1]) }

// Room implements msg.Flow.
func (c *channel) Room() bool { return c.credit > 0 && len(c.requests) > 0 }

// Request implements msg.Flow.
func (c *channel) Request() []byte { return c.Buffer(last(c.requests)) }

// Quiet implements msg.Flow.
func (c *channel) Quiet() bool { return c.Sending == 0 }

// Send implements msg.Flow. It consumes a credit.
func (c *channel) Send(n int, data []byte) {
	buffer := last(c.requests)
	if len(data) < gather || !c.l.InHeap(data) {
		n += copy(c.Buffer(buffer)[n:], data)
		data = nil
	}
	c.requests = c.requests[:len(c.requests)-1]
	c.credit--
	c.post(buffer, n, data, c.Kind == msg.Medium && c.Sending >= 2 && (c.Sending+1)%share != 0)
}

// post sends a message with the number of processed requests without replies.
func (c *channel) post(buffer, n int, data []byte, later bool) {
	c.Buffer(buffer)[1] = byte(c.done)
	c.done = 0
	if !c.l.Post(c.Channel, buffer, n, data, later) {
		c.release(buffer)
	}
}

// release frees a buffer.
func (c *channel) release(buffer int) {
	switch {
	case buffer == c.special():
		c.telling = false
	case buffer < c.total:
		c.requests = append(c.requests, uint8(buffer))
	default:
		c.replies = append(c.replies, uint8(buffer))
	}
}

// tell sends the special acknowledgement if it is due.
func (c *channel) tell() {
	if c.done < c.total/4 || c.telling || c.Gone != nil {
		return
	}
	c.telling = true
	c.l.Did.Acknowledgments++
	mem := c.Buffer(c.special())
	clear(mem[:msg.HeaderSize])
	mem[0] = msg.NoOp
	c.post(c.special(), msg.HeaderSize, nil, false)
}
