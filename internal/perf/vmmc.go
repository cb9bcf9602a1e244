package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vmmc"
)

// The modes of the test overhead: how vmmc sends.
const (
	modeSync  = "sync"  // a call returns when the source may be used again
	modeAsync = "async" // a call posts the send
)

// vmmcBoard is the number under which each half exports its memory.
const vmmcBoard = 1

// vmmcAlign is the alignment of the ends of messages, so that their last words are words of memory.
const vmmcAlign = 8

// vmmcSends is the maximum number of posted messages of a stream. A message may need several
// writes, and the total must not exceed 1024, the default of vmmc.Config.MaxSends.
const vmmcSends = 256

// vmmcStack runs one process on each side. Each process imports the other's memory and writes to
// it.
type vmmcStack struct{}

// Cases is part of Stack.
func (vmmcStack) Cases(p *Plan, test string, mtu, size int) []Case {
	modes := []string{""}
	if test == Overhead {
		modes = []string{modeSync, modeAsync}
	}
	var cases []Case
	for _, link := range p.Links {
		for _, wait := range p.Waits {
			for _, mode := range modes {
				cases = append(cases, Case{Stack: "vmmc", Test: test, Reliability: "delivery",
					Wait: wait, Link: link, Mode: mode, MTU: mtu, Size: size})
			}
		}
	}
	return cases
}

// vmmcConn is one end. The peer writes to the board. The board has a slot for each of the peer's
// buffers, followed by a word for the number of streams that the peer has ended. In tests that wait
// for each message, messages are numbered. Each ends with its number. They use two slots in turn,
// because the peer may be one message ahead. A half that spins polls the message's last word; a
// half that blocks waits for the notification of each message.
type vmmcConn struct {
	on      *base
	p       *vmmc.Process
	forget  func()
	spin    bool
	mode    string
	size    int
	stride  int // distance between slots in bytes
	short   bool
	board   []byte
	peer    vmmc.ProxyAddr // the peer's board
	bufs    [][]byte
	sends   []vmmc.Send
	next    int // in bufs
	posted  int // in sends
	end     [vmmc.WordSize]byte
	drained vmmc.Send

	sent, taken   uint32 // numbered messages
	ended, endsIn uint32 // number of streams that this half, and the peer, have ended
	told          uint32 // number of notifications that have arrived
	heard         uint32 // number of notifications that wait has consumed
}

// Open is part of Stack.
func (vmmcStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	on, err := h.openBase(ctx, c)
	if err != nil {
		return nil, err
	}
	v, err := newVMMCConn(ctx, h, on, c)
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	return v.as(c.Test), nil
}

// as returns the end in the form that a test needs.
func (v *vmmcConn) as(test string) Conn {
	switch test {
	case Overhead:
		return overheadConn{v}
	case Bidirectional:
		return bidirectionalConn{v}
	}
	return v
}

// newVMMCConn creates an end on a NIC or card. If there is no error, the end owns the NIC or card.
func newVMMCConn(ctx context.Context, h *Half, on *base, c Case) (v *vmmcConn, err error) {
	v = &vmmcConn{on: on, spin: c.Wait == Spin, mode: c.Mode, size: c.Size, short: c.Size <= vmmc.DefaultShort}
	v.stride = (c.Size + vmmcAlign - 1) / vmmcAlign * vmmcAlign
	if v.p, err = openProcess(h, on); err != nil {
		return nil, err
	}
	if err = v.meet(ctx, h); err != nil {
		return nil, errors.Join(on.explain(err), v.p.Close())
	}
	v.forget = h.watch(Opened{NIC: on.nic, Process: v.p})
	return v, nil
}

// openProcess opens the process of a half, the server's as 1 and the client's as 0, in a
// scope that the server's address makes unique.
func openProcess(h *Half, on *base) (*vmmc.Process, error) {
	addr, err := h.Exchange(on.address())
	if err != nil {
		return nil, err
	}
	number := uint32(0)
	if h.server {
		number, addr = 1, on.address()
	}
	return vmmc.Open(context.Background(), &vmmc.Config{NIC: on.nic, Card: on.sends, Process: number, Job: "perf-" + addr})
}

// meet allocates and exports the memory, and imports the peer's memory.
func (v *vmmcConn) meet(ctx context.Context, h *Half) error {
	n := outstanding(v.size)
	v.bufs, v.sends = make([][]byte, n), make([]vmmc.Send, min(n, vmmcSends))
	mem, err := v.memory(2*n*v.stride + vmmcAlign)
	if err != nil {
		return err
	}
	occupy(mem[:n*v.stride])
	for i := range v.bufs {
		v.bufs[i] = mem[(i+1)*v.stride-v.size : (i+1)*v.stride]
	}
	v.board = mem[n*v.stride:]
	if _, err := v.p.Export(v.board, vmmcBoard, vmmc.Everybody, func(vmmc.Notification) { atomic.AddUint32(&v.told, 1) }); err != nil {
		return err
	}
	peer := uint32(1)
	if h.server {
		peer = 0
	}
	board, err := v.p.Import(ctx, vmmc.Name{Process: peer, ID: vmmcBoard})
	if err != nil {
		return err
	}
	v.peer = board.Addr()
	return nil
}

// memory returns memory from which the process sends and which it can export. The NIC or card takes
// it back when it is closed.
func (v *vmmcConn) memory(n int) ([]byte, error) {
	if v.on.nic != nil {
		return v.on.memory(n)
	}
	return v.p.AllocMem(n)
}

// slot returns where the message in the i-th slot begins, on either board.
func (v *vmmcConn) slot(i int) int { return (i+1)*v.stride - v.size }

// endWord returns the offset of the word that counts ended streams.
func (v *vmmcConn) endWord() int { return len(v.bufs) * v.stride }

// numberBytes returns the last bytes of a message, which contain its number, or as much of it as
// fits.
func numberBytes(n uint32, size int) (b [vmmc.WordSize]byte) {
	binary.LittleEndian.PutUint32(b[:], n)
	if size < len(b) {
		b = [vmmc.WordSize]byte{}
		for i := range size {
			b[len(b)-size+i] = byte(n >> (8 * i))
		}
	}
	return b
}

// put sends the next numbered message.
func (v *vmmcConn) put(ctx context.Context) error {
	v.sent++
	i := int(v.sent % 2)
	b, buf := numberBytes(v.sent, v.size), v.bufs[i]
	k := min(v.size, len(b))
	copy(buf[v.size-k:], b[len(b)-k:])
	return v.send(ctx, buf, v.slot(i))
}

// send sends synchronously to a place on the peer's board.
func (v *vmmcConn) send(ctx context.Context, src []byte, at int) error {
	dst := v.peer + vmmc.ProxyAddr(at)
	if v.spin {
		return v.p.SendMsg(ctx, src, dst)
	}
	return v.p.SendMsgWithNotify(ctx, src, dst)
}

// take waits for the peer's next numbered message.
func (v *vmmcConn) take(ctx context.Context) error {
	v.taken++
	b := numberBytes(v.taken, v.size)
	at := (int(v.taken%2)+1)*v.stride - vmmc.WordSize
	return v.wait(ctx, at, binary.NativeEndian.Uint32(b[:]))
}

// wait waits until a word of the board has a value. If the half blocks, it waits for the
// notification that follows the value.
func (v *vmmcConn) wait(ctx context.Context, at int, value uint32) error {
	word := vmmc.Word(v.board, at)
	if !v.spin {
		_, err := v.p.WaitWord(ctx, &v.told, v.heard)
		v.heard++
		return err
	}
	var err error
	for seen := atomic.LoadUint32(word); seen != value && err == nil; {
		seen, err = v.p.Spin(ctx, word, seen)
	}
	return err
}

// tellEnd marks the end of a stream at the peer, after all earlier messages have arrived there.
func (v *vmmcConn) tellEnd(ctx context.Context) error {
	v.ended++
	binary.NativeEndian.PutUint32(v.end[:], v.ended)
	return v.send(ctx, v.end[:], v.endWord())
}

func (v *vmmcConn) takeEnd(ctx context.Context) error {
	v.endsIn++
	return v.wait(ctx, v.endWord(), v.endsIn)
}

// PingPong is part of Conn.
func (v *vmmcConn) PingPong(ctx context.Context, rtt []int64) error {
	last := v.on.Now()
	for i := range rtt {
		if err := v.put(ctx); err != nil {
			return err
		}
		if err := v.take(ctx); err != nil {
			return err
		}
		now := v.on.Now()
		rtt[i] = now - last
		last = now
	}
	return nil
}

// Echo is part of Conn.
func (v *vmmcConn) Echo(ctx context.Context, n int) error {
	for range n {
		if err := v.take(ctx); err != nil {
			return err
		}
		if err := v.put(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stream implements Conn. The peer calls no receive: it polls the word after the last message. Long
// messages are posted, several at a time.
func (v *vmmcConn) Stream(ctx context.Context, n int) (int, error) {
	for range n {
		if err := v.stream(ctx); err != nil {
			return 0, err
		}
	}
	if err := v.tellEnd(ctx); err != nil {
		return 0, err
	}
	return n, v.takeEnd(ctx)
}

// stream sends from the next buffer.
func (v *vmmcConn) stream(ctx context.Context) error {
	i := v.next
	if v.next++; v.next == len(v.bufs) {
		v.next = 0
	}
	dst := v.peer + vmmc.ProxyAddr(v.slot(i))
	if v.short {
		return v.p.SendMsg(ctx, v.bufs[i], dst)
	}
	s := &v.sends[v.posted]
	if v.posted++; v.posted == len(v.sends) {
		v.posted = 0
	}
	if err := v.finish(ctx, s); err != nil {
		return err
	}
	s.Src, s.Dst = v.bufs[i], dst
	return v.p.Post(s)
}

// finish waits until a send may be posted.
func (v *vmmcConn) finish(ctx context.Context, s *vmmc.Send) error {
	if s.Status() == vmmc.StatusIdle {
		return nil
	}
	return v.p.WaitSend(ctx, s)
}

// Sink is part of Conn.
func (v *vmmcConn) Sink(ctx context.Context, _ int) error {
	if err := v.takeEnd(ctx); err != nil {
		return err
	}
	return v.tellEnd(ctx)
}

// Counters is part of Conn.
func (v *vmmcConn) Counters() Counters { return v.on.counters() }

// Close is part of Conn.
func (v *vmmcConn) Close() error {
	v.forget()
	return errors.Join(v.p.Close(), v.on.Close())
}

// bidirectionalConn makes both halves send at the same time. As in the paper's benchmark, each half
// waits for the peer's message before it sends again.
type bidirectionalConn struct{ *vmmcConn }

// Stream is part of Conn. The messages of both halves count.
func (v bidirectionalConn) Stream(ctx context.Context, n int) (int, error) {
	return 2 * n, v.Sink(ctx, n)
}

// Sink is part of Conn.
func (v bidirectionalConn) Sink(ctx context.Context, n int) error {
	for range n {
		if err := v.put(ctx); err != nil {
			return err
		}
		if err := v.take(ctx); err != nil {
			return err
		}
	}
	return nil
}

// overheadWarm is the maximum length of the messages that overheadConn sends between the measured
// ones.
const overheadWarm = 4096

// overheadConn sends to an idle peer, and measures only the time of the calls. After each call it
// waits, without measuring, until all data are in the peer's memory, so that each call starts with
// an idle network. It also restores the state of the processor's caches, from which a long message
// removes the code of the calls.
type overheadConn struct{ *vmmcConn }

// PingPong implements Conn: rtt gets the times of the calls.
func (v overheadConn) PingPong(ctx context.Context, rtt []int64) error {
	s := &v.sends[0]
	s.Src, s.Dst = v.bufs[0], v.peer+vmmc.ProxyAddr(v.slot(0))
	for i := range rtt {
		var err error
		start := v.on.Now()
		if v.mode == modeSync {
			err = v.p.SendMsg(ctx, s.Src, s.Dst)
		} else {
			err = v.p.Post(s)
		}
		rtt[i] = v.on.Now() - start
		if err == nil {
			err = v.drain(ctx)
		}
		if err != nil {
			return err
		}
	}
	return v.tellEnd(ctx)
}

// drain waits until all sent data are in the peer's memory.
func (v overheadConn) drain(ctx context.Context) error {
	last, s := &v.drained, &v.sends[0] // last arrives after all other sends
	last.Src, last.Dst = v.end[:], v.peer+vmmc.ProxyAddr(v.endWord()+vmmc.WordSize)
	if err := v.p.Post(last); err != nil {
		return err
	}
	if err := errors.Join(v.p.WaitSend(ctx, last), v.finish(ctx, s)); err != nil {
		return err
	}
	for range 4 { // the effect of these messages on the caches does not depend on the size
		last.Src, last.Dst = s.Src[:min(len(s.Src), overheadWarm)], s.Dst
		if err := v.p.Post(last); err != nil {
			return err
		}
		if err := v.p.WaitSend(ctx, last); err != nil {
			return err
		}
	}
	return nil
}

// Echo is part of Conn.
func (v overheadConn) Echo(ctx context.Context, _ int) error { return v.takeEnd(ctx) }
