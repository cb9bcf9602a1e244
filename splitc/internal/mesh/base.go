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

// batch is the most completions that are taken at a time, and batches how often a Poll takes them.
// So a rank that sends as fast as this one polls cannot keep it busy.
const (
	batch   = 64
	batches = 16
)

// drainTime bounds how long a layer waits for its last messages.
const drainTime = time.Second

// Base is the common part of layers over virtual interfaces: the heap, one completion queue for all
// VIs, polling and waiting, and the first failure.
type Base struct {
	layer.Config
	Name   string // of the layer
	CQ     *seam.Queue
	Memory []byte // the heap
	Count  layer.Counters
	Did    layer.Stats
	Err    error // the first failure
	Closed bool  // nothing is processed any more
	// Take handles a completion.
	Take func(c *seam.Completion)
	// Service is called at the end of each poll, and before and after each wait. It may be nil.
	Service func()

	Clock    int64 // when the current completions were found
	Answered bool  // the current completions include a reply to this rank

	served bool    // something has arrived since the start of a wait
	sends  []*Send // free descriptors
}

// Begin allocates the heap and a completion queue with the given number of entries.
func (b *Base) Begin(entries int) (err error) {
	if b.Memory, err = layer.NewHeap(b.HeapSize); err == nil {
		b.CQ, err = seam.NewQueue(b.NIC, entries, batch)
	}
	return err
}

// Free releases what Begin has allocated. The VIs must be closed.
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

// Stats returns the counters.
func (b *Base) Stats() layer.Stats { return b.Did }

// Poll processes received messages.
func (b *Base) Poll() error {
	for range batches {
		done, err := b.CQ.Poll()
		b.handleCompletions(done)
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

// Wait waits until something has arrived or ctx ends.
func (b *Base) Wait(ctx context.Context) error {
	b.service()
	for b.served = false; !b.served && b.Err == nil; {
		done, err := b.CQ.ReapWait(ctx)
		b.handleCompletions(done)
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

func (b *Base) handleCompletions(done []seam.Completion) {
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

// GoesOn reports whether this rank's program has waited for replies, has all of them, and
// continues. Its answers to other ranks are then sent with its next message, or at its next poll,
// as if the requests had arrived slightly later. So two ranks that read from each other send a
// request and a reply in one frame.
func (b *Base) GoesOn() bool { return b.Answered && b.Count.Outstanding == 0 }

// Idle waits for a slice, and returns why a wait that the watch has started must end.
func (b *Base) Idle(ctx context.Context) error {
	if err := b.Wait(b.Watch.Slice()); err != nil {
		return err
	}
	return b.Watch.Check(ctx)
}

// Await waits until there is room for a message to a rank, and counts the time.
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

// Flush returns at once: sent messages are delivered whether this rank polls or not.
func (b *Base) Flush(context.Context) error { return b.Err }

// Failure returns the first failure, which is err if there was none before.
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
	Gone error // why it has ended, or nil
}

// OpenEnd creates the VI of an end and registers the memory for its messages. The VI's completions have
// the given context. It posts the receives with size bytes each, from the beginning of mem on.
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

// Broken records that the connection with a rank has ended.
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

// Blame makes err the failure, unless there is one already. err names the rank that caused it.
func (b *Base) Blame(e *End, err error) error {
	if b.Err == nil {
		b.Err = &job.RankError{Rank: e.Rank, Err: err}
	}
	return b.Err
}

var errGarbled = errors.New("it sent a malformed message (build all ranks from the same source)")

// Garbled counts a malformed message, and fails its sender.
func (b *Base) Garbled(e *End) {
	b.Did.Strays++
	b.Blame(e, errGarbled)
}

// Drain waits until done returns true, for at most drainTime.
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

// Leave stops processing messages, and drains.
func (b *Base) Leave(done func() bool) {
	if b.Closed = true; b.CQ != nil {
		_ = b.Drain(context.Background(), done) // it fails only if the program has failed
	}
}
