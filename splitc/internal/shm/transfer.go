package shm

import (
	"context"
	"slices"
)

// Get reads from a heap of another host. A neighbour's heap is read directly.
func (l *Layer) Get(ctx context.Context, proc int, dst []byte, off uint64) error {
	if n := l.near[proc]; n != nil {
		copy(dst, n.mem.heap[off:])
		return l.err
	}
	return l.far.Get(ctx, proc, dst, off)
}

// Put writes to a heap of another host. A neighbour's heap is written directly.
func (l *Layer) Put(ctx context.Context, proc int, off uint64, src []byte) error {
	if n := l.near[proc]; n != nil {
		copy(n.mem.heap[off:], src)
		return l.err
	}
	return l.far.Put(ctx, proc, off, src)
}

// Store writes to a heap. For a neighbour it adds the bytes to a count in a word that only this
// rank writes.
func (l *Layer) Store(ctx context.Context, proc int, off uint64, src []byte) error {
	n := l.near[proc]
	if n == nil {
		return l.far.Store(ctx, proc, off, src)
	}
	copy(n.mem.heap[off:], src)
	n.stored += uint64(len(src))
	n.sent.Store(n.stored)
	l.stats.Direct++
	return l.wake(n)
}

// Call sends a procedure to its owner, which runs it when it polls.
func (l *Layer) Call(ctx context.Context, proc int, fn uint32, args, result []byte) error {
	n := l.near[proc]
	if n == nil {
		return l.far.Call(ctx, proc, fn, args, result)
	}
	i, err := l.callOf(ctx, n)
	if err != nil {
		return err
	}
	n.calls[i] = waiting{true, result}
	l.count.Outstanding++
	if err := l.request(ctx, n, kindCall, fn, uint32(i), args); err != nil {
		n.calls[i] = waiting{}
		l.count.Outstanding--
		return err
	}
	return nil
}

// callOf returns the number of a free call. It waits for one.
func (l *Layer) callOf(ctx context.Context, n *neighbour) (int, error) {
	if i := n.freeCall(); i >= 0 {
		return i, nil
	}
	l.stats.CreditWaits++
	wait := l.cfg.Watch.Stall(n.rank, &l.stats.CreditTime)
	defer wait.End()
	for {
		if err := l.Wait(l.cfg.Watch.Slice()); err != nil {
			return 0, err
		}
		if i := n.freeCall(); i >= 0 {
			return i, nil
		}
		if err := wait.Check(ctx); err != nil {
			return 0, err
		}
	}
}

// freeCall returns the number of a free call, or -1.
func (n *neighbour) freeCall() int {
	return slices.IndexFunc(n.calls[:], func(c waiting) bool { return !c.used })
}

// Control sends a control message.
func (l *Layer) Control(ctx context.Context, proc int, msg []byte) error {
	if n := l.near[proc]; n != nil {
		return l.request(ctx, n, kindControl, 0, 0, msg)
	}
	return l.far.Control(ctx, proc, msg)
}

// Gather sends a control message that the rank answers with another one.
func (l *Layer) Gather(ctx context.Context, proc int, msg, data []byte) error {
	if n := l.near[proc]; n != nil {
		k := copy(l.gathered[:], msg)
		k += copy(l.gathered[k:], data)
		return l.request(ctx, n, kindControl, 0, 0, l.gathered[:k])
	}
	return l.far.Gather(ctx, proc, msg, data)
}

// request adds an entry to a neighbour's ring of requests. It waits for room.
func (l *Layer) request(ctx context.Context, n *neighbour, kind uint8, fn, op uint32, data []byte) error {
	room, err := n.requests.room()
	if err != nil {
		return l.blame(n, err)
	}
	if !room {
		if err := l.await(ctx, n); err != nil {
			return err
		}
	}
	n.requests.put(kind, fn, op, data)
	l.stats.Requests++
	return l.wake(n)
}

// await waits for room in a neighbour's ring of requests. No one wakes a rank when there is room:
// it checks when something has arrived, and after each slice.
func (l *Layer) await(ctx context.Context, n *neighbour) error {
	l.stats.CreditWaits++
	wait := l.cfg.Watch.Stall(n.rank, &l.stats.CreditTime)
	defer wait.End()
	for {
		room, err := n.requests.room()
		if err != nil {
			return l.blame(n, err)
		}
		if room {
			return nil
		}
		if err := wait.Check(ctx); err != nil {
			return err
		}
		if err := l.far.Wait(l.cfg.Watch.Slice()); err != nil {
			return err
		}
		if err := l.serve(); err != nil {
			return err
		}
	}
}

// wake wakes a sleeping neighbour.
func (l *Layer) wake(n *neighbour) error {
	if n.sleep.Load() == 1 && n.sleep.CompareAndSwap(1, 0) {
		return l.nudge(n)
	}
	return nil
}
