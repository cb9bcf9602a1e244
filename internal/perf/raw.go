package perf

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/udp"
)

// Raw frames carry what the link's filter looks at, and three fields of their
// own where Bobnet's header has them too. There is no CRC and no repair.
const (
	rawSeq  = 26 // 4 bytes: number of the frame
	rawAck  = 30 // 4 bytes: frames received so far
	rawSize = 54 // 2 bytes: payload bytes, 0 in a bare acknowledgement
)

const (
	rawWindow = 64        // frames in flight; floors do not rise beyond
	rawBatch  = 32        // frames in one call, at the most
	rawBytes  = 512 << 10 // and bytes: the ring's longer calls lose their processor
	rawInline = 256       // up to here the payload is copied behind the header
	rawSpins  = 1 << 12   // looks at the ring, some 20 us, before the core is offered to others
	rawPause  = 20 * time.Microsecond
	rawQuiet  = 500 * time.Millisecond // without a frame: one was lost
)

// rawStack is the floor that the other stacks are compared with: frames on the
// bare link in batches, a window so that nothing is lost, nothing else.
type rawStack struct{}

// Cases is part of Stack.
func (rawStack) Cases(p *Plan, test string, mtu, size int) []Case {
	if mtu <= ethertype.BaseSize {
		return nil
	}
	var cases []Case
	for _, link := range p.Links {
		for _, wait := range p.Waits {
			cases = append(cases, Case{Stack: "raw", Test: test, Wait: wait, Link: link, MTU: mtu, Size: size})
		}
	}
	return cases
}

// rawConn is one end of a raw connection. Messages are cut into frames, which
// the link keeps in order.
type rawConn struct {
	link   transport.Link
	spin   bool
	room   int // payload bytes of a full frame
	window uint32

	tx, rx cursor // user memory: what is sent from, what is received to

	sent, peerGot uint32 // frames sent; of them, received by the peer
	got, told     uint32 // frames received; of them, the peer has been told
	arrived       int    // whole messages that have arrived and nobody asked for yet

	batch  uint32 // frames in one call
	heads  [rawBatch][]byte
	bodies [rawBatch][1][]byte
	frames [rawBatch]transport.Frame
	ack    [1]transport.Frame
	views  [transport.MaxBatch][]byte

	deadline int64 // of the running call, on the link's clock
}

// Open is part of Stack.
func (rawStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	link, err := h.openLink(ctx, c)
	if err != nil {
		return nil, err
	}
	info := link.Info()
	text, err := h.Exchange(ethertype.Addr{MAC: info.MAC, Port: info.Ports.Lo}.String())
	if err != nil {
		link.Close()
		return nil, err
	}
	peer, err := ethertype.ParseAddr(text)
	if err != nil {
		link.Close()
		return nil, err
	}
	return newRawConn(link, peer, c), nil
}

// openLink opens the link of a case.
func (h *Half) openLink(ctx context.Context, c Case) (transport.Link, error) {
	link, err := openLink(ctx, c, h.Interface)
	if err != nil || h.Wrap == nil {
		return link, err
	}
	return h.Wrap(link), nil
}

func openLink(ctx context.Context, c Case, iface string) (transport.Link, error) {
	switch c.Link {
	case "packet":
		return packet.Open(ctx, &packet.Config{Interface: iface})
	case "udp":
		return udp.Open(ctx, &udp.Config{Interface: iface})
	case "myrinet":
		return plain.Open(ctx, &plain.OpenConfig{Interface: iface})
	case linkShm:
		return shm.Open(&shm.Config{Interface: iface})
	}
	cfg, err := c.ringConfig(iface)
	if err != nil {
		return nil, err
	}
	return ring.Open(ctx, cfg)
}

func newRawConn(link transport.Link, peer ethertype.Addr, c Case) *rawConn {
	info := link.Info()
	r := &rawConn{link: link, spin: c.Wait == Spin, window: rawWindow, tx: newCursor(c.Size), rx: newCursor(c.Size)}
	r.room = min(info.MTU-ethertype.BaseSize, ethertype.MaxSize)
	if l, ok := link.(optional.Local); ok && c.Link == linkShm {
		info.Slots = l.LocalSlots()
	}
	if info.Slots > 0 {
		r.window = uint32(min(max(info.Slots/2, 1), rawWindow))
	}
	r.batch = uint32(min(max(rawBytes/info.MTU, 1), rawBatch))
	head := ethertype.Header{
		Dst: peer.MAC, Src: info.MAC, Type: info.EtherType, Kind: ethertype.KindData,
		DstPort: peer.Port, SrcPort: info.Ports.Lo, Count: 1,
	}
	for i := range r.heads {
		r.heads[i] = make([]byte, ethertype.HeaderSize+rawInline)
		head.Put(r.heads[i])
	}
	ack := make([]byte, ethertype.HeaderSize)
	head.Put(ack)
	r.ack[0].Head = ack
	return r
}

// PingPong is part of Conn.
func (r *rawConn) PingPong(ctx context.Context, rtt []int64) error {
	r.setDeadline(ctx)
	last := r.link.Now()
	for i := range rtt {
		if err := r.sendMessages(1); err != nil {
			return err
		}
		if err := r.recvMessages(1); err != nil {
			return err
		}
		now := r.link.Now()
		rtt[i] = now - last
		last = now
	}
	return nil
}

// Echo is part of Conn.
func (r *rawConn) Echo(ctx context.Context, n int) error {
	r.setDeadline(ctx)
	for range n {
		if err := r.recvMessages(1); err != nil {
			return err
		}
		if err := r.sendMessages(1); err != nil {
			return err
		}
	}
	return nil
}

// Stream is part of Conn.
func (r *rawConn) Stream(ctx context.Context, n int) (int, error) {
	r.setDeadline(ctx)
	if err := r.sendMessages(n); err != nil {
		return 0, err
	}
	for r.peerGot != r.sent {
		if err := r.progress(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Sink is part of Conn.
func (r *rawConn) Sink(ctx context.Context, n int) error {
	r.setDeadline(ctx)
	if err := r.recvMessages(n); err != nil {
		return err
	}
	return r.sendAck()
}

// Counters is part of Conn.
func (r *rawConn) Counters() Counters { return linkCounters(r.link.Stats()) }

func linkCounters(s transport.Stats) Counters {
	return Counters{Drops: s.RxDrops + s.TxDrops + s.RxTruncated}
}

// Close is part of Conn.
func (r *rawConn) Close() error { return r.link.Close() }
