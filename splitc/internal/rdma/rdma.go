// Package rdma is the communication layer of Split-C that the paper's section 8 wishes
// for: get is an RDMA read, put an RDMA write, and store an RDMA write with immediate
// data, of which the owner hears. The owner takes no part in get and put, so a rank that
// computes holds nobody up. Long data go from and to where they lie, without a copy; a
// message's header and data are gathered by the VI.
//
// # Between two ranks
//
// There is one VI of reliable delivery, with credits receives posted for what its peer
// says and stores, and some for credits. A store takes a receive and fills none of it; its
// immediate data are its length. Messages are procedures, their results, and the control
// messages of the side above. Who has taken credits/4 of them says so, in the header of
// the next message or by one of its own, which takes no credit: there are never more of
// those under way than reserve.
//
// A put or store is complete when the VI's send is: the owner's VI has placed it.
package rdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/vipl"
)

const (
	credits = 64          // receives for messages and stores of a peer
	due     = credits / 4 // taken, at which the peer is told
	reserve = 2 * 4       // receives for credits beside them
	slots   = 128         // sends under way, to all peers together
	bounce  = 4096        // bytes up to which data are copied rather than registered
	part    = 1 << 28     // bytes of an operation that go in one RDMA operation
	batch   = 64          // completions taken at a time
)

// Layer is layer.Layer over RDMA.
type Layer struct {
	cfg    layer.Config
	heap   []byte
	base   uint64             // address of the heap
	ptag   vipl.Ptag          // of all memory and VIs here
	own    vipl.MemAttributes // of memory that peers do not reach
	handle vipl.MemHandle
	cq     *vipl.CQ
	peers  []*peer // nil for this rank
	count  layer.Counters
	stats  layer.Stats
	err    error // the first failure

	slab   vipl.MemHandle // of the slots
	free   []*slot
	calls  calls
	reaped [batch]vipl.Completion
	ran    [layer.MaxCall]byte // of the procedure that runs
	greets int                 // hellos that have not come
	served bool                // something has come since a wait began
	closed bool                // nothing is taken in any more
}

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l := &Layer{cfg: cfg, peers: make([]*peer, cfg.Procs), greets: cfg.Procs - 1}
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Layer) open(ctx context.Context) (err error) {
	if l.heap, err = layer.NewHeap(l.cfg.HeapSize); err != nil {
		return err
	}
	if l.ptag, err = l.cfg.NIC.CreatePtag(); err != nil {
		return err
	}
	l.own.Ptag = l.ptag
	l.handle, err = l.cfg.NIC.RegisterMem(l.heap, &vipl.MemAttributes{Ptag: l.ptag, EnableRDMAWrite: true, EnableRDMARead: true})
	if err != nil {
		return err
	}
	info, err := l.cfg.NIC.QueryMem(l.handle)
	if err != nil {
		return err
	}
	l.base = info.Addr
	if l.cq, err = l.cfg.NIC.CreateCQ(slots + (l.cfg.Procs-1)*(credits+reserve+1)); err != nil {
		return err
	}
	if err := l.makeSlots(); err != nil {
		return err
	}
	_, l.stats.Strays, err = mesh.Connect(ctx, mesh.Config{Config: l.cfg, Name: "rdma", Kinds: 1, Make: l.makePeer})
	if err != nil {
		return err
	}
	return l.greet(ctx)
}

// greet tells each rank where this one's heap is, and waits until all have done so.
func (l *Layer) greet(ctx context.Context) error {
	for _, p := range l.peers {
		if p != nil {
			if err := l.say(ctx, p, header{kind: kindHello, a: uint64(l.handle), b: l.base, c: uint64(len(l.heap))}, nil); err != nil {
				return err
			}
		}
	}
	l.cfg.Watch.Begin()
	for l.greets > 0 {
		if err := l.idle(ctx); err != nil {
			return fmt.Errorf("waiting for the heaps of the other ranks, of which %d have not come: %w", l.greets, err)
		}
	}
	return nil
}

// idle waits for a slice, and returns why the wait is to end.
func (l *Layer) idle(ctx context.Context) error {
	if err := l.Wait(l.cfg.Watch.Slice()); err != nil {
		return err
	}
	return l.cfg.Watch.Check(ctx)
}

// Heap returns this rank's heap.
func (l *Layer) Heap() []byte { return l.heap }

// Direct returns nil: this layer shares no memory.
func (l *Layer) Direct(int) []byte { return nil }

// Counters returns the counters.
func (l *Layer) Counters() *layer.Counters { return &l.count }

// Stats returns what was counted.
func (l *Layer) Stats() layer.Stats { return l.stats }

// Poll takes in what has come.
func (l *Layer) Poll() error {
	for {
		n, err := l.cq.ReapDone(l.reaped[:])
		l.take(l.reaped[:n])
		if err != nil && !errors.Is(err, vipl.ErrNotDone) {
			return l.failure(err)
		}
		if n < batch {
			return l.err
		}
	}
}

// Wait waits until something has come or ctx ends.
func (l *Layer) Wait(ctx context.Context) error {
	for l.served = false; !l.served && l.err == nil; {
		n, err := l.cq.ReapWait(ctx, l.reaped[:])
		l.take(l.reaped[:n])
		if errors.Is(err, vipl.ErrTimeout) {
			return l.err
		}
		if err != nil {
			return l.failure(err)
		}
	}
	return l.err
}

// failure returns the first failure, be it err.
func (l *Layer) failure(err error) error {
	if l.err == nil && err != nil {
		l.err = fmt.Errorf("splitc: layer rdma: %w", err)
	}
	return l.err
}

// broken notes that the connection with a rank has ended.
func (l *Layer) broken(p *peer, err error) {
	if p.gone == nil {
		if cause := p.vi.Err(); cause != nil {
			err = cause
		}
		p.gone = err
	}
}

// lost returns the failure of an operation with a rank whose connection has ended.
func (l *Layer) lost(p *peer) error {
	if l.err == nil {
		l.err = &job.RankError{Rank: p.rank, Err: p.gone}
	}
	return l.err
}

// Close waits a little until the last messages have left, and releases everything.
func (l *Layer) Close() {
	nic := l.cfg.NIC
	l.closed = true
	if len(l.free) < slots && l.cq != nil && l.err == nil {
		ctx, cancel := nic.WithTimeout(context.Background(), drainTime)
		for len(l.free) < slots && l.err == nil && nic.Engine().Ended(ctx) == nil {
			n, err := l.cq.ReapWait(ctx, l.reaped[:])
			l.take(l.reaped[:n])
			if err != nil {
				break
			}
		}
		cancel()
	}
	for _, p := range l.peers {
		if p != nil {
			p.close(nic)
		}
	}
	if l.slab != 0 {
		nic.DeregisterMem(l.slab)
	}
	if l.handle != 0 {
		nic.DeregisterMem(l.handle)
	}
	if l.ptag != 0 {
		nic.DestroyPtag(l.ptag)
	}
	if l.cq != nil {
		l.cq.Close()
	}
	if l.heap != nil {
		layer.FreeHeap(l.heap)
		l.heap = nil
	}
}
