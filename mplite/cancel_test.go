package mplite_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestCancelAnnounced: a send that its receiver knows of, and has not taken, can be
// cancelled while the receiver's program does nothing. The buffer is the program's again.
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

// receiveCancelled receives what TestCancelAnnounced has cancelled, and what comes then.
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

// TestCancelThenFree: a cancelled send that is freed, and whose receiver answers later,
// does not take the next operation's end.
func TestCancelThenFree(t *testing.T) {
	const cancelled = 4 // fewer than there are credits: all are announced
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
