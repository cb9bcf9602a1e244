package perf

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// spinForEver is a spin that outlasts every wait of a sample.
const spinForEver = time.Minute

// latencyDepth is how many receives a ping-pong keeps posted.
const latencyDepth = 4

// levels are the reliability levels by name.
var levels = map[string]reliability.Level{
	"unreliable": reliability.Unreliable,
	"delivery":   reliability.ReliableDelivery,
	"reception":  reliability.ReliableReception,
}

// viplStack is one virtual interface on its own NIC.
type viplStack struct{}

// Cases is part of Stack.
func (viplStack) Cases(p *Plan, test string, mtu, size int) []Case {
	var cases []Case
	for _, link := range p.Links {
		for _, level := range Levels {
			for _, wait := range p.Waits {
				if slices.Contains(p.Levels, level) && !(oneSided(test) && level == "unreliable") {
					cases = append(cases, Case{Stack: "vipl", Test: test, Reliability: level,
						Wait: wait, Link: link, MTU: mtu, Size: size})
				}
			}
		}
	}
	return cases
}

// viplConn is one end of a connected VI. All buffers have the case's size and lie in one region.
// Streams use credits, because a reliable VI breaks if a message arrives without a posted receive.
// The sink returns credits in the immediate data of empty messages.
type viplConn struct {
	nic    *vipl.NIC
	vi     *vipl.VI
	forget func() // ends watching

	memory   vipl.RemoteSegment // the peer's whole memory
	sends    []vipl.Descriptor
	recvs    []vipl.Descriptor
	credits  []vipl.Descriptor
	next     int // in sends
	credit   int // in credits
	inFlight int // sends and credits that have not been reaped
}

// Open implements Stack. The server listens and sends its address to the client.
func (viplStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	nic, err := h.openNIC(ctx, c)
	if err != nil {
		return nil, err
	}
	v := &viplConn{nic: nic, forget: h.watch(Opened{NIC: nic})}
	if err := v.connect(ctx, h, c); err != nil {
		v.Close()
		return nil, err
	}
	if oneSided(c.Test) {
		return v.oneSided(h, c)
	}
	return v, nil
}

// openNIC opens a NIC with the case's kind of wait.
func (h *Half) openNIC(ctx context.Context, c Case) (*vipl.NIC, error) {
	cfg := &vipl.Config{Interface: h.Interface, Driver: c.Link, Wrap: h.Wrap, Spin: spinForEver, Key: c.key()}
	if c.Wait == Block {
		cfg.Spin = -1
	}
	if c.Ways != (Ways{}) {
		var err error
		if cfg.Link, err = h.openLink(ctx, c); err != nil {
			return nil, err
		}
	}
	return vipl.Open(ctx, cfg)
}

func (v *viplConn) connect(ctx context.Context, h *Half, c Case) (err error) {
	level := levels[c.Reliability]
	if v.vi, err = v.nic.CreateVI(&vipl.Attributes{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level != reliability.Unreliable}, nil, nil); err != nil {
		return err
	}
	if err := v.allocate(c); err != nil {
		return err
	}
	if !h.server {
		text, err := h.Exchange("")
		if err != nil {
			return err
		}
		addr, err := ethertype.ParseAddr(text)
		if err != nil {
			return err
		}
		return v.vi.Connect(ctx, addr, nil)
	}
	l, err := v.nic.Listen(0)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := h.Exchange(l.Addr().String()); err != nil {
		return err
	}
	req, err := l.Wait(ctx)
	if err != nil {
		return err
	}
	return req.Accept(ctx, v.vi)
}

// depth returns how many messages of the case may be in flight.
func (v *viplConn) depth(c Case) int {
	if timed(c.Test) {
		return latencyDepth
	}
	depth := min(outstanding(c.Size), vipl.DefaultQueueDepth)
	if info := seam.Link(v.nic).Info(); c.Reliability == "unreliable" && info.Slots > 0 {
		// Only this window keeps the peer's receive queue from overflowing.
		frames := c.Size/max(info.MTU-ethertype.BaseSize, 1) + 1
		depth = min(depth, max(info.Slots/2/frames, 1))
	}
	return depth
}

// allocate allocates the buffers and posts all receives.
func (v *viplConn) allocate(c Case) error {
	depth := v.depth(c)
	mem, handle, err := v.nic.AllocMem(2*depth*c.Size, &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true})
	if err != nil {
		return err
	}
	occupy(mem)
	v.memory = vipl.RemoteSegment{Addr: vipl.VirtualAddress(mem), Handle: handle}
	v.sends = make([]vipl.Descriptor, depth)
	v.recvs = make([]vipl.Descriptor, depth)
	v.credits = make([]vipl.Descriptor, depth)
	for i := range depth {
		v.sends[i].Segs = []vipl.Segment{{Data: mem[:c.Size], Handle: handle}}
		v.recvs[i].Segs = []vipl.Segment{{Data: mem[c.Size : 2*c.Size], Handle: handle}}
		mem = mem[2*c.Size:]
		if err := v.vi.PostRecv(&v.recvs[i]); err != nil {
			return err
		}
	}
	return nil
}

// PingPong implements Conn. Like Echo, it first sends the next message. Then it posts the receive
// of the last message again, and reaps completed sends.
func (v *viplConn) PingPong(ctx context.Context, rtt []int64) error {
	last := v.nic.Now()
	var got *vipl.Descriptor
	for i := range rtt {
		if err := v.send(ctx); err != nil {
			return err
		}
		if err := v.again(got); err != nil {
			return err
		}
		if err := v.reap(); err != nil {
			return err
		}
		var err error
		if got, err = v.take(ctx); err != nil {
			return err
		}
		now := v.nic.Now()
		rtt[i] = now - last
		last = now
	}
	return v.again(got)
}

// Echo is part of Conn.
func (v *viplConn) Echo(ctx context.Context, n int) error {
	for range n {
		got, err := v.take(ctx)
		if err != nil {
			return err
		}
		if err := v.send(ctx); err != nil {
			return err
		}
		if err := v.again(got); err != nil {
			return err
		}
		if err := v.reap(); err != nil {
			return err
		}
	}
	return nil
}

// Stream is part of Conn.
func (v *viplConn) Stream(ctx context.Context, n int) (int, error) {
	taken := 0
	for sent := 0; taken < n; {
		if sent < n && sent-taken < len(v.recvs) {
			if err := v.send(ctx); err != nil {
				return 0, err
			}
			sent++
			continue
		}
		credit, err := v.recv(ctx)
		if err != nil {
			return 0, err
		}
		taken = int(credit)
	}
	return n, nil
}

// Sink is part of Conn.
func (v *viplConn) Sink(ctx context.Context, n int) error {
	every := max(len(v.recvs)/4, 1)
	for taken := 1; taken <= n; taken++ {
		if _, err := v.recv(ctx); err != nil {
			return err
		}
		if taken%every == 0 || taken == n {
			if err := v.sendCredit(ctx, taken); err != nil {
				return err
			}
		}
	}
	return nil
}

// send posts a message from the next buffer.
func (v *viplConn) send(ctx context.Context) error {
	if err := v.room(ctx); err != nil {
		return err
	}
	d := &v.sends[v.next]
	v.next = (v.next + 1) % len(v.sends)
	return v.post(d)
}

// sendCredit returns n credits to the streaming side.
func (v *viplConn) sendCredit(ctx context.Context, n int) error {
	if err := v.room(ctx); err != nil { // until then, the descriptor may be posted and must not change
		return err
	}
	d := &v.credits[v.credit]
	v.credit = (v.credit + 1) % len(v.credits)
	d.HasImmediate, d.Immediate = true, uint32(n)
	return v.post(d)
}

// room waits for a descriptor if all may be in use.
func (v *viplConn) room(ctx context.Context) error {
	if v.inFlight == len(v.sends) {
		if _, err := v.vi.SendWait(ctx); err != nil {
			return sendError(err)
		}
		v.inFlight--
		return v.reap()
	}
	return nil
}

// post posts d. The caller has made room for it.
func (v *viplConn) post(d *vipl.Descriptor) error {
	v.inFlight++
	return v.vi.PostSend(d)
}

// reap reaps completed sends if half of the descriptors may be in use.
func (v *viplConn) reap() error {
	for v.inFlight > len(v.sends)/2 {
		if _, err := v.vi.SendDone(); err == vipl.ErrNotDone {
			break
		} else if err != nil {
			return sendError(err)
		}
		v.inFlight--
	}
	return nil
}

func sendError(err error) error { return fmt.Errorf("perf: vipl send: %w", err) }

// recv waits for a message, posts its receive again and returns its immediate
// data.
func (v *viplConn) recv(ctx context.Context) (uint32, error) {
	d, err := v.take(ctx)
	if err != nil {
		return 0, err
	}
	imm := d.Immediate
	return imm, v.again(d)
}

// take waits for a message.
func (v *viplConn) take(ctx context.Context) (*vipl.Descriptor, error) {
	d, err := v.vi.RecvWait(ctx)
	if err != nil {
		return nil, fmt.Errorf("perf: vipl receive: %w", err)
	}
	return d, nil
}

// again posts the receive of a reaped message again. It does nothing for nil.
func (v *viplConn) again(d *vipl.Descriptor) error {
	if d == nil {
		return nil
	}
	return v.vi.PostRecv(d)
}

// Counters is part of Conn.
func (v *viplConn) Counters() Counters { return nicCounters(v.nic) }

// nicCounters returns a NIC's retransmissions and the sum of its lost frames, whatever the reason.
// Duplicate frames do not count as lost.
func nicCounters(nic *vipl.NIC) Counters {
	s := nic.Snapshot()
	c := linkCounters(s.Link)
	c.Retransmits = s.Closed.Retransmits
	for _, vi := range s.VIs {
		c.Retransmits += vi.Retransmits
	}
	c.Drops += s.TxDropped
	for _, why := range drops.All() {
		if why != drops.Duplicate {
			c.Drops += s.Dropped[why]
		}
	}
	return c
}

// Close is part of Conn.
func (v *viplConn) Close() error {
	v.forget()
	return v.nic.Close()
}

// oneSided prepares a connected VI for RDMA. The halves exchange the addresses of their memory,
// which has the same layout in both.
func (v *viplConn) oneSided(h *Half, c Case) (Conn, error) {
	text, err := h.Exchange(fmt.Sprintf("%d %d", v.memory.Addr, v.memory.Handle))
	var peer vipl.RemoteSegment
	if err == nil {
		_, err = fmt.Sscan(text, &peer.Addr, &peer.Handle)
	}
	if err != nil {
		v.Close()
		return nil, fmt.Errorf("perf: import the peer's memory: %w", err)
	}
	for i := range v.sends {
		d := &v.sends[i]
		d.Op, d.Remote = vipl.OpRDMARead, peer
		if c.Test == Write { // the i-th write goes into the buffer of the i-th receive
			d.Op = vipl.OpRDMAWrite
			d.Remote.Addr += uint64((2*i + 1) * c.Size)
		}
	}
	if c.Test == Read {
		return readConn{v}, nil
	}
	return writeConn{v}, nil
}

// readConn reads the peer's memory. The peer waits for the message that ends the reads. While it
// waits, its NIC serves them.
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

// writeConn writes to the peer's memory. The last write of a sample carries immediate data, which
// the peer answers. When it arrives, all earlier writes are in place.
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
		if v.inFlight == len(v.sends) { // the next descriptor may be in use
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
