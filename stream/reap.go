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

// wait blocks until the connection has events, and handles them. limit is a time of the NIC's
// clock; 0 means no limit. The caller must hold mu, and holds it on return. The error is
// os.ErrDeadlineExceeded or ctx's error. If the connection has ended, c.err has the cause.
func (c *Conn) wait(ctx context.Context, limit int64) error { return c.await(ctx, limit, false) }

// await implements wait. If yields is true, the caller yields the processor first. Goroutines that
// it has made ready then run on its processor at once. Otherwise they would wait there until
// another thread wakes up and steals them. If there are no such goroutines, yielding costs a futile
// wake-up of a thread, perhaps on the processor of the other end.
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

// poll handles events without waiting.
func (c *Conn) poll() {
	done, err := c.cq.Poll()
	if err != nil && err != vipl.ErrNotDone {
		c.fail(waitError(err))
	}
	c.handle(done)
	c.pump()
}

// reap handles the available completions, and sends what they allow.
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

// sent handles the completion of a send descriptor, which becomes unused.
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

// received handles a message, and reposts its receive.
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

// handleMessage processes the contents of a message.
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
