package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/udp"
	"golang.org/x/sys/unix"
)

// A raw frame has the fields that the link's filter checks, and three more fields at the offsets
// that they have in Bobnet's header. There is no CRC and no retransmission.
const (
	rawSeq  = 26 // 4 bytes: number of the frame
	rawAck  = 30 // 4 bytes: frames received so far
	rawSize = 54 // 2 bytes: payload bytes, 0 in a bare acknowledgement
)

const (
	rawWindow = 64        // frames in flight; floors do not rise beyond
	rawBatch  = 32        // most frames in one call
	rawBytes  = 512 << 10 // most bytes in one call: the kernel preempts longer calls of the ring
	rawInline = 256       // payloads of up to this size are copied behind the header
	rawSpins  = 1 << 12   // polls of the ring (about 20 us) before this thread yields the core
	rawPause  = 20 * time.Microsecond
	rawQuiet  = 500 * time.Millisecond // if no frame arrives for so long, one was lost
)

// rawStack is the lower limit of times with which the other stacks are compared. It sends frames in
// batches on the bare link. A window keeps receive queues from overflowing. There is no other
// protocol.
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

	tx, rx cursor // user memory: source of sent payloads, destination of received payloads

	sent, peerGot uint32 // frames sent; frames that the peer has acknowledged
	got, told     uint32 // frames received; frames acknowledged
	arrived       int    // whole messages that have arrived and have not been returned yet

	batch  uint32 // frames in one call
	heads  [rawBatch][]byte
	bodies [rawBatch][1][]byte
	frames [rawBatch]transport.Frame
	ack    [1]transport.Frame
	views  [transport.MaxBatch][]byte

	deadline int64 // deadline of the running call, by the link's clock
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
	return Counters{Drops: s.RxDrops + s.RxTorn + s.TxDrops + s.RxTruncated}
}

// Close is part of Conn.
func (r *rawConn) Close() error { return r.link.Close() }

// setDeadline makes the running call end when ctx does.
func (r *rawConn) setDeadline(ctx context.Context) {
	left := sampleTimeout
	if t, ok := ctx.Deadline(); ok {
		left = time.Until(t)
	}
	r.deadline = r.link.Now() + int64(left)
}

// sendMessages sends n messages in batches of frames, as far as the window allows.
func (r *rawConn) sendMessages(n int) error {
	for n > 0 {
		room := min(r.window-(r.sent-r.peerGot), r.batch)
		if room == 0 {
			if err := r.progress(); err != nil {
				return err
			}
			continue
		}
		whole, err := r.sendBatch(int(room), n)
		if err != nil {
			return err
		}
		n -= whole
		if n > 0 && r.link.Ready() {
			if err := r.receive(); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendBatch sends up to room frames of up to n messages in one call, and returns the number of
// messages of which the last frame has been sent.
func (r *rawConn) sendBatch(room, n int) (whole int, err error) {
	at, k, ends := r.tx, 0, 0
	for k < room && ends < n {
		part := at.next(r.room)
		r.build(k, part)
		if at.advance(len(part)) {
			ends++
		}
		k++
	}
	took, err := r.link.Send(r.frames[:k])
	if err != nil {
		return 0, fmt.Errorf("perf: raw send: %w", err)
	}
	r.sent += uint32(took)
	r.told = r.got // every frame carries an acknowledgement
	if took == k {
		r.tx = at
		return ends, nil
	}
	for range took { // the link did not take the rest, which is built again
		part := r.tx.next(r.room)
		if r.tx.advance(len(part)) {
			whole++
		}
	}
	return whole, r.pause()
}

// pause gives a full queue of the network time to drain.
func (r *rawConn) pause() error {
	now := r.link.Now()
	if now >= r.deadline {
		return errLost
	}
	return r.link.Wait(now + int64(rawPause))
}

// build builds the i-th frame of the batch with the payload part.
func (r *rawConn) build(i int, part []byte) {
	head := r.heads[i]
	binary.BigEndian.PutUint32(head[rawSeq:], r.sent+uint32(i))
	binary.BigEndian.PutUint32(head[rawAck:], r.got)
	binary.BigEndian.PutUint16(head[rawSize:], uint16(len(part)))
	f := &r.frames[i]
	if len(part) <= rawInline {
		f.Head = head[:ethertype.HeaderSize+copy(head[ethertype.HeaderSize:], part)]
		f.Body = nil
		return
	}
	r.bodies[i][0] = part
	f.Head, f.Body = head[:ethertype.HeaderSize], r.bodies[i][:]
}

// recvMessages waits for n messages.
func (r *rawConn) recvMessages(n int) error {
	for r.arrived < n {
		if err := r.progress(); err != nil {
			return err
		}
	}
	r.arrived -= n
	return nil
}

// progress waits for frames by the case's kind of wait, and receives them. If none arrives for
// rawQuiet, a frame has been lost. A spinning wait reads the clock only after many polls, so that
// the measured times do not include clock readings.
func (r *rawConn) progress() error {
	if r.link.Ready() {
		return r.receive()
	}
	if !r.spin {
		end := r.patience()
		if err := r.link.Wait(end); err != nil {
			return fmt.Errorf("perf: raw wait: %w", err)
		}
		if r.link.Now() >= end {
			return errLost
		}
		return r.receive()
	}
	for spins, end := 1, int64(0); !r.link.Ready(); spins++ {
		if spins%rawSpins != 0 {
			continue
		}
		if end == 0 {
			end = r.patience()
		} else if r.link.Now() >= end {
			return errLost
		}
		schedYield() // the other half may need this core
	}
	return r.receive()
}

// patience returns the end of a wait that begins now.
func (r *rawConn) patience() int64 { return min(r.deadline, r.link.Now()+int64(rawQuiet)) }

// schedYield yields the core to other threads that are ready to run.
func schedYield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// receive handles the frames that have arrived: it copies payloads to user memory, and sends an
// acknowledgement for every quarter of a window.
func (r *rawConn) receive() error {
	n, err := r.link.Recv(r.views[:])
	if err != nil {
		return fmt.Errorf("perf: raw receive: %w", err)
	}
	for _, view := range r.views[:n] {
		if err := r.take(view); err != nil {
			return err
		}
	}
	if r.got-r.told >= max(r.window/4, 1) {
		return r.sendAck()
	}
	return nil
}

func (r *rawConn) take(view []byte) error {
	r.peerGot = binary.BigEndian.Uint32(view[rawAck:])
	size := int(binary.BigEndian.Uint16(view[rawSize:]))
	if size == 0 {
		return nil
	}
	payload := view[ethertype.HeaderSize:]
	to := r.rx.next(r.room)
	if binary.BigEndian.Uint32(view[rawSeq:]) != r.got || size != len(to) || size > len(payload) {
		return errLost
	}
	copy(to, payload)
	r.got++
	if r.rx.advance(size) {
		r.arrived++
	}
	return nil
}

// sendAck sends the number of received frames to the peer.
func (r *rawConn) sendAck() error {
	head := r.ack[0].Head
	binary.BigEndian.PutUint32(head[rawAck:], r.got)
	for {
		n, err := r.link.Send(r.ack[:])
		if err != nil {
			return fmt.Errorf("perf: raw acknowledgement: %w", err)
		}
		if n == 1 {
			r.told = r.got
			return nil
		}
		if err := r.pause(); err != nil {
			return err
		}
	}
}
