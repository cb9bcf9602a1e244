// Package unreliable is Split-C's communication layer over VIs of the unreliable level (paper, 5.4).
// Frames may be lost, duplicated and reordered. It uses two VIs between two ranks, for short and for
// medium messages, each with a sliding window that also implements the credits. Requests and replies are
// numbered separately. Every message acknowledges the processed messages of both. Messages are processed
// in the order of sending. A no-op reply is sent if a quarter of the credits was consumed and no other
// message has been sent back.
//
// The following is not in the paper. A rank that misses a message and holds later ones reports which,
// and the missing ones are sent again. The oldest messages without any answer for a long time are sent
// again, too. Duplicates are recognized by their numbers, and numbers wrap around. A silent rank does
// not count as dead, because it may compute: the job's own connection detects dead ranks.
//
// A frame consists of a number, the acknowledgements of requests and of replies, 4 bytes each, and a
// message of package msg. A no-op reply has no number.
package unreliable

import (
	"context"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
)

// credits are the credits of the channels: the most requests in flight to a rank, and as many
// replies. They are powers of two, and at most the number of bits in a word.
var credits = [msg.Channels]int{msg.Short: 64, msg.Medium: 16}

// spare is the number of receives for frames outside the window: no-op replies, and duplicates. A
// message without a receive is lost, and sent again.
const spare = 8

// headSize is the length of the part of a frame before the message.
const headSize = 12

// tick is the interval of timer checks, in nanoseconds.
const tick = int64(1e6)

// Layer is layer.Layer over unreliable VIs.
type Layer struct {
	*msg.Layer
	channels []*channel
	tickAt   int64
}

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (_ layer.Layer, err error) {
	l := new(Layer)
	if l.Layer, err = msg.Open(ctx, cfg, l.scheme()); err != nil {
		return nil, err
	}
	l.Service = func() {
		l.SendHeld()
		l.look()
	}
	return l, nil
}

// scheme returns the layer's scheme. Its channels belong to l.
func (l *Layer) scheme() *msg.Scheme {
	return &msg.Scheme{Name: "unreliable", Reliability: reliability.Unreliable, Credits: credits, Spare: spare, Head: headSize,
		Flow: func(base *msg.Layer, c *msg.Channel) msg.Flow {
			f := newChannel(base, c)
			l.channels = append(l.channels, f)
			return f
		}}
}

// look checks the timers if it is time to.
func (l *Layer) look() {
	now := l.NIC.Now()
	if now < l.tickAt {
		return
	}
	l.Clock, l.tickAt = now, now+tick
	for _, c := range l.channels {
		if c.Gone == nil {
			c.service(now)
		}
	}
}

// Flush waits a short time until the other ranks have processed all messages, and no
// acknowledgement is owed.
func (l *Layer) Flush(ctx context.Context) error { return l.Drain(ctx, l.Quiet) }
