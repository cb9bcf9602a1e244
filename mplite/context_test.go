package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestContextLeavesALentBuffer: a receive that has matched a long message gets the message when its
// sender calls the package, even if the context of the receive has ended. The Wait of an Irecv ends
// with its context and can be called again.
func TestContextLeavesALentBuffer(t *testing.T) {
	const n, absent = 50_000, 3 * time.Second
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == 1 {
			var reqs []mplite.Request
			for tag := range 2 {
				r, err := c.Isend(content(n, uint64(tag)), 0, tag)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if err := j.computesFor(c, absent); err != nil {
				return err
			}
			return mplite.Waitall(bg, reqs, nil)
		}
		bufs := [2][]byte{make([]byte, n), make([]byte, n)}
		began := j.Now()
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		r, err := c.Irecv(bufs[0], 1, 0)
		if err != nil {
			return err
		}
		if _, err := r.Wait(ctx); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("the wait ended with %v", err)
		}
		if took := time.Duration(j.Now() - began); took != time.Second {
			return fmt.Errorf("the wait ended after %v", took)
		}
		if _, err := c.Recv(ctx, bufs[1], 1, 1); err != nil {
			return fmt.Errorf("the receive ended with %w", err)
		}
		if took := time.Duration(j.Now() - began); took < absent-time.Second {
			return fmt.Errorf("the receive ended after %v, with nobody to send", took)
		}
		if _, err := r.Wait(bg); err != nil {
			return err
		}
		return errors.Join(same(bufs[0], 0), same(bufs[1], 1))
	})
	check(t, j.run())
}

// TestContextEndsAWaitingWrite: the receiver has cleared as many messages as it can, and computes.
// The last of the writes must wait until the receiver calls the package. Nevertheless, the context
// of this send ends it, and the receiver learns of the end.
func TestContextEndsAWaitingWrite(t *testing.T) {
	const n, many = 5000, 7
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		var reqs []mplite.Request
		if c.Rank() == 1 {
			for tag := range many {
				r, err := c.Irecv(make([]byte, n), 0, tag)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if err := j.computesFor(c, 10*time.Millisecond); err != nil { // all are announced
				return err
			}
			c.Iprobe(0, 0)
			for _, r := range c.Pending().Receives {
				if r.State != "to be written to" {
					return fmt.Errorf("receive with tag %d waits %s", r.Tag, r.State)
				}
			}
			if err := j.computesFor(c, 3*time.Second); err != nil {
				return err
			}
			if _, err := reqs[many-1].Wait(bg); !errors.Is(err, mplite.ErrCanceled) {
				return fmt.Errorf("the last receive ended with %v", err)
			}
			return mplite.Waitall(bg, reqs[:many-1], nil)
		}
		for tag := range many - 1 {
			r, err := c.Isend(make([]byte, n), 1, tag)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		began := j.Now()
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		err := c.Send(ctx, make([]byte, n), 1, many-1)
		if took := time.Duration(j.Now() - began); !errors.Is(err, vipl.ErrTimeout) || took != time.Second {
			return fmt.Errorf("the last send ended after %v: %v", took, err)
		}
		return mplite.Waitall(bg, reqs, nil)
	})
	check(t, j.run())
}

// TestContextWithdrawsTooLong: a receive is too short for a message, and the sender withdraws the
// message. The receive returns an error and does not contain the message's first bytes.
func TestContextWithdrawsTooLong(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == 0 {
			ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
			defer cancel()
			if err := c.Send(ctx, make([]byte, 50_000), 1, 0); !errors.Is(err, vipl.ErrTimeout) {
				return fmt.Errorf("the send ended with %v", err)
			}
			return nil
		}
		if err := j.computesFor(c, 2*time.Second); err != nil {
			return err
		}
		if _, err := c.Recv(bg, make([]byte, 20_000), 0, 0); !errors.Is(err, mplite.ErrCanceled) {
			return fmt.Errorf("the receive ended with %v", err)
		}
		return nil
	})
	check(t, j.run())
}

// TestContextEndsACollective: rank 0's context ends in an allgather. Rank 1 calls later and learns
// that the part that it should forward is withdrawn. Its call ends immediately, and does not wait
// until rank 2 receives rank 1's own part.
func TestContextEndsACollective(t *testing.T) {
	const n = 20_000
	j := newJob(3, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		part, all := make([]byte, n), make([]byte, 3*n)
		switch c.Rank() {
		case 0:
			ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
			defer cancel()
			if err := mplite.Allgather(ctx, c, part, all); !errors.Is(err, vipl.ErrTimeout) {
				return fmt.Errorf("rank 0: %v", err)
			}
		case 1:
			if err := j.computesFor(c, 2*time.Second); err != nil {
				return err
			}
			began := j.Now()
			if err := mplite.Allgather(bg, c, part, all); !errors.Is(err, mplite.ErrCanceled) {
				return fmt.Errorf("rank 1: %v", err)
			}
			if took := time.Duration(j.Now() - began); took > 10*time.Millisecond {
				return fmt.Errorf("rank 1 waits %v", took)
			}
		}
		j.stays(c, 3)
		return errKilled
	})
	check(t, j.runKilled())
}

// TestContextLeavesRequests: if the context of Waitall ends, the incomplete requests stay in use.
// The context uses the NIC's virtual time.
func TestContextLeavesRequests(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		if c.Rank() == 1 {
			if err := c.Send(bg, nil, 0, 0); err != nil {
				return err
			}
			if _, err := c.Recv(bg, nil, 0, 2); err != nil {
				return err
			}
			return c.Send(bg, nil, 0, 1)
		}
		var reqs []mplite.Request
		for tag := range 2 {
			r, err := c.Irecv(nil, 1, tag)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		if err := mplite.Waitall(ctx, reqs, nil); !errors.Is(err, vipl.ErrTimeout) || !reqs[0].Null() || reqs[1].Null() {
			return fmt.Errorf("the first wait left %v: %v", reqs, err)
		}
		if err := c.Send(bg, nil, 1, 2); err != nil {
			return err
		}
		if err := mplite.Waitall(bg, reqs, nil); err != nil || !reqs[1].Null() {
			return fmt.Errorf("the second wait left %v: %v", reqs, err)
		}
		return nil
	}))
}

// TestCancelAnnounced: an announced send without a matching receive can be cancelled while the
// receiver's program does nothing. After that, the program may use the buffer again.
func TestCancelAnnounced(t *testing.T) {
	want := mplite.Status{Source: mplite.AnySource, Tag: mplite.AnyTag, Canceled: true}
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		if c.Rank() == 1 {
			return receiveCancelled(c)
		}
		long := content(5000, 1)
		for i, start := range []func() (mplite.Request, error){
			func() (mplite.Request, error) { return c.Issend([]byte("s"), 1, 1) },
			func() (mplite.Request, error) { return c.Isend(long, 1, 2) },
			func() (mplite.Request, error) { return begun(c.SendInit(long, 1, 2)) },
			func() (mplite.Request, error) { return c.Issend(long, 1, 2) },
			func() (mplite.Request, error) { return spread(5000).Isend(c, 1, 2) },
		} {
			r, err := start()
			if err != nil {
				return err
			}
			r.Cancel()
			if st, err := r.Wait(bg); err != nil || st != want { // rank 1 waits for a message with tag 9
				return fmt.Errorf("send %d: %+v, %w", i, st, err)
			}
		}
		clear(long)
		if err := c.Send(bg, nil, 1, 9); err != nil {
			return err
		}
		return c.Send(bg, content(5000, 3), 1, 2)
	}))
}

// receiveCancelled receives the messages that TestCancelAnnounced has cancelled, and the following
// ones.
func receiveCancelled(c *mplite.Comm) error {
	buf := make([]byte, 5000)
	if _, err := c.Recv(bg, nil, 0, 9); err != nil {
		return err
	}
	if st, err := c.Recv(bg, buf, 0, 1); err != nil || st.Count != 1 {
		return fmt.Errorf("the short message, which had left: %+v, %w", st, err)
	}
	for range 4 {
		if _, err := c.Recv(bg, buf, 0, 2); !errors.Is(err, mplite.ErrCanceled) {
			return fmt.Errorf("a long message that was cancelled: %w", err)
		}
	}
	if _, err := c.Recv(bg, buf, 0, 2); err != nil {
		return err
	}
	return same(buf, 3)
}

// TestCancelThenFree: a cancelled send is freed, and its receiver answers later. The answer does
// not end the next operation.
func TestCancelThenFree(t *testing.T) {
	const cancelled = 4 // fewer than the credits, so that all are announced
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		buf := make([]byte, 5000)
		if c.Rank() == 1 {
			if _, err := c.Recv(bg, nil, 0, 9); err != nil {
				return err
			}
			for range cancelled {
				if _, err := c.Recv(bg, buf, 0, 2); !errors.Is(err, mplite.ErrCanceled) {
					return fmt.Errorf("a cancelled message: %w", err)
				}
			}
			return sendBack(c, buf, cancelled)
		}
		for range cancelled {
			r, err := c.Isend(buf, 1, 2)
			if err != nil {
				return err
			}
			r.Cancel()
			if err := r.Free(); err != nil {
				return err
			}
		}
		if err := c.Send(bg, nil, 1, 9); err != nil {
			return err
		}
		for i := range uint64(cancelled) {
			r, err := c.Irecv(buf, 1, 3)
			if err != nil {
				return err
			}
			if err := c.Send(bg, content(5000, i), 1, 3); err != nil {
				return err
			}
			if _, err := r.Wait(bg); err != nil {
				return err
			}
			if err := same(buf, i); err != nil {
				return err
			}
		}
		return nil
	}))
}

// sendBack sends back n messages with tag 3.
func sendBack(c *mplite.Comm, buf []byte, n int) error {
	for range n {
		st, err := c.Recv(bg, buf, 0, 3)
		if err == nil {
			err = c.Send(bg, buf[:st.Count], 0, 3)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
