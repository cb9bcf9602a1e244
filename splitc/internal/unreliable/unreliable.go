// Package unreliable is the communication layer of Split-C over VIs of the unreliable
// level (paper, 5.4), whose frames may be lost, doubled and overtaken: two VIs between two
// ranks, for short and for medium messages, and on each a sliding window merged with the
// credits. Requests and replies are numbered apart; every message acknowledges what was
// processed of both; messages are processed in the order in which they were sent; a no-op
// reply goes when a quarter of the credits were taken and nothing was sent back.
//
// What the paper had not: a rank that lacks a message and holds later ones says which, and the
// missing ones are sent again; so are the oldest of those of which nothing is heard for long;
// messages that come again are known by their numbers, and numbers wrap around. Nobody is taken for dead
// for being silent, because a rank that computes is: whether a rank lives says the job's
// own connection.
//
// A frame is a number, the acknowledgements of requests and of replies, 4 bytes each, and
// a message of package msg. A no-op reply has no number.
package unreliable

import (
	"context"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
)

// credits of the channels: how many requests, and as many replies, may be under way to a
// rank. Powers of two, and no more than a word has bits.
var credits = [msg.Channels]int{msg.Short: 64, msg.Medium: 16}

// spare is how many receives there are for what is not in the window: no-op replies, and
// messages that come again. Without a receive a message is lost, and comes again.
const spare = 8

// headSize is the length of what comes before the message in a frame.
const headSize = 12

// tick is how often timers are looked at, nanoseconds.
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

// scheme returns what the layer is like. Its channels belong to l.
func (l *Layer) scheme() *msg.Scheme {
	return &msg.Scheme{Name: "unreliable", Reliability: reliability.Unreliable, Credits: credits, Spare: spare, Head: headSize,
		Flow: func(base *msg.Layer, c *msg.Channel) msg.Flow {
			f := newChannel(base, c)
			l.channels = append(l.channels, f)
			return f
		}}
}

// look looks at the timers, if it is time to.
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

// Flush waits a little until the others have processed what was sent, and no acknowledgement is
// owed.
func (l *Layer) Flush(ctx context.Context) error { return l.Drain(ctx, l.Quiet) }
