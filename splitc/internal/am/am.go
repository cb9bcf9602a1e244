// Package am is Split-C's communication layer over active messages: "Split-C over AMVIA" of the
// paper (5.2). A request of a primitive runs a handler at the owner, and the handler's reply runs
// one at the requester. The reply carries the data of a get, reports the completion of a put, and
// does nothing for a store. Bulk operations are split into medium messages. Credits are AMVIA's:
// 64, 8 and 1. Goroutines that wait poll.
package am

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Layer is layer.Layer over an endpoint.
type Layer struct {
	cfg    layer.Config
	node   *endpoint.Node
	bundle *endpoint.Bundle
	ep     *endpoint.Endpoint
	heap   []byte
	count  layer.Counters
	stats  layer.Stats
	err    error             // the first failure
	names  []endpoint.Name   // of the ranks, as they have announced themselves
	dests  []endpoint.Name   // of the ranks, as the lookup found them
	claims [][]endpoint.Name // of endpoints that claim to be a rank that was not found yet, by rank
	met    int               // ranks that have announced their name
	ops    operations

	talks    []talk                    // control messages, by rank
	controls int                       // control messages without an answer
	gathered [layer.MaxControl]byte    // a control message that is about to be sent
	words    [endpoint.MaxShort]uint32 // arguments of a request; handlers may run while it waits
	packed   [shortBytes]byte

	// Used by handlers, which run one at a time.
	answer  [endpoint.MaxShort]uint32
	result  [layer.MaxCall]byte
	message [shortBytes]byte
}

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l := &Layer{cfg: cfg, names: make([]endpoint.Name, cfg.Procs), dests: make([]endpoint.Name, cfg.Procs), talks: make([]talk, cfg.Procs)}
	l.claims, l.ops.due = make([][]endpoint.Name, cfg.Procs), make([]int, cfg.Procs)
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// open creates the endpoint, and connects to the other ranks.
func (l *Layer) open(ctx context.Context) (err error) {
	if l.heap = l.cfg.Heap; l.heap == nil {
		l.heap, err = layer.NewHeap(l.cfg.HeapSize)
	}
	if err != nil {
		return err
	}
	cfg := endpoint.Config{NIC: l.cfg.NIC, Card: l.cfg.Card, Credits: credits, PeerTimeout: l.cfg.PeerTimeout, Logger: l.cfg.Logger}
	if cfg.Card != nil {
		cfg.NIC = nil
	}
	if l.node, err = endpoint.Open(ctx, &cfg); err != nil {
		return err
	}
	if l.bundle, err = l.node.NewBundle(endpoint.Sequential); err != nil {
		return err
	}
	if l.ep, err = l.bundle.NewEndpoint(); err != nil {
		return err
	}
	if n := l.ep.NumTranslations(); n < l.cfg.Procs {
		if err := l.ep.SetNumTranslations(l.cfg.Procs); err != nil {
			return err
		}
	}
	l.ep.SetTag(l.tag())
	l.ep.SetReturnHandler(l.returned)
	if err := l.setHandlers(); err != nil {
		return err
	}
	if err := l.ep.Publish(l.word(l.cfg.Rank)); err != nil {
		return err
	}
	return l.meet(ctx)
}

// tag returns the tag of the run's virtual network: the run's nonce, which only its ranks know.
func (l *Layer) tag() endpoint.Tag {
	id := l.cfg.Member.Identity()
	return max(endpoint.Tag(id.Nonce), endpoint.TagAll+1)
}

// word returns the name under which a rank is found.
func (l *Layer) word(rank int) string {
	id := l.cfg.Member.Identity()
	return fmt.Sprintf("splitc/%016x/%d/%d", id.Nonce, l.cfg.Generation, rank)
}

// meet finds every other rank and announces this rank to it, and waits until all have done the
// same.
func (l *Layer) meet(ctx context.Context) error {
	for i := 1; i < l.cfg.Procs; i++ {
		rank := (l.cfg.Rank + i) % l.cfg.Procs
		name, err := l.find(ctx, rank)
		if err != nil {
			return err
		}
		if err := l.ep.Map(rank, name, l.tag()); err != nil {
			return err
		}
		l.found(rank, name)
		if err := l.request(ctx, rank, hHello, nil, uint32(l.cfg.Rank)); err != nil {
			return err
		}
	}
	for l.met < l.cfg.Procs-1 || l.count.Outstanding > 0 {
		if err := l.Wait(l.cfg.Watch.Slice()); err != nil {
			return err
		}
		if err := l.cfg.Watch.Check(ctx); err != nil && l.met < l.cfg.Procs-1 {
			return fmt.Errorf("waiting for the endpoints of the other ranks (%d of %d have connected): %w", l.met, l.cfg.Procs-1, err)
		}
	}
	return nil
}

// find looks up the name of a rank's endpoint.
func (l *Layer) find(ctx context.Context, rank int) (endpoint.Name, error) {
	for {
		name, err := l.node.FindAt(l.cfg.Watch.Slice(), l.cfg.Member.Addr(rank), l.word(rank))
		if err == nil {
			return name, nil
		}
		if err := l.Poll(); err != nil {
			return name, err
		}
		if late := l.cfg.Watch.Check(ctx); late != nil {
			return name, fmt.Errorf("rank %d publishes no endpoint: %w (%w)", rank, err, late)
		}
	}
}

// drain polls until each control message has been answered. It answers those of other ranks.
func (l *Layer) drain() {
	for i := range l.talks {
		l.release(&l.talks[i])
	}
	for end := l.cfg.NIC.Now() + int64(closePatience); l.controls > 0 && l.err == nil && l.cfg.NIC.Now() < end; {
		if l.Wait(l.cfg.Watch.Slice()) != nil || l.cfg.Member.Err() != nil {
			return
		}
	}
}

// Heap returns this rank's heap.
func (l *Layer) Heap() []byte { return l.heap }

// Direct returns nil: active messages go to every other rank.
func (l *Layer) Direct(int) []byte { return nil }

// Counters returns the counters.
func (l *Layer) Counters() *layer.Counters { return &l.count }

// Poll polls the bundle (AM_Poll).
func (l *Layer) Poll() error {
	_, err := l.bundle.Poll()
	return l.failure(err)
}

// Wait polls until a handler has run, or ctx ends.
func (l *Layer) Wait(ctx context.Context) error {
	_, err := l.bundle.WaitPoll(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return l.failure(err)
}

// Flush polls once: endpoints retransmit by themselves.
func (l *Layer) Flush(context.Context) error { return l.Poll() }

// failure returns the first failure, which is err if there was none before.
func (l *Layer) failure(err error) error {
	if l.err == nil && err != nil {
		l.err = fmt.Errorf("splitc: layer am: %w", err)
	}
	return l.err
}

// returned is the handler of returned messages: their destination has gone. A returned reply to an
// endpoint that is not known as a rank is ignored: if it was a rank that ended before it was found,
// the search for that rank fails, and otherwise it does not belong to this run.
func (l *Layer) returned(r *endpoint.Returned) {
	rank := r.Dest
	if rank < 0 && r.To != (endpoint.Name{}) { // a reply
		rank = slices.Index(l.names, r.To)
	}
	if rank < 0 {
		l.stats.Strays++
		return
	}
	cause := fmt.Errorf("an active message was returned: %v", r.Reason)
	if r.Err != nil {
		cause = fmt.Errorf("%w: %w", cause, r.Err)
	}
	if l.err == nil {
		l.err = &job.RankError{Rank: rank, Err: cause}
	}
}

// Stats returns the counters.
func (l *Layer) Stats() layer.Stats {
	s := l.stats
	n := l.node.Stats()
	s.Requests, s.CreditWaits, s.CreditTime = n.Sent, n.Stalls, n.StallTime
	s.Strays += n.Strays
	return s
}

// closePatience is how long Close waits for control messages to be delivered.
const closePatience = time.Second

// Close waits until the control messages have been delivered, and releases everything.
func (l *Layer) Close() {
	l.drain()
	if l.node != nil {
		l.node.Close()
	}
	if l.heap != nil && l.cfg.Heap == nil {
		layer.FreeHeap(l.heap)
	}
	l.heap = nil
}
