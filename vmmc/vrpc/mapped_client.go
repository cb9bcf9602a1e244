package vrpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc"
)

// far is the part of an Exchange for VMMC.
type far struct {
	post    *parcel     // the send of its message
	conn    *mappedConn // its connection, or its last one
	held    bool        // its reply lies in the ring of conn
	ticket  uint64      // of the reply's record
	over    atomic.Bool // its time may have passed
	alarm   *time.Timer // sets over
	waker   atomic.Pointer[vmmc.Process]
	pausing func() bool  // what it waits for
	looking func() error // what it does then
}

// mappedConn is a client's connection over VMMC. Its calls read replies from the ring themselves,
// including the replies of other calls.
type mappedConn struct {
	*mapped
	addr  mappedAddr
	max   int // bytes of a reply
	calls *pending
	stats *clientStats

	end  sync.Once
	dead chan struct{} // closed when the connection has ended
	why  error
}

func (c *mappedConn) remoteAddr() net.Addr { return c.addr }

// alive also checks whether the server has gone.
func (c *mappedConn) alive() bool {
	if err := c.to.Done(); err != nil {
		c.fail(err)
	}
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

// fail ends the connection and all its calls, which may have run.
func (c *mappedConn) fail(err error) {
	c.end.Do(func() {
		if err != ErrClosed {
			err = &TransportError{Addr: c.addr.String(), Sent: true, Err: err}
		}
		c.why = err
		c.calls.fail(err, true)
		close(c.dead)
		c.proc.Wake()
	})
}

// read waits for the end of the connection. It receives no replies.
func (c *mappedConn) read() error {
	<-c.dead
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	c.writing <- struct{}{} // for good: the last send has returned
	c.close(ctx)
	return c.why
}

func (c *mappedConn) start(ctx context.Context, x *Exchange) error {
	if err := c.begin(ctx, x); err != nil {
		return err
	}
	if err := c.calls.add(x); err != nil {
		<-c.writing
		x.alarm.Stop()
		return unsent(err)
	}
	err := c.send(ctx, x)
	<-c.writing
	if err == nil {
		return nil
	}
	if err = c.calls.outcome(x, err); err == nil {
		x.done <- nil // the reply to a sent call has arrived: finish takes it
		return nil
	}
	x.alarm.Stop()
	return err
}

// finish leaves the reply in the ring until release.
func (c *mappedConn) finish(ctx context.Context, x *Exchange) error {
	defer x.alarm.Stop()
	err := c.await(ctx, x)
	if err == nil {
		x.post.waitSent(context.Background(), c.proc) // the reply implies that the call has arrived
	}
	x.retire()
	return err
}

// begin acquires the token for writing, and sets the alarm for x.
func (c *mappedConn) begin(ctx context.Context, x *Exchange) error {
	x.prepare(c)
	err := x.claim(ctx, c.writing, c.dead)
	if err != nil {
		x.alarm.Stop()
	}
	if err == errEnded {
		return unsent(c.why)
	}
	return err
}

// prepare prepares x to wait at c.
func (x *Exchange) prepare(c *mappedConn) {
	if x.post == nil {
		x.post = new(parcel)
	}
	if x.alarm == nil {
		x.alarm = time.AfterFunc(time.Hour, func() {
			x.over.Store(true)
			x.waker.Load().Wake()
		})
		x.pausing = func() bool { return len(x.done) > 0 || x.conn.ready() || x.over.Load() }
		x.looking = func() error { return x.conn.look(x) }
	}
	x.conn = c
	x.waker.Store(c.proc)
	x.setAlarm()
}

func (x *Exchange) setAlarm() {
	x.over.Store(false)
	if left := x.left(); left >= 0 {
		x.alarm.Reset(left)
	} else {
		x.alarm.Stop()
	}
}

// expired reports whether the time of x has passed. The alarm may belong to an earlier call.
func (x *Exchange) expired() bool {
	if !x.over.Load() {
		return false
	}
	if !x.Deadline.IsZero() && x.left() == 0 {
		return true
	}
	x.setAlarm()
	return false
}

// send sends the call. If it fails after a part was sent, the connection is unusable. So is the
// memory of the call, which may still be read.
func (c *mappedConn) send(ctx context.Context, x *Exchange) error {
	s := sending{post: x.post, pause: x.pausing, look: x.looking}
	record, err := c.mapped.send(ctx, x.room, headroom, nil, &s)
	if err == nil {
		x.room = record
		return nil
	}
	if s.begun {
		c.fail(errGivenUp)
		x.room, x.post = make([]byte, headroom, 512), nil
	}
	if c.to.Done() != nil {
		return c.lost(err)
	}
	return err
}

// await waits until x is done, and receives replies meanwhile.
func (c *mappedConn) await(ctx context.Context, x *Exchange) error {
	for {
		select {
		case err := <-x.done:
			return err
		default:
		}
		err := c.to.Await(ctx, x.pausing)
		switch {
		case err == nil:
			err = c.look(x)
		case ctx.Err() == nil:
			err = c.lost(err)
		}
		if err != nil {
			return c.calls.outcome(x, err)
		}
	}
}

// retire abandons the memory of a message that may still be read.
func (x *Exchange) retire() {
	if x.post != nil && x.post.Status() == vmmc.StatusPending {
		x.room, x.post = make([]byte, headroom, 512), nil
	}
}

// lost ends the connection because of an error of VMMC, and returns the error as one of this
// package.
func (c *mappedConn) lost(err error) error {
	c.fail(err)
	<-c.dead
	return c.why
}

// look takes the replies that have arrived, for x and others. It returns an error if the time of x
// has passed, or the connection has ended.
func (c *mappedConn) look(x *Exchange) error {
	woken, err := c.readReplies(x)
	if woken {
		c.proc.Wake()
	}
	if err == nil {
		err = c.acknowledge(context.Background())
	}
	switch {
	case err != nil:
		return c.lost(err)
	case len(x.done) == 0 && x.expired():
		return ErrTimeout
	}
	return nil
}

// ready reports whether there is a record. Other calls must not take it meanwhile: the server could
// then overwrite the memory that is being examined.
func (c *mappedConn) ready() bool {
	c.reading.Lock()
	defer c.reading.Unlock()
	return !c.closed && c.in.ready()
}

// readReplies takes replies out of the ring. It reports whether any was for a call other than x.
func (c *mappedConn) readReplies(x *Exchange) (others bool, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for !c.closed {
		rec, ticket, ok, err := c.receive()
		if err != nil || !ok {
			return others, err
		}
		msg, inRing, whole, err := c.piece(rec, ticket, c.max)
		if err != nil {
			return others, err
		}
		if !whole {
			continue
		}
		y, err := c.waiting(msg)
		switch {
		case err != nil:
			return others, err
		case y == nil:
			if inRing {
				c.free(ticket)
			}
			continue
		case inRing:
			y.held, y.ticket, y.Reply = true, ticket, msg
		default: // the next message is reassembled in the memory of the previous one
			c.partial, y.record = y.record[:0], msg
			y.Reply = msg
		}
		others = others || y != x
		y.done <- nil
	}
	return others, nil
}

// waiting returns the call that a reply is for, or nil if it no longer waits.
func (c *mappedConn) waiting(msg []byte) (*Exchange, error) {
	xid, ok := messageXID(msg, msgReply)
	if !ok {
		c.stats.NotAReply.Add(1)
		return nil, fmt.Errorf("%w: a message of %d bytes that is not a reply", ErrBadReply, len(msg))
	}
	x := c.calls.removeID(xid)
	if x == nil {
		c.stats.Strays.Add(1)
	}
	return x, nil
}

// release frees the memory of the ring that holds the reply to x.
func (c *mappedConn) release(x *Exchange) {
	x.held, x.Reply = false, nil
	c.reading.Lock()
	c.free(x.ticket)
	c.reading.Unlock()
	c.acknowledge(context.Background()) // if it fails, the next call reports it
}

// keepBack sends a call to which no reply is expected.
func (c *mappedConn) keepBack(ctx context.Context, x *Exchange) error {
	if err := c.begin(ctx, x); err != nil {
		return err
	}
	defer x.alarm.Stop()
	err := c.send(ctx, x)
	<-c.writing
	if err != nil {
		return err
	}
	err = x.post.waitSent(context.Background(), c.proc)
	x.retire()
	if err != nil {
		return c.lost(err)
	}
	return nil
}

// DialVMMC returns a client of a program at a server that has called ListenVMMC. The connection
// uses memory of process p, which the caller closes. DialVMMC waits for the server until ctx ends
// or ClientConfig.DialTimeout has passed.
func DialVMMC(ctx context.Context, p *vmmc.Process, name vmmc.Name, prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	find := func(ctx context.Context) (*vmmc.Import, error) { return p.Import(ctx, name) }
	return dialMapped(ctx, p, mappedAddr(name), find, prog, vers, cfg)
}

// DialVMMCProgram is like DialVMMC, but finds the server by the program's number, with the name
// service of the segment.
func DialVMMCProgram(ctx context.Context, p *vmmc.Process, prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	find := func(ctx context.Context) (*vmmc.Import, error) { return p.ImportWord(ctx, programWord(prog, vers)) }
	return dialMapped(ctx, p, mappedAddr{}, find, prog, vers, cfg)
}

// dialMapped returns a client of the server that find finds.
func dialMapped(ctx context.Context, p *vmmc.Process, addr mappedAddr, find func(context.Context) (*vmmc.Import, error), prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	t := newStreamClient(addr.String(), cfg)
	t.dial = func(ctx context.Context) (clientConn, error) {
		door, err := find(ctx)
		if err != nil {
			return nil, err
		}
		defer door.Unimport(context.WithoutCancel(ctx))
		m, err := knock(ctx, door, p, ringSize(cfg.Ring))
		if err != nil {
			return nil, err
		}
		owner := door.Owner()
		at := mappedAddr{Node: owner.Node, Process: owner.Process, ID: addr.ID}
		return &mappedConn{mapped: m, addr: at, max: t.max, calls: newPending(), stats: &t.clientStats, dead: make(chan struct{})}, nil
	}
	if _, err := t.connectFirst(ctx); err != nil {
		return nil, err
	}
	return NewClient(t, prog, vers, cfg), nil
}
