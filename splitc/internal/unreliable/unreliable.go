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

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/vipl"
)

// credits of the channels: how many requests, and as many replies, may be under way to a
// rank. Powers of two, and no more than a word has bits.
var credits = [msg.Channels]int{msg.Short: 64, msg.Medium: 16}

// spare is how many receives there are for what is not in the window: no-op replies, and
// messages that come again. Without a receive a message is lost, and comes again.
const spare = 8

// tick is how often timers are looked at, nanoseconds.
const tick = int64(1e6)

// Layer is layer.Layer over unreliable VIs.
type Layer struct {
	mesh.Base
	msg.Operations
	peers  []*peer // nil for this rank
	slabs  mesh.Slabs
	ptag   vipl.Ptag
	tickAt int64
}

// peer is another rank.
type peer [msg.Channels]*channel

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l := &Layer{Base: mesh.Base{Config: cfg, Name: "unreliable"}, peers: make([]*peer, cfg.Procs),
		slabs: mesh.NewSlabs(cfg.Procs, slabSize(msg.Short), slabSize(msg.Medium))}
	l.Take = l.take
	l.Operations = msg.New(&l.Base, l)
	l.Base.Uncork = l.SendHeld
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Layer) open(ctx context.Context) (err error) {
	entries := 0
	for _, n := range credits {
		entries += (l.Procs - 1) * (4*n + spare + 1)
	}
	if err = l.Begin(entries); err != nil {
		return err
	}
	if l.ptag, err = l.NIC.CreatePtag(); err != nil {
		return err
	}
	_, l.Did.Strays, err = mesh.Connect(ctx, mesh.Config{Config: l.Config, Name: l.Name, Kinds: msg.Channels, Make: l.makeChannel})
	return err
}

// Poll takes in what has come, and sends again what is due.
func (l *Layer) Poll() error {
	err := l.Base.Poll()
	l.look()
	return err
}

// Wait waits until something has come or ctx, a slice, ends.
func (l *Layer) Wait(ctx context.Context) error {
	l.look()
	err := l.Base.Wait(ctx)
	l.look()
	return err
}

// look looks at the timers, if it is time to.
func (l *Layer) look() {
	now := l.NIC.Now()
	if now < l.tickAt {
		return
	}
	l.Clock, l.tickAt = now, now+tick
	for _, p := range l.peers {
		for i := range msg.Channels {
			if p != nil && p[i] != nil && p[i].Gone == nil {
				l.service(p[i], now)
			}
		}
	}
}

// Flush waits a little until the others have processed what was sent.
func (l *Layer) Flush(ctx context.Context) error {
	engine := seam.EngineOf(l.NIC)
	end := l.NIC.Now() + int64(min(mesh.DrainTime, engine.Left(ctx, mesh.DrainTime)))
	for !l.quiet() && l.Err == nil && l.NIC.Now() < end && engine.Ended(ctx) == nil {
		if err := l.Wait(l.Watch.Slice()); err != nil {
			return err
		}
	}
	return l.Err
}

// quiet reports whether all that was sent is acknowledged, and no acknowledgement is owed.
func (l *Layer) quiet() bool {
	for _, p := range l.peers {
		for i := range msg.Channels {
			if c := p.channel(i); c != nil && c.Gone == nil && (!c.w.quiet() || c.w.owed > 0) {
				return false
			}
		}
	}
	return true
}

// channel returns a channel, or nil if it was not made.
func (p *peer) channel(i int) *channel {
	if p == nil {
		return nil
	}
	return p[i]
}

// Close waits a little until the others have processed what was sent, without processing
// anything more, and releases everything.
func (l *Layer) Close() {
	l.Closed = true
	if l.CQ != nil {
		_ = l.Flush(context.Background()) // it fails if the program has, and then nobody waits for more
	}
	for _, p := range l.peers {
		for i := range msg.Channels {
			if c := p.channel(i); c != nil {
				c.close(l.NIC)
			}
		}
	}
	if l.ptag != 0 {
		l.NIC.DestroyPtag(l.ptag)
	}
	l.Free()
}

// Room implements msg.Carrier.
func (l *Layer) Room(ctx context.Context, proc, channel int) ([]byte, *msg.Pending, error) {
	c := l.peers[proc][channel]
	if !c.room() {
		if err := l.await(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	if l.Err != nil {
		return nil, nil, l.Err
	}
	if c.Gone != nil {
		return nil, nil, l.Lost(&c.End)
	}
	return c.mem(c.next(request))[headSize:], &c.pending, nil
}

// await waits until there is room. Timers are looked at meanwhile.
func (l *Layer) await(ctx context.Context, c *channel) error {
	l.Did.CreditWaits++
	wait := l.Watch.Stall(c.Rank, &l.Did.CreditTime)
	defer wait.End()
	for !c.room() {
		if c.Gone != nil {
			return l.Lost(&c.End)
		}
		if err := l.Wait(l.Watch.Slice()); err != nil {
			return err
		}
		if err := wait.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ready implements msg.Carrier.
func (l *Layer) Ready(proc, channel int) bool {
	c := l.peers[proc][channel]
	return c.room() || c.Gone != nil
}

// Send implements msg.Carrier.
func (l *Layer) Send(proc, channel, n int, data []byte) error {
	c := l.peers[proc][channel]
	n += copy(c.mem(c.next(request))[headSize+n:], data)
	if l.first(c, request, n, l.NIC.Now()); c.Gone != nil {
		return l.Lost(&c.End)
	}
	return nil
}

var _ layer.Layer = (*Layer)(nil)
