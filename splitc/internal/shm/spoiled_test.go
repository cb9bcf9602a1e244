package shm

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
)

// spoiled is a layer whose inbox and heap somebody writes over until it is closed.
type spoiled struct {
	layer.Layer
	over atomic.Bool
	done sync.WaitGroup
}

// Close ends that first: the memory goes with the layer.
func (s *spoiled) Close() {
	s.over.Store(true)
	s.done.Wait()
	s.Layer.Close()
}

// scribble writes anything into the lanes of the inbox and into the heap, with pauses of all
// lengths, so that programs come to different places before it harms them.
func (s *spoiled) scribble(l *Layer, rng *rand.Rand) {
	defer s.done.Done()
	for !s.over.Load() {
		for range rng.IntN(1 << rng.IntN(14)) {
			runtime.Gosched()
		}
		inbox := lane(l.own.inbox, rng.IntN(l.cfg.Procs))
		at, ring := rng.IntN(len(inbox)), ringsAt+ringSize*rng.IntN(2)
		switch rng.IntN(4) {
		case 0: // a counter
			at = []int{0, ring, ring + 64}[rng.IntN(3)] + rng.IntN(8)
		case 1, 2: // the head of an entry
			at = ring + ringAt + entrySize*rng.IntN(slots) + rng.IntN(entryHead)
		}
		inbox[at] ^= byte(rng.Uint32())
		l.own.heap[rng.IntN(len(l.own.heap))] ^= byte(rng.Uint32())
	}
}

// TestScribbledInFlight: while programs run, another processor writes anything over the
// memory that ranks of a host share. Each of them ends, with what it should do, with wrong
// data, or with an error; and some are told that the memory was written over.
func TestScribbledInFlight(t *testing.T) {
	most := 300
	if !need.Full() {
		most = 100
	}
	garbled, failed := 0, 0
	for seed := uint64(1); seed <= uint64(most) && (garbled == 0 || seed <= 8); seed++ {
		rank := uint64(0)
		open := func(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
			l, err := Open(ctx, cfg)
			if err != nil {
				return nil, err
			}
			s := &spoiled{Layer: l}
			s.done.Add(1)
			rank++
			go s.scribble(l.(*Layer), rand.New(rand.NewPCG(seed, rank)))
			return s, nil
		}
		for _, err := range layertest.Spoiled(t, open, seed) {
			if err != nil {
				failed++
			}
			if errors.Is(err, errGarbled) {
				garbled++
			}
		}
	}
	t.Logf("%d programs failed, %d because the memory was found to be written over", failed, garbled)
	if garbled == 0 {
		t.Error("nobody has found the memory to be written over")
	}
}
