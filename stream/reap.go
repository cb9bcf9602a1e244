package stream

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

var background = context.Background()

// wait waits until something has happened to the connection, and sees to it. limit is a
// time of the NIC's clock, 0 for none. mu is held on entry and on return. The error is
// os.ErrDeadlineExceeded, or that of ctx; what ends the connection is in err.
func (c *Conn) wait(ctx context.Context, limit int64) error { return c.await(ctx, limit, false) }

// await is wait. If the caller yields, goroutines that it may have made ready run before, on
// its processor, rather than wait there until a thread has been woken and has stolen them.
// To yield where there are none wakes a thread, too, which looks for work in vain, perhaps on
// the processor of the other end.
func (c *Conn) await(ctx context.Context, limit int64, yields bool) error {
	var d time.Duration
	if limit != 0 {
		if d = time.Duration(limit - c.nic.Now()); d <= 0 {
			return os.ErrDeadlineExceeded
		}
	}
	cq, seen := c.cq, c.cq.Seen()
	c.unlock()
	if yields {
		c.host.yield()
	}
	err := cq.WaitSince(ctx, d, seen)
	c.lock()
	if c.torn {
		return nil
	}
	c.reap()
	switch {
	case err == nil, err == vipl.ErrNotDone:
		return nil
	case errors.Is(err, vipl.ErrTimeout):
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return os.ErrDeadlineExceeded
	}
	c.fail(waitError(err))
	return nil
}

// poll sees to what has happened.
func (c *Conn) poll() {
	done, err := c.cq.Poll()
	if err != nil && err != vipl.ErrNotDone {
		c.fail(waitError(err))
	}
	c.handle(done)
	c.pump()
}

// reap takes the completions that are there, and sends what they allow.
func (c *Conn) reap() {
	for more := true; more; more = c.cq.Full() {
		c.handle(c.cq.Reap())
	}
	c.pump()
}

func (c *Conn) handle(done []seam.Completion) {
	for i := range done {
		d := &done[i]
		if d.Recv {
			c.received(d.Descriptor)
		} else {
			c.sent(d.Descriptor)
		}
	}
}

// sent takes back a send descriptor.
func (c *Conn) sent(d *vipl.Descriptor) {
	t := d.Context.(*txDesc)
	x := &c.tx
	x.busy--
	if t.data {
		x.messages--
	}
	if t.direct {
		x.direct--
	}
	x.stage.Released(t.staged)
	t.segs[0], t.staged, t.data, t.direct = vipl.Segment{}, 0, false, false
	x.free = append(x.free, t)
	if d.Status.Failed() {
		c.fail(c.vi.Err())
	}
}

// received takes a message, and posts its receive again.
func (c *Conn) received(d *vipl.Descriptor) {
	if d.Status.Failed() {
		c.fail(c.vi.Err())
		return
	}
	if c.err != nil {
		return
	}
	if err := c.handleMessage(d); err != nil {
		c.host.refuse()
		c.fail(err)
		c.vi.Disconnect()
		return
	}
	if err := c.vi.PostRecv(d); err != nil {
		c.fail(err)
	}
}

// handleMessage does what a message says.
func (c *Conn) handleMessage(d *vipl.Descriptor) error {
	if d.Status&vipl.StatusOpMask != vipl.StatusOpRemoteRDMAWrite {
		return c.greet(d.Segs, d.Length)
	}
	if !c.greeted {
		return errEarly
	}
	switch w := flow.Word(d.Immediate); w.Kind() {
	case flow.Data:
		c.stats.MessagesReceived++
		return c.rx.Arrived(w, d.Length)
	case flow.Credit:
		c.stats.CreditsReceived++
		return c.tx.Credited(w)
	case flow.End:
		return c.rx.End(w, d.Length)
	default:
		return errWord
	}
}

var (
	errEarly = fault("a message before the greeting")
	errWord  = fault("a message of unknown kind")
	errAgain = fault("a second greeting")
)
