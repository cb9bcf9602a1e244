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
	"github.com/bobnet-go/bobnet/vipl"
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

// Layer is layer.Layer over reliable VIs.
type Layer struct {
	mesh.Base
	msg.Operations
	peers []*peer // nil for this rank
	slabs mesh.Slabs
	ptag  vipl.Ptag
	heap  vipl.MemHandle // of this rank's heap
}

// peer is another rank.
type peer [msg.Channels]*channel

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l := &Layer{Base: mesh.Base{Config: cfg, Name: "reliable"}, peers: make([]*peer, cfg.Procs),
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
		entries += (l.Procs - 1) * 2 * (2*n + specials)
	}
	if err = l.Begin(entries); err != nil {
		return err
	}
	if l.ptag, err = l.NIC.CreatePtag(); err != nil {
		return err
	}
	if l.heap, err = l.NIC.RegisterMem(l.Memory, &vipl.MemAttributes{Ptag: l.ptag}); err != nil {
		return err
	}
	_, l.Did.Strays, err = mesh.Connect(ctx, mesh.Config{Config: l.Base.Config, Name: l.Name, Kinds: msg.Channels, Make: l.makeChannel})
	return err
}

// Close waits a little until the last messages have left, and releases everything.
func (l *Layer) Close() {
	l.Drain(l.quiet)
	for _, p := range l.peers {
		for i := range msg.Channels {
			if p != nil && p[i] != nil {
				p[i].close(l.NIC)
			}
		}
	}
	if l.heap != 0 {
		l.NIC.DeregisterMem(l.heap)
	}
	if l.ptag != 0 {
		l.NIC.DestroyPtag(l.ptag)
	}
	l.Free()
}

// quiet reports whether nothing that was sent is under way.
func (l *Layer) quiet() bool {
	for _, p := range l.peers {
		for i := range msg.Channels {
			if p != nil && p[i] != nil && p[i].Gone == nil && p[i].sending > 0 {
				return false
			}
		}
	}
	return true
}

// Room implements msg.Carrier: it takes a credit.
func (l *Layer) Room(ctx context.Context, proc, channel int) ([]byte, *msg.Pending, error) {
	c := l.peers[proc][channel]
	if !c.room() {
		if err := l.Await(ctx, &c.End, c.room); err != nil {
			return nil, nil, err
		}
	}
	if l.Err != nil {
		return nil, nil, l.Err
	}
	if c.Gone != nil {
		return nil, nil, l.Lost(&c.End)
	}
	return c.buffer(last(c.requests)), &c.pending, nil
}

// Ready implements msg.Carrier.
func (l *Layer) Ready(proc, channel int) bool {
	c := l.peers[proc][channel]
	return c.room() || c.Gone != nil
}

// room reports whether a request may be sent.
func (c *channel) room() bool { return c.credit > 0 && len(c.requests) > 0 }

// Send implements msg.Carrier.
func (l *Layer) Send(proc, channel, n int, data []byte) error {
	c := l.peers[proc][channel]
	buffer := last(c.requests)
	if len(data) < gather || !l.InHeap(data) {
		n += copy(c.buffer(buffer)[n:], data)
		data = nil
	}
	c.requests = c.requests[:len(c.requests)-1]
	c.credit--
	later := c.kind == msg.Medium && c.sending >= 2 && (c.sending+1)%share != 0
	if l.post(c, buffer, n, data, later); c.Gone != nil {
		return l.Lost(&c.End)
	}
	return nil
}

var _ layer.Layer = (*Layer)(nil)
