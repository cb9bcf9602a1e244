// Package reliable is the communication layer of Split-C over VIs of reliable delivery
// (paper, 5.3): two VIs between two ranks, for short and for medium messages; no handlers,
// but small integers in one switch; and credits, without which a message would find no
// receive and end the connection.
//
// Data of bulk messages that lie in the heap are sent from there, and others are copied. What is
// sent faster than this rank polls goes together.
//
// A request takes a credit. Its reply gives it back. Stores and control messages have no
// reply: every message says how many of them its sender has done, and one of its own, the
// special acknowledgement, does so when they are a quarter of the credits and nothing else
// has been sent. On each VI there are receives for the credits, for as many replies, and
// for the special acknowledgements that can be under way.
package reliable

import (
	"context"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
)

// credits of the channels: how many requests of a rank another one has room for.
var credits = [msg.Channels]int{msg.Short: 48, msg.Medium: 32}

// share is how many requests that are posted faster than this rank polls go together. The first
// two go at once.
const share = 8

// gather is the length from which on data in the heap are sent from where they lie.
const gather = 2048

// specials is how many special acknowledgements can be under way: one for each quarter of
// the credits, and one that is on its way when its sender has more to say.
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
	total    int // credits there are
	credit   int // requests that may be sent now
	done     int // requests without a reply that were done and not acknowledged
	telling  bool
	requests []uint8      // buffers that are free: the first total ones
	replies  []uint8      // buffers that are free: as many more
	waiting  []*mesh.Recv // requests for whose replies no buffer is free
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

// last returns the buffer that was freed last; there is one.
func last(free []uint8) int { return int(free[len(free)-1]) }

// Room implements msg.Flow.
func (c *channel) Room() bool { return c.credit > 0 && len(c.requests) > 0 }

// Request implements msg.Flow.
func (c *channel) Request() []byte { return c.Buffer(last(c.requests)) }

// Quiet implements msg.Flow.
func (c *channel) Quiet() bool { return c.Sending == 0 }

// Send implements msg.Flow: it takes a credit.
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

// post sends a message, which says how many requests without replies are done.
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

// tell sends the special acknowledgement, if it is due.
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
