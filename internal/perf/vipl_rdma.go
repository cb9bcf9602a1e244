package perf

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/vipl"
)

// oneSided makes a connected VI one for RDMA: the halves tell each other where
// their memory is, which is laid out alike.
func (v *viplConn) oneSided(h *Half, c Case) (Conn, error) {
	text, err := h.Exchange(fmt.Sprintf("%d %d", v.memory.Addr, v.memory.Handle))
	var peer vipl.RemoteSegment
	if err == nil {
		_, err = fmt.Sscan(text, &peer.Addr, &peer.Handle)
	}
	if err != nil {
		v.Close()
		return nil, fmt.Errorf("perf: the peer's memory: %w", err)
	}
	for i := range v.sends {
		d := &v.sends[i]
		d.Op, d.Remote = vipl.OpRDMARead, peer
		if c.Test == Write { // into the buffer of the receive of the same number
			d.Op = vipl.OpRDMAWrite
			d.Remote.Addr += uint64((2*i + 1) * c.Size)
		}
	}
	if c.Test == Read {
		return readConn{v}, nil
	}
	return writeConn{v}, nil
}

// readConn reads the peer's memory. The peer only waits, which serves the
// reads, for the word that they are over.
type readConn struct{ *viplConn }

// PingPong is part of Conn: a round trip is a read.
func (v readConn) PingPong(ctx context.Context, rtt []int64) error {
	d := &v.sends[0]
	last := v.nic.Now()
	for i := range rtt {
		if err := v.wait(ctx, d); err != nil {
			return err
		}
		now := v.nic.Now()
		rtt[i] = now - last
		last = now
	}
	return v.wait(ctx, &v.credits[0])
}

// wait posts d and waits for it.
func (v readConn) wait(ctx context.Context, d *vipl.Descriptor) error {
	if err := v.vi.PostSend(d); err != nil {
		return err
	}
	if _, err := v.vi.SendWait(ctx); err != nil {
		return sendError(err)
	}
	return nil
}

// Echo is part of Conn.
func (v readConn) Echo(ctx context.Context, _ int) error {
	_, err := v.recv(ctx)
	return err
}

// writeConn writes to the peer's memory. The last write of a sample carries
// immediate data, which the peer answers: all before it is in place then.
type writeConn struct{ *viplConn }

// PingPong is part of Conn: it opens the windows.
func (v writeConn) PingPong(ctx context.Context, rtt []int64) error {
	for range rtt {
		if _, err := v.Stream(ctx, len(v.sends)); err != nil {
			return err
		}
	}
	return nil
}

// Echo is part of Conn.
func (v writeConn) Echo(ctx context.Context, n int) error {
	for range n {
		if err := v.Sink(ctx, len(v.sends)); err != nil {
			return err
		}
	}
	return nil
}

// Stream is part of Conn.
func (v writeConn) Stream(ctx context.Context, n int) (int, error) {
	for i := range n {
		if v.inFlight == len(v.sends) { // the next descriptor may be under way
			if _, err := v.vi.SendWait(ctx); err != nil {
				return 0, sendError(err)
			}
			v.inFlight--
		}
		v.sends[v.next].HasImmediate = i == n-1
		if err := v.send(ctx); err != nil {
			return 0, err
		}
	}
	_, err := v.recv(ctx)
	return n, err
}

// Sink is part of Conn.
func (v writeConn) Sink(ctx context.Context, _ int) error {
	if _, err := v.recv(ctx); err != nil {
		return err
	}
	return v.sendCredit(ctx, 1)
}
