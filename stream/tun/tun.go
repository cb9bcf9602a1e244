package tun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

// Tun is one host's interface to an IP network over VIs. It may be shared between goroutines.
type Tun struct {
	cfg      Config
	own      bool // it opened the NIC
	host     *stream.Host
	listener *stream.Listener
	dev      *device
	addrs    []netip.Addr
	mine     map[netip.Addr]bool
	counts   counts

	ctx    context.Context // ends with Close, or with the error that Run returns
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
	claims *claims // nil until Open acquires addresses

	mu     sync.Mutex
	table  table
	peers  map[*peer]struct{} // all with a valid greeting
	quota  quota
	closed bool
}

// Buffers of a stream. Packets of up to 64 KiB are copied into it, and several fit.
const (
	writeBuffer = 1 << 20
	readBuffer  = 1 << 20
)

// ackDelay is how long a VI delays an acknowledgement so that another frame can carry it, usually
// the answer of the neighbour's programs. Streams request acknowledgements that they need sooner.
const ackDelay = 500 * time.Microsecond

// linger is how long closing a stream waits for data in flight. Packets may be lost, so it is
// short: a neighbour that acknowledges nothing delays no one else.
const linger = 100 * time.Millisecond

// Open creates the interface and advertises its addresses on the segment. Run then moves packets.
// It needs CAP_NET_ADMIN and CAP_NET_RAW in the current network namespace. An error wraps
// ErrConfig, reports an address that another host has, or wraps an error of package vipl or the
// kernel.
//
// ctx bounds the call alone, not the life of the interface. Open may wait for other hosts that
// claim the addresses, or as vipl.Open does. If ctx ends before or meanwhile, the error wraps the
// context's error.
func Open(ctx context.Context, cfg *Config) (_ *Tun, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("tun: open: %w", err)
	}
	full, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Tun{cfg: full, table: newTable(), quota: newQuota(), peers: map[*peer]struct{}{}, mine: map[netip.Addr]bool{}}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	for _, p := range full.Addrs {
		t.addrs = append(t.addrs, p.Addr())
		t.mine[p.Addr()] = true
	}
	stop := context.AfterFunc(ctx, func() { t.cancel(ctx.Err()) }) // t.ctx has no deadline: see claims.get
	defer func() {
		if !stop() {
			err = fmt.Errorf("tun: open: %w", errors.Join(ctx.Err(), err))
		}
		if err != nil {
			t.Close()
		}
	}()
	if t.cfg.NIC == nil {
		if full.VIPL.Reliability == nil {
			full.VIPL.Reliability = &reliability.Config{AckDelay: int64(ackDelay)}
		}
		if t.cfg.NIC, err = vipl.Open(ctx, &full.VIPL); err != nil {
			return nil, fmt.Errorf("tun: %w", err)
		}
		t.own = true
	}
	if t.host, err = stream.Open(ctx, &stream.Config{NIC: t.cfg.NIC, ReadBuffer: readBuffer, WriteBuffer: writeBuffer, Linger: linger}); err != nil {
		return nil, err
	}
	if t.listener, err = (&stream.ListenConfig{Host: t.host}).Listen(t.ctx, ""); err != nil {
		return nil, err
	}
	t.claims = &claims{dir: t.cfg.NIC, network: full.Network, at: t.listener.Addr().(stream.Addr).Addr, log: full.Logger}
	if err = t.claims.get(t.ctx, t.addrs); err != nil {
		return nil, err
	}
	if t.dev, err = openDevice(full.Device, full.MTU, full.Addrs); err != nil {
		return nil, err
	}
	t.claims.sure()
	return t, nil
}

// Device returns the name of the interface.
func (t *Tun) Device() string { return t.dev.name }

// NIC returns the NIC that carries the packets.
func (t *Tun) NIC() *vipl.NIC { return t.cfg.NIC }

// Run moves packets until ctx ends, or until the interface or the NIC fails; it returns the error.
// It may be called once. If Close is called before or meanwhile, it returns net.ErrClosed.
func (t *Tun) Run(ctx context.Context) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return net.ErrClosed
	}
	t.group.Add(1) // Close waits for Run
	defer t.group.Done()
	t.group.Go(t.accept)
	t.group.Go(t.watch)
	t.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { t.shut(net.ErrClosed) })
	defer stop()
	t.shut((&reader{t: t, own: newBuffer()}).run())
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(t.ctx)
}

// watch shuts down the Tun when the NIC ends.
func (t *Tun) watch() {
	select {
	case <-t.cfg.NIC.Ended():
		t.shut(fmt.Errorf("tun: the NIC has failed: %w", t.cfg.NIC.Cause()))
	case <-t.ctx.Done():
	}
}

// shut ends everything. Run returns the first cause.
func (t *Tun) shut(cause error) {
	t.cancel(cause)
	if t.dev != nil {
		t.dev.Close()
	}
	if t.listener != nil {
		t.listener.Close()
	}
	t.mu.Lock()
	t.closed = true
	var all sync.WaitGroup
	for p := range t.peers {
		all.Go(p.end) // each may linger
	}
	t.mu.Unlock()
	all.Wait()
}

// Close removes the interface, ends all streams, and waits for Run. Closing twice does nothing.
func (t *Tun) Close() error {
	t.shut(net.ErrClosed)
	t.group.Wait()
	if t.claims != nil {
		t.claims.end()
	}
	var err error
	if t.host != nil {
		err = t.host.Close()
	}
	if t.own {
		err = errors.Join(err, t.cfg.NIC.Close())
	}
	logqueue.New(t.cfg.Logger).Flush(logFlush)
	return err
}

// logFlush is how long Close waits for the logger's handler to finish the last lines.
const logFlush = 100 * time.Millisecond

// outgoing sends a packet from the kernel. It returns a buffer for the next packet, and the
// neighbour if it has accepted the packet at once.
func (t *Tun) outgoing(b *buffer) (next *buffer, taken *peer) {
	e, ok := parse(b.packet(), len(b.packet()))
	switch {
	case !ok:
		t.counts.Malformed.Add(1)
		return b, nil
	case e.dst.IsMulticast() || t.broadcast(e.dst):
		t.counts.Multicast.Add(1)
		return b, nil
	}
	if p := t.neighbour(e.dst); p != nil && t.pass(p, b) {
		return b, p
	}
	now := t.now()
	kept := b.keep() // waiting packets occupy only about their own length
	t.mu.Lock()
	p, what := t.table.route(now, e.dst, kept)
	if what == toSearch && !t.closed {
		t.group.Go(func() { t.search(e.dst) })
	}
	t.mu.Unlock()
	switch what {
	case toPeer:
		t.send(p, kept)
	case toNobody:
		t.unreachable(kept)
	case toDrop:
		t.counts.Overflow.Add(1)
		kept.free()
	}
	if kept == b {
		return newBuffer(), nil
	}
	return b, nil
}

// neighbour returns the neighbour with an address, or nil if none is known.
func (t *Tun) neighbour(a netip.Addr) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.table.peer(a)
}

func (t *Tun) now() int64 { return t.cfg.NIC.Now() }

// broadcast reports whether a is the broadcast address of one of this host's networks.
func (t *Tun) broadcast(a netip.Addr) bool {
	if !a.Is4() {
		return false
	}
	if a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return true
	}
	for _, p := range t.cfg.Addrs {
		if p.Addr().Is4() && p.Bits() < 31 && p.Contains(a) && lastOf(p) == a {
			return true
		}
	}
	return false
}

// lastOf returns the last address of an IPv4 network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// unreachable reports to the sender of a packet that no host answers to its destination.
func (t *Tun) unreachable(b *buffer) {
	t.counts.Unreachable.Add(1)
	t.tell(unreachable(b.packet()))
	b.free()
}

// tell passes a packet of this host's own to the kernel.
func (t *Tun) tell(packet []byte) {
	if packet == nil {
		return
	}
	t.deliver(&[3][]byte{make([]byte, vnetSize), packet})
}

// deliver passes a packet with its header, in parts, to the kernel.
func (t *Tun) deliver(parts *[3][]byte) {
	if err := t.dev.write(parts); err != nil && !errors.Is(err, os.ErrClosed) {
		t.counts.Refused.Add(1)
	}
}

// searchTime bounds a lookup of an address, and the exchange of greetings.
const searchTime = 3 * time.Second

// search looks up an address on the segment, and opens a stream to the host that has it.
func (t *Tun) search(a netip.Addr) {
	ctx, cancel := context.WithTimeout(t.ctx, searchTime)
	defer cancel()
	p, err := t.connect(ctx, a)
	if err != nil {
		t.cfg.Logger.Debug("tun: no neighbour", "address", a, "error", err)
		t.mu.Lock()
		wait, other := t.table.failed(t.now(), a)
		t.mu.Unlock()
		for _, b := range wait {
			if other != nil {
				t.send(other, b)
			} else {
				t.unreachable(b)
			}
		}
		return
	}
	t.serve(p)
}

// connect opens a stream to the host that has an address. The quota includes it.
func (t *Tun) connect(ctx context.Context, a netip.Addr) (_ *peer, err error) {
	at, err := t.cfg.NIC.Lookup(ctx, name(t.cfg.Network, a))
	if err != nil {
		return nil, err
	}
	if !t.enter(at.MAC) {
		return nil, fmt.Errorf("tun: too many streams: %v has the maximum of %d, or all neighbours together %d", at.MAC, maxStreams, maxPeers)
	}
	defer func() {
		if err != nil {
			t.leave(at.MAC)
		}
	}()
	c, err := (&stream.Dialer{Host: t.host}).Dial(ctx, stream.Addr{Addr: at}.String())
	if err != nil {
		return nil, err
	}
	p, err := t.greet(ctx, c, true)
	if err == nil && !p.has(a) {
		err = fmt.Errorf("tun: %v does not have the address %v that it answers to", at.MAC, a)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return p, t.addNeighbour(ctx, p, a)
}

// accept accepts the streams of neighbours.
func (t *Tun) accept() {
	for {
		c, err := t.listener.AcceptStream()
		if err != nil {
			return
		}
		if t.enter(station(c)) {
			t.group.Go(func() { t.answer(c) }) // this goroutine is of the group, too
		} else {
			t.counts.Strangers.Add(1)
			c.Abort() // Close would wait for an acknowledgement and delay the next neighbour
		}
	}
}

// enter counts a stream with a station, and reports whether it is within the limits.
func (t *Tun) enter(mac ethertype.MAC) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.closed && t.quota.admit(mac)
}

// leave undoes enter.
func (t *Tun) leave(mac ethertype.MAC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quota.give(mac)
}

// answer serves a stream that a neighbour opened.
func (t *Tun) answer(c *stream.Conn) {
	ctx, cancel := context.WithTimeout(t.ctx, searchTime)
	p, err := t.greet(ctx, c, false)
	if err == nil {
		err = t.addNeighbour(ctx, p, netip.Addr{})
	}
	cancel()
	if err != nil {
		t.counts.Strangers.Add(1)
		t.cfg.Logger.Warn("tun: stream refused", "from", c.RemoteAddr(), "error", err)
		c.Close()
		t.leave(station(c))
		return
	}
	t.serve(p)
}
