package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// DrainTime bounds how long a layer waits for what was sent last.
const DrainTime = time.Second

// Base is what layers over virtual interfaces share: the heap, one completion queue for
// all VIs, polling and waiting, and the first failure.
type Base struct {
	layer.Config
	Name   string // of the layer
	CQ     *vipl.CQ
	Memory []byte // the heap
	Count  layer.Counters
	Did    layer.Stats
	Err    error // the first failure
	Closed bool  // nothing is taken in any more
	// Take handles a completion.
	Take func(c *vipl.Completion)
	// Uncork sends what the layer holds back until this rank polls or waits; it may be nil.
	Uncork func()

	Clock    int64 // when what is taken was found
	Answered bool  // a reply to this rank is among what is taken together

	served bool    // something has come since a wait began
	sends  []*Send // descriptors that are free
	reaped [batch]vipl.Completion
}

// Begin makes the heap and a completion queue of so many entries.
func (b *Base) Begin(entries int) (err error) {
	if b.Memory, err = layer.NewHeap(b.HeapSize); err == nil {
		b.CQ, err = b.NIC.CreateCQ(entries)
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
		n, err := b.CQ.ReapDone(b.reaped[:])
		b.take(n)
		if err != nil && !errors.Is(err, vipl.ErrNotDone) {
			return b.Failure(err)
		}
		if n < batch {
			break
		}
	}
	b.uncork()
	return b.Err
}

func (b *Base) uncork() {
	if b.Uncork != nil && b.Err == nil {
		b.Uncork()
	}
}

// Wait waits until something has come or ctx ends.
func (b *Base) Wait(ctx context.Context) error {
	b.uncork()
	for b.served = false; !b.served && b.Err == nil; {
		n, err := b.CQ.ReapWait(ctx, b.reaped[:])
		b.take(n)
		b.uncork()
		if errors.Is(err, vipl.ErrTimeout) {
			return b.Err
		}
		if err != nil {
			return b.Failure(err)
		}
	}
	return b.Err
}

func (b *Base) take(n int) {
	if b.Answered = false; n > 0 {
		b.Clock = b.NIC.Now()
	}
	for i := range n {
		if c := &b.reaped[i]; c.Descriptor != nil {
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
	Rank int
	VI   *vipl.VI
	Gone error // why it has ended
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

// ErrGarbled is the failure of a rank that says what it cannot mean.
var ErrGarbled = errors.New("it sends what is no message of this version: build all ranks from one source")

// Drain waits a little until what was sent last has left.
func (b *Base) Drain(done func() bool) {
	b.Closed = true
	if b.CQ == nil || b.Err != nil || done() {
		return
	}
	ctx, cancel := b.NIC.WithTimeout(context.Background(), DrainTime)
	defer cancel()
	for !done() && b.Err == nil {
		n, err := b.CQ.ReapWait(ctx, b.reaped[:])
		b.take(n)
		if err != nil {
			return
		}
	}
}
