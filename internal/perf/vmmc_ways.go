package perf

import (
	"context"
	"errors"

	"github.com/bobnet-go/bobnet/vmmc"
)

// bidirectionalConn has both halves send at the same time. As in the paper's benchmark, each
// waits until it has received the peer's message, and then begins again.
type bidirectionalConn struct{ *vmmcConn }

// Stream is part of Conn. The messages of both halves count.
func (v bidirectionalConn) Stream(ctx context.Context, n int) (int, error) {
	return 2 * n, v.Sink(ctx, n)
}

// Sink is part of Conn.
func (v bidirectionalConn) Sink(ctx context.Context, n int) error {
	for range n {
		if err := v.put(ctx); err != nil {
			return err
		}
		if err := v.take(ctx); err != nil {
			return err
		}
	}
	return nil
}

// overheadWarm is how long the messages between those of the test overhead are at the most.
const overheadWarm = 4096

// overheadConn sends to a peer that is idle. It times the calls alone: after each it waits,
// untimed, until all is in the peer's memory, so that each call meets the same idle network,
// whatever it leaves to the engine; and the same processor, which a long message leaves
// without the calls in its caches.
type overheadConn struct{ *vmmcConn }

// PingPong is part of Conn: rtt is what the calls took.
func (v overheadConn) PingPong(ctx context.Context, rtt []int64) error {
	nic := v.p.NIC()
	s := &v.sends[0]
	s.Src, s.Dst = v.bufs[0], v.peer+vmmc.ProxyAddr(v.slot(0))
	for i := range rtt {
		var err error
		start := nic.Now()
		if v.mode == modeSync {
			err = v.p.SendMsg(ctx, s.Src, s.Dst)
		} else {
			err = v.p.Post(s)
		}
		rtt[i] = nic.Now() - start
		if err == nil {
			err = v.drain(ctx)
		}
		if err != nil {
			return err
		}
	}
	return v.tellEnd(ctx)
}

// drain waits until all that was sent is in the peer's memory.
func (v overheadConn) drain(ctx context.Context) error {
	last, s := &v.drained, &v.sends[0] // last comes behind all others
	last.Src, last.Dst = v.end[:], v.peer+vmmc.ProxyAddr(v.endWord()+vmmc.WordSize)
	if err := v.p.Post(last); err != nil {
		return err
	}
	if err := errors.Join(v.p.WaitSend(ctx, last), v.finish(ctx, s)); err != nil {
		return err
	}
	for range 4 { // what these leave in the caches does not depend on the size
		last.Src, last.Dst = s.Src[:min(len(s.Src), overheadWarm)], s.Dst
		if err := v.p.Post(last); err != nil {
			return err
		}
		if err := v.p.WaitSend(ctx, last); err != nil {
			return err
		}
	}
	return nil
}

// Echo is part of Conn.
func (v overheadConn) Echo(ctx context.Context, _ int) error { return v.takeEnd(ctx) }
