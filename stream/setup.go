package stream

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

// newConn creates an unconnected Conn with its memory, and posts its receives.
func (h *Host) newConn() (c *Conn, err error) {
	c = &Conn{host: h, nic: h.nic}
	c.kick = c.completed
	defer func() {
		if err != nil {
			c.tear()
			err = fmt.Errorf("stream: %w", err)
		}
	}()
	if c.tx.tag, err = h.nic.CreatePtag(); err != nil {
		return c, err
	}
	if err = c.allocate(); err != nil {
		return c, err
	}
	if c.cq, err = seam.NewQueue(h.nic, flow.Depth+flow.Reserve+txDescs, reapBatch); err != nil {
		return c, err
	}
	c.vi, err = h.nic.CreateVI(&vipl.Attributes{
		Ptag: c.tx.tag, EnableRDMAWrite: true, QueueDepth: flow.Depth + flow.Reserve,
		PeerTimeout: h.cfg.PeerTimeout,
	}, c.cq.CQ, c.cq.CQ)
	if err != nil {
		return c, err
	}
	c.local = Addr{Addr: c.vi.Local()}
	return c, c.postReceives()
}

// allocate allocates the ring, which the peer can write to, and the stage, which it cannot. The
// stage is followed by room for a greeting in each direction.
func (c *Conn) allocate() (err error) {
	cfg := &c.host.cfg
	c.rx.ring, c.rx.handle, err = c.nic.AllocMem(cfg.ReadBuffer, &vipl.MemAttributes{Ptag: c.tx.tag, EnableRDMAWrite: true})
	if err != nil {
		return err
	}
	c.rx.ring = c.rx.ring[:cfg.ReadBuffer]
	c.rx.Receiver = flow.NewReceiver(uint32(cfg.ReadBuffer))
	c.tx.buf, c.tx.handle, err = c.nic.AllocMem(cfg.WriteBuffer+2*flow.HelloSize, &vipl.MemAttributes{Ptag: c.tx.tag})
	if err != nil {
		return err
	}
	c.tx.greeting, c.tx.buf = c.tx.buf[cfg.WriteBuffer:], c.tx.buf[:cfg.WriteBuffer]
	c.tx.stage = flow.NewStage(cfg.WriteBuffer)
	descs := make([]txDesc, txDescs)
	c.tx.free = make([]*txDesc, 0, txDescs)
	for i := range descs {
		c.tx.free = append(c.tx.free, &descs[i])
	}
	return nil
}

// postReceives posts the receives for the peer's messages. The first one has room for the peer's
// greeting.
func (c *Conn) postReceives() error {
	c.rx.recvs = make([]vipl.Descriptor, flow.Depth+flow.Reserve)
	c.rx.recvs[0].Segs = []vipl.Segment{{Data: c.tx.greeting[flow.HelloSize:][:flow.HelloSize], Handle: c.tx.handle}}
	for i := range c.rx.recvs {
		if err := c.vi.PostRecv(&c.rx.recvs[i]); err != nil {
			return err
		}
	}
	return nil
}

// hello returns this end's description of its ring.
func (c *Conn) hello() flow.Hello {
	return flow.Hello{Size: uint32(len(c.rx.ring)), Handle: uint32(c.rx.handle), Addr: vipl.VirtualAddress(c.rx.ring)}
}

// meet processes the other end's greeting.
func (c *Conn) meet(h flow.Hello) {
	c.tx.Sender = flow.NewSender(h.Size)
	c.tx.peer = vipl.RemoteSegment{Addr: h.Addr, Handle: vipl.MemHandle(h.Handle)}
	c.greeted = true
}

// greet processes a greeting that arrives as a message. Only the end that requested the connection
// gets one.
func (c *Conn) greet(segs []vipl.Segment, length uint32) error {
	if c.greeted || len(segs) == 0 || int(length) > len(segs[0].Data) {
		return errAgain
	}
	h, err := flow.ParseHello(segs[0].Data[:length])
	if err == nil {
		c.meet(h)
	}
	return err
}

// answer sends this end's greeting to the end that requested the connection.
func (c *Conn) answer() error {
	h := c.hello()
	h.Put(c.tx.greeting)
	t := c.tx.unusedDescriptor()
	t.Op, t.HasImmediate, t.Unordered = vipl.OpSend, false, false
	t.segs[0] = vipl.Segment{Data: c.tx.greeting[:flow.HelloSize], Handle: c.tx.handle}
	t.Segs = t.segs[:]
	c.post(t)
	return c.err
}

// connect requests a connection to addr and waits for the greeting.
func (c *Conn) connect(ctx context.Context, addr ethertype.Addr) error {
	var data [flow.HelloSize]byte
	h := c.hello()
	h.Put(data[:])
	err := c.vi.Connect(ctx, addr, data[:])
	c.lock()
	defer c.unlock()
	c.remote = Addr{Addr: addr}
	if at := c.vi.Remote(); !at.IsZero() {
		c.remote = Addr{Addr: at} // the peer's VI, not the listener
	}
	if err != nil {
		if c.reap(); c.greeted { // it was connected, and the peer has closed it since
			return nil
		}
		return err
	}
	limit := int64(0)
	if _, ok := ctx.Deadline(); !ok {
		limit = c.nic.Now() + int64(vipl.DefaultConnectTimeout)
	}
	for !c.greeted {
		if c.err != nil {
			return c.err
		}
		if err := c.wait(ctx, limit); err != nil {
			return err
		}
	}
	return nil
}

// accept accepts a request for a connection.
func (c *Conn) accept(ctx context.Context, req *vipl.Request) error {
	h, err := flow.ParseHello(req.Data())
	if err != nil {
		return err
	}
	if err := req.Accept(ctx, c.vi); err != nil {
		return err
	}
	c.remote = Addr{Addr: req.Remote()}
	c.lock()
	defer c.unlock()
	c.meet(h)
	return c.answer()
}
