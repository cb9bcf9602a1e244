package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/vipl"
)

// batch is how many completions are taken at a time, and batches how often a Poll does,
// so that a rank that sends as fast as this one polls does not keep it.
const (
	batch   = 64
	batches = 16
)

// drainTime bounds how long a layer waits for what was sent last.
const drainTime = time.Second

// Base is what layers over virtual interfaces share: the heap, one completion queue for
// all VIs, polling and waiting, and the first failure.
type Base struct {
	layer.Config
	Name   string // of the layer
	CQ     *seam.Queue
	Memory []byte // the heap
	Count  layer.Counters
	Did    layer.Stats
	Err    error // the first failure
	Closed bool  // nothing is taken in any more
	// Take handles a completion.
	Take func(c *seam.Completion)
	// Service is called at the end of each poll, and around each wait. It may be nil.
	Service func()

	Clock    int64 // when what is taken was found
	Answered bool  // a reply to this rank is among what is taken together

	served bool    // something has come since a wait began
	sends  []*Send // descriptors that are free
}

// Begin makes the heap and a completion queue of so many entries.
func (b *Base) Begin(entries int) (err error) {
	if b.Memory, err = layer.NewHeap(b.HeapSize); err == nil {
		b.CQ, err = seam.NewQueue(b.NIC, entries, batch)
	}
	return err
}

// Free gives back what Begin has made. The VIs are closed.
func (b *Base) Free() {
	if b.CQ != nil {
		b.CQ.Close()
	}
	if b.Memory != nil {
		layer.FreeHeap(b.Memory)
		b.Memory = nil
	}
}

// Heap returns this rank's heap.
func (b *Base) Heap() []byte { return b.Memory }

// Direct returns nil: these layers share no memory.
func (b *Base) Direct(int) []byte { return nil }

// Counters returns the counters.
func (b *Base) Counters() *layer.Counters { return &b.Count }

// Stats returns what was counted.
func (b *Base) Stats() layer.Stats { return b.Did }

// Poll takes in what has come.
func (b *Base) Poll() error {
	for range batches {
		done, err := b.CQ.Poll()
		b.take(done)
		if err != nil && !errors.Is(err, vipl.ErrNotDone) {
			return b.Failure(err)
		}
		if !b.CQ.Full() {
			break
		}
	}
	b.service()
	return b.Err
}

func (b *Base) service() {
	if b.Service != nil {
		b.Service()
	}
}

// Wait waits until something has come or ctx ends.
func (b *Base) Wait(ctx context.Context) error {
	b.service()
	for b.served = false; !b.served && b.Err == nil; {
		done, err := b.CQ.ReapWait(ctx)
		b.take(done)
		b.service()
		if errors.Is(err, vipl.ErrTimeout) {
			return b.Err
		}
		if err != nil {
			return b.Failure(err)
		}
	}
	return b.Err
}

func (b *Base) take(done []seam.Completion) {
	if b.Answered = false; len(done) > 0 {
		b.Clock = b.NIC.Now()
	}
	for i := range done {
		if c := &done[i]; c.Descriptor != nil {
			b.served = true
			b.Take(c)
		}
	}
}

// GoesOn reports whether this rank's program, which has waited for replies, has them all and goes
// on. What it answers others now goes with what it sends next, or when it polls next, as if they
// had asked a moment later: two ranks that read from each other send a request and a reply in
// one frame then.
func (b *Base) GoesOn() bool { return b.Answered && b.Count.Outstanding == 0 }

// Idle waits for a slice, and returns why a wait that the watch has begun is to end.
func (b *Base) Idle(ctx context.Context) error {
	if err := b.Wait(b.Watch.Slice()); err != nil {
		return err
	}
	return b.Watch.Check(ctx)
}

// Await waits until there is room, for a message to a rank, and counts how long that takes.
func (b *Base) Await(ctx context.Context, e *End, room func() bool) error {
	b.Did.CreditWaits++
	wait := b.Watch.Stall(e.Rank, &b.Did.CreditTime)
	defer wait.End()
	for !room() {
		if e.Gone != nil {
			return b.Lost(e)
		}
		if err := b.Wait(b.Watch.Slice()); err != nil {
			return err
		}
		if err := wait.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Flush returns at once: what was sent is on its way, whether this rank polls or not.
func (b *Base) Flush(context.Context) error { return b.Err }

// Failure returns the first failure, be it err.
func (b *Base) Failure(err error) error {
	if b.Err == nil && err != nil {
		b.Err = fmt.Errorf("splitc: layer %s: %w", b.Name, err)
	}
	return b.Err
}

// End is a connection with another rank.
type End struct {
	channel.Channel
	Rank int
	Gone error // why it has ended
}

// OpenEnd makes the VI of an end, which is the context of its completions, registers the memory for its
// messages, and posts the receives, each with size bytes from the beginning of mem on.
func (b *Base) OpenEnd(e *End, context any, attrs vipl.Attributes, mem []byte, receives []Recv, size int) error {
	attrs.PeerTimeout, attrs.ConnectTimeout = b.PeerTimeout, b.Timeout
	return channel.Open(&e.Channel, &channel.Config{NIC: b.NIC, CQ: b.CQ.CQ, Attributes: attrs, Context: context, Size: size, Memory: mem}, receives)
}

// Repost posts a receive again.
func (b *Base) Repost(e *End, r *Recv) {
	if err := e.Channel.Repost(&r.Buffer); err != nil {
		b.Broken(e, err)
	}
}

// Broken notes that the connection with a rank has ended.
func (b *Base) Broken(e *End, err error) {
	if e.Gone == nil {
		if cause := e.VI.Err(); cause != nil {
			err = cause
		}
		e.Gone = err
	}
}

// Lost returns the failure of an operation with a rank whose connection has ended.
func (b *Base) Lost(e *End) error { return b.Blame(e, e.Gone) }

// Blame makes err, which a rank is the cause of, the failure, unless there is one.
func (b *Base) Blame(e *End, err error) error {
	if b.Err == nil {
		b.Err = &job.RankError{Rank: e.Rank, Err: err}
	}
	return b.Err
}

var errGarbled = errors.New("it sends what is no message of this version: build all ranks from one source")

// Garbled counts a message that its rank cannot mean, and blames the rank.
func (b *Base) Garbled(e *End) {
	b.Did.Strays++
	b.Blame(e, errGarbled)
}

// Drain waits until what was sent is done, at most for drainTime.
func (b *Base) Drain(ctx context.Context, done func() bool) error {
	engine := seam.EngineOf(b.NIC)
	end := b.NIC.Now() + int64(min(drainTime, engine.Left(ctx, drainTime)))
	for !done() && b.Err == nil && b.NIC.Now() < end && engine.Ended(ctx) == nil {
		if err := b.Wait(b.Watch.Slice()); err != nil {
			return err
		}
	}
	return b.Err
}

// Leave takes nothing in any more, and drains.
func (b *Base) Leave(done func() bool) {
	if b.Closed = true; b.CQ != nil {
		_ = b.Drain(context.Background(), done) // it fails if the program has, and then nobody waits for more
	}
}
