package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// Tags of the measurement's messages.
const (
	tagData = 1
	tagDone = 2
)

// mpliteRequests is how many sends or receives a stream posts ahead.
const mpliteRequests = 256

// mpliteFinalizeTime bounds the end of the job, which waits for the other rank.
const mpliteFinalizeTime = time.Second

// mpliteStack is a job of two ranks.
type mpliteStack struct{}

// Cases is part of Stack. MPLite uses reliable delivery.
func (mpliteStack) Cases(p *Plan, test string, mtu, size int) []Case {
	var cases []Case
	for _, link := range p.Links {
		for _, wait := range p.Waits {
			cases = append(cases, Case{Stack: "mplite", Test: test, Reliability: "delivery",
				Wait: wait, Link: link, MTU: mtu, Size: size})
		}
	}
	return cases
}

// mpliteConn is one of the two ranks: the client is 0, the server 1.
type mpliteConn struct {
	nic    *vipl.NIC
	comm   *mplite.Comm
	forget func() // ends watching
	test   string
	peer   int
	bufs   [][]byte
	next   int
	posted []mplite.Request
}

// Open is part of Stack. The ranks find each other by the job's name, which
// the server makes unique by its address.
func (mpliteStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	nic, err := h.openNIC(ctx, c)
	if err != nil {
		return nil, err
	}
	m := &mpliteConn{nic: nic, test: c.Test}
	if m.bufs, err = (&base{nic: nic}).buffers(max(c.Size, 1)); err == nil {
		m.comm, err = joinJob(ctx, h, nic)
	}
	if err != nil {
		nic.Close()
		return nil, err
	}
	m.forget = h.watch(Opened{NIC: nic, Comm: m.comm})
	m.peer = 1 - m.comm.Rank()
	m.posted = make([]mplite.Request, min(len(m.bufs), mpliteRequests))
	return m, nil
}

func joinJob(ctx context.Context, h *Half, nic *vipl.NIC) (*mplite.Comm, error) {
	addr, err := h.Exchange(nic.Addr().String())
	if err != nil {
		return nil, err
	}
	rank := 0
	if h.server {
		rank, addr = 1, nic.Addr().String()
	}
	return mplite.Init(ctx, &mplite.Config{Config: job.Config{Job: "perf-" + addr, Rank: rank, Size: 2, NIC: nic, Timeout: sampleTimeout}})
}

// buffer returns the buffers in turn.
func (m *mpliteConn) buffer() []byte {
	m.next++
	if m.next == len(m.bufs) {
		m.next = 0
	}
	return m.bufs[m.next]
}

// PingPong is part of Conn.
func (m *mpliteConn) PingPong(ctx context.Context, rtt []int64) error {
	if m.test == Barrier {
		return barriers(ctx, m.nic.Now, m.comm.Barrier, rtt)
	}
	out, in := m.buffer(), m.buffer()
	last := m.nic.Now()
	for i := range rtt {
		if err := m.comm.Send(ctx, out, m.peer, tagData); err != nil {
			return err
		}
		if _, err := m.comm.Recv(ctx, in, m.peer, tagData); err != nil {
			return err
		}
		now := m.nic.Now()
		rtt[i] = now - last
		last = now
	}
	return nil
}

// Echo is part of Conn.
func (m *mpliteConn) Echo(ctx context.Context, n int) error {
	if m.test == Barrier {
		return barriers(ctx, m.nic.Now, m.comm.Barrier, make([]int64, n))
	}
	out, in := m.buffer(), m.buffer()
	for range n {
		if _, err := m.comm.Recv(ctx, in, m.peer, tagData); err != nil {
			return err
		}
		if err := m.comm.Send(ctx, out, m.peer, tagData); err != nil {
			return err
		}
	}
	return nil
}

// Stream is part of Conn.
func (m *mpliteConn) Stream(ctx context.Context, n int) (int, error) {
	err := m.post(ctx, n, func(buf []byte) (mplite.Request, error) {
		return m.comm.Isend(buf, m.peer, tagData)
	})
	if err != nil {
		return 0, err
	}
	_, err = m.comm.Recv(ctx, nil, m.peer, tagDone)
	return n, err
}

// Sink is part of Conn.
func (m *mpliteConn) Sink(ctx context.Context, n int) error {
	err := m.post(ctx, n, func(buf []byte) (mplite.Request, error) {
		return m.comm.Irecv(buf, m.peer, tagData)
	})
	if err != nil {
		return err
	}
	return m.comm.Send(ctx, nil, m.peer, tagDone)
}

// post starts n operations, at most m.posted at a time, and waits for all of them.
func (m *mpliteConn) post(ctx context.Context, n int, start func([]byte) (mplite.Request, error)) error {
	for i := range n + len(m.posted) {
		slot := &m.posted[i%len(m.posted)]
		if _, err := slot.Wait(ctx); err != nil { // null at first
			return fmt.Errorf("perf: mplite: %w", err)
		}
		*slot = mplite.Request{}
		if i < n {
			req, err := start(m.buffer())
			if err != nil {
				return fmt.Errorf("perf: mplite: %w", err)
			}
			*slot = req
		}
	}
	return nil
}

// Counters is part of Conn.
func (m *mpliteConn) Counters() Counters { return nicCounters(m.nic) }

// Close is part of Conn.
func (m *mpliteConn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), mpliteFinalizeTime)
	defer cancel()
	m.forget()
	err := m.comm.Finalize(ctx)
	return errors.Join(err, m.nic.Close())
}
