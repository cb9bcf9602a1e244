package tun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/stream"
)

// Bounds of the queue for one neighbour.
const (
	queuePackets = 1024
	queueBytes   = 2 << 20
)

// peer is a stream to a neighbour.
type peer struct {
	conn   *stream.Conn
	mac    ethertype.MAC
	mtu    int
	claims []netip.Addr // as the peer claims
	addrs  []netip.Addr // those of claims that the directory confirms
	queue  chan *buffer
	queued atomic.Int64 // bytes of memory
	over   chan struct{}
	once   sync.Once
	carried
	dropped atomic.Uint64
}

func (p *peer) has(a netip.Addr) bool { return slices.Contains(p.claims, a) }

// gone reports whether the stream has ended.
func (p *peer) gone() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// end ends the stream.
func (p *peer) end() {
	p.once.Do(func() {
		close(p.over)
		p.conn.SetDeadline(time.Now()) // no one waits for the unsent data any more
		p.conn.Close()
	})
}

// greet exchanges greetings.
func (t *Tun) greet(ctx context.Context, c *stream.Conn, first bool) (*peer, error) {
	limit, _ := ctx.Deadline()
	c.SetDeadline(limit)
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })
	defer stop()
	mine := hello{network: t.cfg.Network, mtu: t.cfg.MTU, addrs: t.addrs}
	say := func() error {
		_, err := c.Write(mine.append(nil))
		return err
	}
	if first {
		if err := say(); err != nil {
			return nil, err
		}
	}
	h, err := readHello(c)
	if err != nil {
		return nil, err
	}
	if h.network != t.cfg.Network {
		return nil, fmt.Errorf("tun: it is on network %q, this host on %q", h.network, t.cfg.Network)
	}
	if !first {
		if err := say(); err != nil {
			return nil, err
		}
	}
	if !stop() {
		return nil, ctx.Err()
	}
	c.SetDeadline(time.Time{})
	return &peer{conn: c, mac: station(c), mtu: h.mtu, claims: h.addrs, queue: make(chan *buffer, queuePackets), over: make(chan struct{})}, nil
}

// station returns the station that is the other end of a stream.
func station(c *stream.Conn) ethertype.MAC {
	addr, _ := c.RemoteAddr().(stream.Addr)
	return addr.Addr.MAC
}

// addNeighbour registers p as a neighbour, with those of its claimed addresses that the directory confirms.
// known is an address that was just confirmed. It returns an error if no address is confirmed.
func (t *Tun) addNeighbour(ctx context.Context, p *peer, known netip.Addr) error {
	for _, a := range p.claims {
		if a != known {
			var at ethertype.Addr
			err := errNoHost
			if ofHost(a) && !t.broadcast(a) && !t.mine[a] {
				at, err = t.cfg.NIC.Lookup(ctx, name(t.cfg.Network, a))
			}
			if err != nil || at.MAC != p.mac {
				t.counts.Claims.Add(1)
				t.cfg.Logger.Warn("tun: a neighbour claims an address that the directory assigns to another station", "neighbour", p.mac, "address", a, "answers", at.MAC)
				continue
			}
		}
		p.addrs = append(p.addrs, a)
	}
	if len(p.addrs) == 0 {
		p.end()
		return fmt.Errorf("tun: %v: the directory confirms none of its addresses", p.mac)
	}
	var wait []*buffer
	var before []*peer
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		p.end()
		return net.ErrClosed
	}
	t.peers[p] = struct{}{}
	for _, a := range p.addrs {
		w, b := t.table.found(a, p)
		wait = append(wait, w...)
		if b != nil && !slices.Contains(before, b) {
			before = append(before, b)
		}
	}
	t.mu.Unlock()
	for _, b := range wait {
		t.send(p, b)
	}
	for _, b := range before {
		if b.mac != p.mac {
			t.cfg.Logger.Warn("tun: addresses have moved", "from", b.mac, "to", p.mac, "addresses", addresses(p.addrs))
			t.group.Go(b.end) // it may linger; this goroutine is of the group, too
		}
	}
	t.cfg.Logger.Info("tun: neighbour connected", "station", p.mac, "addresses", addresses(p.addrs), "mtu", p.mtu)
	return nil
}

// whyGone returns why a neighbour has gone, given the error of its stream.
func whyGone(err error) string {
	if errors.Is(err, io.EOF) {
		return "it has closed its stream"
	}
	return fmt.Sprint(err)
}

// addresses are addresses that are logged as a comma-separated list.
type addresses []netip.Addr

func (a addresses) String() string {
	texts := make([]string, len(a))
	for i, addr := range a {
		texts[i] = addr.String()
	}
	return strings.Join(texts, ", ")
}

// serve moves packets in both directions until the stream ends.
func (t *Tun) serve(p *peer) {
	var writer sync.WaitGroup
	writer.Go(func() {
		t.write(p)
		p.end()
	})
	err := t.receive(p)
	p.end()
	writer.Wait()
	t.mu.Lock()
	delete(t.peers, p)
	t.table.gone(p)
	t.quota.give(p.mac)
	t.mu.Unlock()
	t.drop(p)
	if t.ctx.Err() == nil {
		t.cfg.Logger.Info("tun: neighbour disconnected", "station", p.mac, "addresses", addresses(p.addrs), "why", whyGone(err))
	}
}

// drop discards the queue of a neighbour that has gone.
func (t *Tun) drop(p *peer) {
	for {
		select {
		case b := <-p.queue:
			p.queued.Add(-b.cost())
			p.dropped.Add(1)
			t.counts.Overflow.Add(1)
			b.free()
		default:
			return
		}
	}
}

// pass sends a packet if the neighbour can accept it at once, and reports whether it did. If other
// packets wait for the neighbour, this one must wait, too.
func (t *Tun) pass(p *peer, b *buffer) bool {
	packet := b.packet()
	if o := getOffload(b.content().offload()); p.queued.Load() > 0 || o.longest(packet) > p.mtu || !p.conn.TryWrite(b.record()) {
		return false
	}
	t.sent(p, len(packet))
	return true
}

// sent counts a packet.
func (t *Tun) sent(p *peer, size int) {
	p.sent(size)
	t.counts.carried.sent(size)
}

// send queues a packet for a neighbour. It drops a packet that is longer than the neighbour's MTU,
// that finds the queue full, or whose neighbour has gone.
func (t *Tun) send(p *peer, b *buffer) {
	packet := b.packet()
	o := getOffload(b.content().offload())
	if o.longest(packet) > p.mtu {
		t.counts.TooBig.Add(1)
		t.tell(tooBig(packet, p.mtu))
		b.free()
		return
	}
	n := b.cost()
	if p.queued.Add(n) <= queueBytes {
		select {
		case p.queue <- b:
			if p.gone() {
				t.drop(p)
			}
			return
		default:
		}
	}
	p.queued.Add(-n)
	p.dropped.Add(1)
	t.counts.Overflow.Add(1)
	b.free()
}

// write sends queued packets until the stream ends.
func (t *Tun) write(p *peer) {
	for {
		select {
		case b := <-p.queue:
			n := b.cost()
			t.sent(p, len(b.packet()))
			_, err := p.conn.Write(b.record())
			b.free()
			p.queued.Add(-n)
			if err != nil {
				return
			}
		case <-p.over:
			return
		}
	}
}

// receive passes a neighbour's packets to the kernel until the stream ends.
func (t *Tun) receive(p *peer) error {
	r := newRecords(p.conn)
	defer r.end()
	for {
		c, err := r.next()
		if err != nil {
			if errors.Is(err, errRecord) {
				t.counts.Malformed.Add(1)
				err = fmt.Errorf("tun: %v: %w", p.mac, err)
			}
			return err
		}
		if t.takes(p, c) {
			_, size := c.packet()
			p.received(size)
			t.counts.carried.received(size)
			t.deliver(&c.parts)
		}
	}
}

// takes reports whether this host accepts a neighbour's packet.
func (t *Tun) takes(p *peer, c *arrival) bool {
	begin, n := c.packet()
	e, ok := parse(begin, n)
	o := getOffload(c.offload())
	switch {
	case !ok || !o.fits(n):
		t.counts.Malformed.Add(1)
	case !slices.Contains(p.addrs, e.src):
		t.counts.Spoofed.Add(1)
	case !t.mine[e.dst]:
		t.counts.Misdirected.Add(1)
	default:
		return true
	}
	return false
}
