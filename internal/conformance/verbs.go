package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// The functions of this file are the vocabulary of the rules.

// pair returns VIs of A and B, with the rule's attributes, connected.
func (c *Case) pair() (a, b *vipl.VI) {
	c.Helper()
	return c.pairOf(nil, nil)
}

// pairOf connects VIs with the given attributes; nil means the rule's.
func (c *Case) pairOf(attrA, attrB *vipl.Attributes) (a, b *vipl.VI) {
	c.Helper()
	a, b = c.vi(c.A, attrA), c.vi(c.B, attrB)
	c.join(a, b)
	return a, b
}

// join connects idle VIs of A and B.
func (c *Case) join(a, b *vipl.VI) {
	c.Helper()
	errA, errB := c.connect(a, b)
	if errA != nil || errB != nil {
		c.Fatalf("connect: %v; accept: %v", errA, errB)
	}
	c.state(a, vipl.StateConnected)
	c.state(b, vipl.StateConnected)
}

// connect sends a request of a, accepts it with b, and returns the result of each.
func (c *Case) connect(a, b *vipl.VI) (errA, errB error) {
	c.Helper()
	l := c.listen(b.NIC())
	defer l.Close()
	if c.wait == Block {
		ctx := c.ctx()
		return c.both(a.NIC(), func() error { return a.Connect(ctx, l.Addr(), nil) }, func() error {
			r, err := l.Wait(ctx)
			if err != nil {
				return err
			}
			return r.Accept(ctx, b)
		})
	}
	r := c.request(a, l, nil)
	if err := r.AcceptStart(b); err != nil {
		c.Fatal(err)
	}
	return c.outcome(a), c.outcome(b)
}

// request sends a connection request from a to l and returns it.
func (c *Case) request(a *vipl.VI, l *vipl.Listener, data []byte) *vipl.Request {
	c.Helper()
	if err := a.ConnectStart(l.Addr(), data); err != nil {
		c.Fatal(err)
	}
	return c.next(l)
}

// next waits for a request at l.
func (c *Case) next(l *vipl.Listener) (r *vipl.Request) {
	c.Helper()
	var err error
	if c.wait == Block {
		c.block(c.nicOf(l), func() { r, err = l.Wait(c.ctx()) })
	} else {
		c.await("a request", func() bool { r, err = l.Poll(); return err != vipl.ErrNotDone })
	}
	if err != nil {
		c.Fatal(err)
	}
	return r
}

// nicOf returns the NIC that l belongs to.
func (c *Case) nicOf(l *vipl.Listener) *vipl.NIC {
	if p := c.A.Query().Ports; l.Addr().MAC == c.A.Addr().MAC && p.Contains(l.Addr().Port) {
		return c.A
	}
	return c.B
}

// outcome waits for the end of v's attempt to connect, and returns its error.
func (c *Case) outcome(v *vipl.VI) (err error) {
	c.Helper()
	c.await("the end of a connection attempt", func() bool { err = v.ConnectDone(); return err != vipl.ErrNotDone })
	return err
}

// dial connects v to an address, with the rule's kind of wait, and returns the error.
func (c *Case) dial(v *vipl.VI, to ethertype.Addr) error {
	c.Helper()
	if c.wait == Block {
		var err error
		c.block(v.NIC(), func() { err = v.Connect(c.ctx(), to, nil) })
		return err
	}
	if err := v.ConnectStart(to, nil); err != nil {
		return err
	}
	return c.outcome(v)
}

// post posts a receive of size bytes.
func (c *Case) post(v *vipl.VI, size int) *vipl.Descriptor {
	c.Helper()
	r := c.buffer(v, size)
	if err := v.PostRecv(r); err != nil {
		c.Fatal(err)
	}
	return r
}

// buffer returns a descriptor with one segment of size bytes.
func (c *Case) buffer(v *vipl.VI, size int) *vipl.Descriptor {
	c.Helper()
	buf, h := c.mem(v.NIC(), max(size, 1), &vipl.MemAttributes{Ptag: attributes(v).Ptag})
	return &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[:size], Handle: h}}}
}

// send posts a send of size bytes, which fill creates from seed.
func (c *Case) send(v *vipl.VI, size, seed int) *vipl.Descriptor {
	c.Helper()
	s := c.buffer(v, size)
	fill(s.Segs[0].Data, seed)
	if err := v.PostSend(s); err != nil {
		c.Fatal(err)
	}
	return s
}

// sendNow posts a send and waits for it.
func (c *Case) sendNow(v *vipl.VI, size, seed int) {
	c.Helper()
	c.sent(v, c.send(v, size, seed), vipl.StatusOpSend)
}

// write posts an RDMA write of size bytes.
func (c *Case) write(v *vipl.VI, size int, addr uint64, h vipl.MemHandle, imm bool) *vipl.Descriptor {
	c.Helper()
	s := c.buffer(v, size)
	fill(s.Segs[0].Data, size)
	s.Op, s.HasImmediate, s.Immediate = vipl.OpRDMAWrite, imm, 0xCAFE
	s.Remote = vipl.RemoteSegment{Addr: addr, Handle: h}
	if err := v.PostSend(s); err != nil {
		c.Fatal(err)
	}
	return s
}

// taking is a Done call with the corresponding Wait call.
type taking struct {
	done func() (*vipl.Descriptor, error)
	wait func(ctx context.Context) (*vipl.Descriptor, error)
}

func sends(v *vipl.VI) taking    { return taking{v.SendDone, v.SendWait} }
func receives(v *vipl.VI) taking { return taking{v.RecvDone, v.RecvWait} }

// take waits for the oldest descriptor of a queue.
func (c *Case) take(v *vipl.VI, q taking) (d *vipl.Descriptor, err error) {
	c.Helper()
	if c.wait == Block {
		c.block(v.NIC(), func() { d, err = q.wait(c.ctx()) })
		return d, err
	}
	began := c.A.Now()
	other := c.other(v.NIC())
	for step := time.Duration(0); ; c.pass(&step) {
		if d, err = q.done(); err != vipl.ErrNotDone {
			return d, err
		}
		other.Poll()
		if c.late(began) {
			c.Fatalf("the oldest descriptor is still pending; %v, %v", v.State(), v.Err())
		}
	}
}

// sent waits for the oldest send, which must be want and have the given status.
func (c *Case) sent(v *vipl.VI, want *vipl.Descriptor, status vipl.Status) {
	c.Helper()
	d, err := c.take(v, sends(v))
	c.expect(d, err, want, status)
}

// got waits for the oldest receive, like sent.
func (c *Case) got(v *vipl.VI, want *vipl.Descriptor, status vipl.Status) {
	c.Helper()
	d, err := c.take(v, receives(v))
	c.expect(d, err, want, status)
}

// gotData is got for a message of send, and also checks the data.
func (c *Case) gotData(v *vipl.VI, want *vipl.Descriptor, size, seed int) {
	c.Helper()
	c.got(v, want, vipl.StatusOpReceive)
	if int(want.Length) != size || !same(want.Segs[0].Data[:size], seed) {
		c.Fatalf("received %d bytes, want the %d bytes of message %d", want.Length, size, seed)
	}
}

// expect checks that a Done call has returned descriptor want with a status, and the error for this
// status.
func (c *Case) expect(d *vipl.Descriptor, err error, want *vipl.Descriptor, status vipl.Status) {
	c.Helper()
	status |= vipl.StatusDone
	switch {
	case d == nil:
		c.Fatalf("took nothing: %v; want %v", err, status)
	case d != want:
		c.Fatalf("took another descriptor, with %v; want the one with %v", d.Status, status)
	case d.Status != status:
		c.Fatalf("status %v (%#x), want %v", d.Status, uint32(d.Status), status)
	case errors.Is(err, vipl.ErrDescriptor) != status.Failed() || !status.Failed() && err != nil:
		c.Fatalf("status %v came with error %v", d.Status, err)
	}
}

// pending checks that the oldest descriptor of a queue is not complete after all frames in flight
// have arrived.
func (c *Case) pending(q taking) {
	c.Helper()
	c.drain()
	if d, err := q.done(); d != nil || err != vipl.ErrNotDone {
		c.Fatalf("took %v, %v; want ErrNotDone", d, err)
	}
}

// empty checks that a queue is empty.
func (c *Case) empty(q taking) {
	c.Helper()
	if d, err := q.done(); d != nil || err != vipl.ErrQueueEmpty {
		c.Fatalf("took %v, %v; want ErrQueueEmpty", d, err)
	}
}

// is checks that err wraps want, or that both are nil.
func (c *Case) is(err, want error) {
	c.Helper()
	if want == nil && err != nil || !errors.Is(err, want) {
		c.Fatalf("got %v, want %v", err, want)
	}
}

// state checks that v is in a state.
func (c *Case) state(v *vipl.VI, want vipl.State) {
	c.Helper()
	if s := v.State(); s != want {
		c.Fatalf("the VI is %v (%v), want %v", s, v.Err(), want)
	}
}

// ended waits until VIs are in the Error state, and checks the cause.
func (c *Case) ended(cause error, vis ...*vipl.VI) {
	c.Helper()
	for _, v := range vis {
		c.await("the error state", func() bool { return v.State() == vipl.StateError })
		var conn *vipl.ConnError
		if err := v.Err(); !errors.Is(err, cause) || !errors.As(err, &conn) {
			c.Fatalf("the VI's error is %v, want a ConnError that is %v", err, cause)
		}
	}
}

// alive checks that VIs are still connected after all frames in flight have arrived.
func (c *Case) alive(vis ...*vipl.VI) {
	c.Helper()
	c.drain()
	for _, v := range vis {
		c.state(v, vipl.StateConnected)
	}
}

// works sends a message in each direction.
func (c *Case) works(a, b *vipl.VI) {
	c.Helper()
	for _, way := range [][2]*vipl.VI{{a, b}, {b, a}} {
		r := c.post(way[1], 100)
		s := c.send(way[0], 77, 5)
		c.gotData(way[1], r, 77, 5)
		c.sent(way[0], s, vipl.StatusOpSend)
	}
}

// blamed returns the status of a reliable send that the peer could not receive (VIPL reference,
// section 10).
func (c *Case) blamed() vipl.Status {
	if c.level == reliability.ReliableReception {
		return vipl.StatusRemoteDescError
	}
	return vipl.StatusTransportError
}
