package conn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// end is one end of a connection without a NIC: the shared state, a connection, and the frames
// that are on their way to it. It is the connection's owner and its link.
type end struct {
	t    *testing.T
	a    Shared
	c    Conn
	eng  progress.Engine
	info transport.Info
	peer *end
	pair *pair

	inbox   [][]byte
	drop    func() bool                  // loses a frame that is sent
	loses   func(*ethertype.Header) bool // the same, for who looks at it; may be nil
	longer  func([]byte) bool            // the same, for who looks at all of it; may be nil
	sent    int
	raised  []Fault
	cause   error
	ended   bool
	witness bool // the peer is known to live
	fast    bool // frames that come alone may take the fast path
	heap    []byte
	handle  memory.Handle
	inbound []*Descriptor // receives, in the order in which they were posted
}

// pair is two ends and their clock.
type pair struct {
	now  int64
	ends [2]*end
}

// newPair connects two ends as a handshake does.
func newPair(t *testing.T, level reliability.Level, mtu int) *pair {
	p := &pair{now: 1}
	rel := (*reliability.Config)(nil).Resolve()
	for i := range p.ends {
		e := &end{t: t, pair: p, drop: func() bool { return false }, heap: make([]byte, 1<<20), fast: true}
		e.info = transport.Info{MAC: ethertype.MAC{2, 0, 0, 0, 0, byte(i + 1)}, MTU: mtu, EtherType: ethertype.Default, Virtual: true}
		p.ends[i] = e
		e.a.Init(e, &e.eng, &e.info, uint64(i+1), slog.New(slog.NewTextHandler(io.Discard, nil)), Hooks{
			LinkError: func(err error) { t.Errorf("link error: %v", err) },
			Trouble:   func() error { return nil },
			Sweep:     e.c.KeepAlive,
			MTU:       func(ethertype.MAC) int { return mtu },
			Limits:    func(ethertype.MAC) *reliability.Config { return rel },
			Lives:     func(ethertype.Addr) bool { return e.witness },
		})
		e.c.Init(&e.a, e, uint16(10+i), nil, nil)
		e.c.SetTerms(Terms{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level.Reliable(), ReadDepth: 4, PeerTimeout: time.Second}, 64)
		h, err := e.a.Mem.Register(e.heap, memory.Attributes{EnableRDMAWrite: true, EnableRDMARead: true}, false, false)
		if err != nil {
			t.Fatal(err)
		}
		e.handle = h
	}
	for i, e := range p.ends {
		e.peer = p.ends[1-i]
		e.c.EnterPending(uint32(100 + i))
	}
	for i, e := range p.ends {
		e.c.AdoptPeer(&Peer{Remote: e.peer.c.Local(), Tag: uint32(101 - i), Seq: ethertype.Seq(1000 * (2 - i)), MTU: mtu, Incarnation: uint64(2 - i), More: true}, ethertype.Seq(1000*(i+1)))
		e.c.EnterConnected(ethertype.Seq(1000*(i+1)), ethertype.Seq(1000*(2-i)), 4)
	}
	return p
}

// Send implements Link: the frames are on their way to the peer, or lost.
func (e *end) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		e.sent++
		if frame := frames[i].AppendTo(nil); !e.drop() && (e.longer == nil || !e.longer(frame)) && (e.loses == nil || !e.loses(e.header(frame))) {
			e.peer.inbox = append(e.peer.inbox, frame)
		}
	}
	return len(frames), nil
}

// header returns that of a frame.
func (e *end) header(frame []byte) *ethertype.Header {
	h := &ethertype.Header{}
	if _, err := h.Parse(frame); err != nil {
		e.t.Fatalf("a frame cannot be read: %v", err)
	}
	return h
}

// Now implements Link.
func (e *end) Now() int64 { return e.pair.now }

// Raise implements Owner.
func (e *end) Raise(what Fault, _ *Descriptor, _ code.Status, _ error) {
	e.raised = append(e.raised, what)
}

// Lost implements Owner.
func (e *end) Lost(cause error, detail string) error {
	e.cause = cause
	return fmt.Errorf("%w: %s", cause, detail)
}

// Ended implements Owner.
func (e *end) Ended(error) { e.ended = true }

// Notify implements Owner.
func (e *end) Notify(bool) {}

// Due implements Owner.
func (e *end) Due() int64 { return transport.Forever }

// Step implements Owner.
func (e *end) Step() {}

// turn is what an engine does in a turn, with the frames that have come. It reports
// whether there were any.
func (e *end) turn() bool {
	frames := e.inbox
	came := len(frames) > 0
	e.inbox = nil
	e.a.SetClock(e.pair.now)
	for _, frame := range frames {
		e.take(frame, len(frames) == 1 && e.fast)
	}
	e.a.RunTimers()
	e.a.Settle()
	e.a.Uncork()
	e.a.FlushPending()
	return came
}

// take takes in an Ethernet frame.
func (e *end) take(frame []byte, alone bool) {
	if alone && e.c.ReceiveFast(frame) {
		return
	}
	for frame != nil {
		frame, alone = e.takeGeneral(frame, alone)
	}
}

// takeGeneral takes in a frame by the general path, and returns the one behind it.
func (e *end) takeGeneral(frame []byte, alone bool) (next []byte, nextAlone bool) {
	h := e.a.Incoming()
	payload, err := h.Parse(frame)
	if err != nil {
		e.t.Fatalf("a frame cannot be read: %v", err)
	}
	if next = h.Next(frame); next != nil {
		alone = false
	}
	if e.c.State == code.StateConnected && h.Kind != ethertype.KindReset {
		if h.Tag != e.c.LocalTag || h.DstPort != e.c.Port {
			e.t.Fatalf("a frame of another connection: %+v", *h)
		}
		e.receive(h, payload, alone)
	}
	return next, alone
}

// receive takes in a frame of the connection. Probes are what a handshake has on a NIC.
func (e *end) receive(h *ethertype.Header, payload []byte, alone bool) {
	switch h.Kind {
	case ethertype.KindProbe:
		e.c.Path.SendProbe(ethertype.KindProbeAck, int(h.Size))
	case ethertype.KindProbeAck:
		e.c.Path.Answered(h)
	default:
		e.c.Receive(h, payload, alone)
	}
}

// run has both ends take turns until done. When no frame is on its way, the clock goes on
// to the next timer. It fails when there is none, or nothing comes of them.
func (p *pair) run(done func() bool) {
	for range 200_000 {
		if done() {
			return
		}
		p.now += 1000
		if a, b := p.ends[0].turn(), p.ends[1].turn(); a || b || len(p.ends[0].inbox) > 0 {
			continue
		}
		next := int64(transport.Forever)
		for _, e := range p.ends {
			next = min(next, e.a.FindTimer())
		}
		if next == transport.Forever {
			p.ends[0].t.Fatal("nothing is under way, no timer is set, and the story is not over")
		}
		p.now = max(p.now, next)
	}
	p.ends[0].t.Fatal("the story does not end")
}

// descriptor returns one for size bytes at an offset of the end's memory.
func (e *end) descriptor(offset, size int) *Descriptor {
	d := new(Descriptor)
	d.SetSegs([]Segment{{Data: e.heap[offset:][:size], Handle: e.handle}})
	return d
}

// post posts d on the send queue, or the receive queue.
func (e *end) post(d *Descriptor, recv bool) {
	size, err := e.a.Mem.Check("test", d.Segs(), 0)
	if err != nil {
		e.t.Fatal(err)
	}
	var posted bool
	if recv {
		posted, e.inbound = e.c.PostReceive(d, uint32(size)), append(e.inbound, d)
	} else {
		posted = e.c.Send(d, uint32(size), d.when)
	}
	if !posted {
		e.t.Fatal("the queue is full")
	}
}

// remote names memory at an offset of the end's for its peer.
func (e *end) remote(offset int) ethertype.RDMA {
	return ethertype.RDMA{Addr: memory.Address(e.heap[offset:]), Handle: uint32(e.handle)}
}

// The heap of an end, in the stories: what it sends, what it receives, what its peer
// writes to, what it reads to.
const (
	outAt, inAt, lentAt, readAt = 0, 256 << 10, 512 << 10, 768 << 10
	slotSize                    = 8 << 10
)

// TestStory has both ends send, write and read over a path that loses a fifth of the
// frames. Everything arrives once, in order and whole, and every send completes.
func TestStory(t *testing.T) {
	for _, level := range []reliability.Level{reliability.ReliableDelivery, reliability.ReliableReception} {
		seeds := uint64(20)
		if !need.Full() {
			seeds = 5
		}
		for seed := range seeds {
			p := newPair(t, level, 1500)
			rng := rand.New(rand.NewPCG(seed, 18))
			for _, e := range p.ends {
				e.drop = func() bool { return rng.IntN(5) == 0 }
				for i := outAt; i < inAt; i += 8 {
					binary.LittleEndian.PutUint64(e.heap[i:], rng.Uint64())
				}
				for i := range 24 {
					e.post(e.descriptor(inAt+i*slotSize, slotSize), true)
				}
			}
			for i := range 24 {
				for _, e := range p.ends {
					size := 1 + rng.IntN(slotSize-1)
					if i%2 == 0 {
						size = 1 + rng.IntN(64)
					}
					e.post(e.descriptor(outAt+i*slotSize, size), false)
				}
			}
			for i := range 8 {
				for _, e := range p.ends {
					w := e.descriptor(outAt+i*slotSize, 1+rng.IntN(slotSize-1))
					w.Op, w.RDMA = code.OpRDMAWrite, e.peer.remote(lentAt+i*slotSize)
					e.post(w, false)
					r := e.descriptor(readAt+i*slotSize, 1+rng.IntN(slotSize-1))
					r.Op, r.RDMA = code.OpRDMARead, e.peer.remote(outAt+i*slotSize)
					e.post(r, false)
				}
			}
			p.run(func() bool {
				return p.ends[0].c.SQ.Pending()+p.ends[1].c.SQ.Pending()+p.ends[0].c.RQ.Pending()+p.ends[1].c.RQ.Pending() == 0
			})
			for i, e := range p.ends {
				if err := e.check(); err != nil {
					t.Fatalf("%v, seed %d, end %d: %v", level, seed, i, err)
				}
			}
		}
	}
}

// check takes everything off the queues of an end and compares it with what the peer has.
func (e *end) check() error {
	if e.c.State != code.StateConnected || len(e.raised) > 0 {
		return fmt.Errorf("the connection is %v: %v; %v", e.c.State, e.c.End.Err, e.raised)
	}
	for i := 0; e.c.RQ.Untaken() > 0; i++ {
		d := e.c.RQ.Dequeue()
		if d != e.inbound[i] || d.Status != code.StatusDone|code.StatusOpReceive {
			return fmt.Errorf("receive %d: %v", i, d.Status)
		}
		if !bytes.Equal(e.heap[inAt+i*slotSize:][:d.Length], e.peer.heap[outAt+i*slotSize:][:d.Length]) {
			return fmt.Errorf("message %d of %d bytes is not what was sent", i, d.Length)
		}
	}
	for e.c.SQ.Untaken() > 0 {
		d := e.c.SQ.Dequeue()
		if d.Status.Failed() {
			return fmt.Errorf("%v", d.Status)
		}
		there := []byte(nil)
		switch d.Op {
		case code.OpRDMAWrite:
			there = e.peer.heap[d.Addr-memory.Address(e.peer.heap):][:d.Length]
		case code.OpRDMARead:
			there = e.peer.heap[d.Addr-memory.Address(e.peer.heap):][:d.Length]
		default:
			continue
		}
		if !bytes.Equal(there, d.Segs()[0].Data) {
			return fmt.Errorf("%v of %d bytes: the two memories differ", d.Op, d.Length)
		}
	}
	return nil
}

// TestFastPathStory: messages back and forth, one at a time, take the fast path in all but
// the first frames, and the general path has the same frames.
func TestFastPathStory(t *testing.T) {
	const rounds = 50
	var sent [2]int
	for i, fast := range []bool{false, true} {
		p := newPair(t, reliability.ReliableDelivery, 1500)
		a, b := p.ends[0], p.ends[1]
		a.fast, b.fast = fast, fast
		for k := range rounds {
			for _, e := range p.ends {
				e.post(e.descriptor(inAt, 64), true)
			}
			for _, e := range []*end{a, b} {
				e.heap[outAt] = byte(k)
				e.post(e.descriptor(outAt, 64), false)
				p.run(func() bool { return e.peer.c.RQ.Untaken() == 1 })
				if d := e.peer.c.RQ.Dequeue(); d.Status.Failed() || d.Length != 64 || e.peer.heap[inAt] != byte(k) {
					t.Fatalf("round %d: %v, %d bytes", k, d.Status, d.Length)
				}
				for e.c.SQ.Dequeue() != nil {
				}
			}
		}
		if received := a.a.FastPath + b.a.FastPath; fast && received < 3*rounds {
			t.Errorf("%d of %d messages took the fast path", received, 4*rounds)
		}
		sent[i] = a.sent + b.sent
	}
	if sent[0] != sent[1] {
		t.Errorf("%d frames by the general path, %d by the fast path", sent[0], sent[1])
	}
}

// TestStoryWithoutReceive: a message for which no receive is posted ends the connection.
// Both ends know why, and the send is flushed with its status.
func TestStoryWithoutReceive(t *testing.T) {
	p := newPair(t, reliability.ReliableReception, 1500)
	a, b := p.ends[0], p.ends[1]
	a.post(a.descriptor(outAt, 100), false)
	p.run(func() bool { return a.ended && b.ended })
	for _, e := range p.ends {
		if e.c.State != code.StateError || !errors.Is(e.cause, code.ErrRecvQueue) {
			t.Errorf("%v, %v", e.c.State, e.cause)
		}
	}
	if d := a.c.SQ.Dequeue(); d == nil || d.Status != code.StatusDone|code.StatusRemoteDescError {
		t.Errorf("the send: %+v", d)
	}
	if len(b.raised) != 1 || b.raised[0] != FaultNoReceive {
		t.Errorf("raised: %v", b.raised)
	}
}

// TestStoryOfSilence: an end whose frames are all lost gives its peer up, not before
// PeerTimeout and not long after it.
func TestStoryOfSilence(t *testing.T) {
	p := newPair(t, reliability.ReliableDelivery, 1500)
	a, b := p.ends[0], p.ends[1]
	a.drop = func() bool { return true }
	b.drop = a.drop
	begun := p.now
	a.post(a.descriptor(outAt, 100), false)
	p.run(func() bool { return a.ended })
	if took := time.Duration(p.now - begun); !errors.Is(a.cause, code.ErrUnreachable) || took < time.Second || took > 5*time.Second {
		t.Errorf("%v after %v", a.cause, took)
	}
	if d := a.c.SQ.Dequeue(); d == nil || d.Status&code.StatusTransportError == 0 {
		t.Errorf("the send: %+v", d)
	}
}

// TestStoryOfWitness: an end that knows that its peer lives does not give it up, however long the
// peer is silent. What was sent arrives when the peer is heard again. An end that then learns that
// the peer is not known to live any more gives it up.
func TestStoryOfWitness(t *testing.T) {
	for _, returns := range []bool{true, false} {
		p := newPair(t, reliability.ReliableDelivery, 1500)
		a, b := p.ends[0], p.ends[1]
		lost := true
		a.witness, b.witness = true, true
		a.drop = func() bool { return lost }
		b.drop = a.drop
		b.post(b.descriptor(inAt, 100), true)
		a.post(a.descriptor(outAt, 100), false)
		end := p.now + int64(time.Minute)
		p.run(func() bool { return a.ended || b.ended || p.now >= end })
		if a.ended || b.ended {
			t.Fatalf("given up after %v: %v, %v", time.Duration(p.now-end)+time.Minute, a.cause, b.cause)
		}
		if !returns {
			a.witness = false
			p.run(func() bool { return a.ended })
			if !errors.Is(a.cause, code.ErrUnreachable) {
				t.Errorf("ended with %v", a.cause)
			}
			continue
		}
		lost = false
		p.run(func() bool { return a.ended || b.ended || a.c.SQ.Untaken() > 0 })
		if d := a.c.SQ.Dequeue(); d == nil || d.Status.Failed() {
			t.Errorf("the send: %+v; %v, %v", d, a.cause, b.cause)
		}
	}
}

// TestUnreliableStory: on the unreliable level each message arrives once at most, in
// order, and sends complete although a third of the frames is lost.
func TestUnreliableStory(t *testing.T) {
	for seed := range uint64(20) {
		p := newPair(t, reliability.Unreliable, 1500)
		rng := rand.New(rand.NewPCG(seed, 19))
		a, b := p.ends[0], p.ends[1]
		a.drop = func() bool { return rng.IntN(3) == 0 }
		for i := range 60 {
			b.post(b.descriptor(inAt+i*64, 64), true)
		}
		for i := range 60 {
			a.heap[outAt+i*64] = byte(i + 1)
			a.post(a.descriptor(outAt+i*64, 64), false)
			a.turn()
			b.turn()
		}
		b.turn()
		if n := a.c.SQ.Untaken(); n != 60 {
			t.Fatalf("seed %d: %d of 60 sends have completed", seed, n)
		}
		last := byte(0)
		for b.c.RQ.Untaken() > 0 {
			d := b.c.RQ.Dequeue()
			if got := d.Segs()[0].Data[0]; d.Status.Failed() || got <= last {
				t.Fatalf("seed %d: message %d behind %d: %v", seed, got, last, d.Status)
			} else {
				last = got
			}
		}
		if last == 0 {
			t.Errorf("seed %d: nothing has arrived", seed)
		}
	}
}
