package unreliable

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestHostile: a rank answers as it should most of the time, and else with anything: other
// numbers, and acknowledgements of what was never sent.
func TestHostile(t *testing.T) {
	le := binary.LittleEndian
	attack := func(f *layertest.Foe, c layer.Config) error {
		var w [msg.Channels]window
		for kind := range w {
			w[kind] = newWindow(credits[kind])
		}
		vis := &layertest.VIs{Layer: "unreliable", Kinds: msg.Channels, Count: 1500, Attrs: vipl.Attributes{Reliability: reliability.Unreliable}}
		vis.Next = func(f *layertest.Foe, kind int, heard, m []byte) int {
			w := &w[kind]
			if len(heard) > headSize {
				w.acknowledged(request, le.Uint32(heard[4:]))
				w.acknowledged(reply, le.Uint32(heard[8:]))
				class := classOf(heard[headSize])
				if heard = heard[headSize:]; heard[0] != msg.NoOp {
					w.processed(class, 0)
				}
			}
			n := headSize + f.Message(heard, m[headSize:], 1)
			number := uint32(0)
			if kind := m[headSize]; kind != msg.NoOp {
				class := classOf(kind)
				if w.full(class) {
					return 0
				}
				number = w.assignNumber(class, 0)
			}
			words := []uint32{number, w.in[request], w.in[reply]}
			if f.RNG.IntN(30) == 0 {
				words[f.RNG.IntN(3)] += uint32(f.RNG.IntN(200)) - 100
			}
			for i, word := range words {
				le.PutUint32(m[4*i:], word)
			}
			return n
		}
		return vis.Attack(f, c)
	}
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: Open, Attack: attack, MaxControl: layer.MaxControl})
}

// TestMillionMutated: a million frames, each right but for a few bits, most of them of the
// twelve bytes in front of its message, or its length. What is held is what the window says,
// no more is under way than the window has, no byte beside the heap or beside what gets wait
// for changes, and the count of operations stays right.
func TestMillionMutated(t *testing.T) {
	rounds := 1_000_000
	if !need.Full() {
		rounds = 50_000
	}
	m := newMutation(t)
	for i := range rounds {
		c := m.channels[m.rng.IntN(msg.Channels)]
		m.clock += int64(m.rng.IntN(100_000))
		if err := m.begin(c); err != nil {
			t.Fatal(err)
		}
		m.give(c, m.frame(c))
		if why := m.unsound(); why != "" {
			t.Fatalf("after frame %d: %s", i, why)
		}
	}
	for what, b := range map[string][]byte{"before the heap": m.heap[:mutMargin], "behind the heap": m.heap[mutMargin+mutHeap:],
		"before what gets wait for": m.dst[:mutMargin], "behind what gets wait for": m.dst[len(m.dst)-mutMargin:]} {
		if len(bytes.Trim(b, "\xa5")) != 0 {
			t.Errorf("memory %s has changed", what)
		}
	}
	if d := m.Did; d.Strays == 0 || d.Duplicates == 0 || d.Refused == 0 || m.Count.Stored == 0 || m.above.calls == 0 || m.above.controls == 0 || m.ended == 0 {
		t.Errorf("%+v, %d bytes stored, %+v, %d operations ended: want some of each", d, m.Count.Stored, m.above, m.ended)
	}
}

// above is the side above.
type above struct{ calls, controls int }

func (a *above) Call(_ int, _ uint32, args, result []byte) int {
	a.calls++
	return copy(result, args)
}

func (a *above) Control(int, []byte) { a.controls++ }

const (
	mutHeap   = 8192
	mutMargin = 256
	mutGet    = 64 // the most bytes of a get
)

// mutation is a layer whose channels are not connected, so that all that is posted comes back
// at once. For its flows that is not a failure.
type mutation struct {
	*Layer
	clock int64
	above above
	rng   *rand.Rand
	heap  []byte // with a margin on both sides
	dst   []byte // likewise
	recvs []*mesh.Recv
	mems  [][]byte
	ended int
}

func newMutation(t *testing.T) *mutation {
	t.Helper()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: sim.New(sim.Options{}).Station("rank 0"), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	m := &mutation{rng: rand.New(rand.NewPCG(13, 14)), heap: bytes.Repeat([]byte{0xa5}, mutHeap+2*mutMargin), dst: bytes.Repeat([]byte{0xa5}, mutGet+2*mutMargin)}
	cfg := layer.Config{NIC: nic, Procs: 2, HeapSize: 4096, Handler: &m.above}
	m.Layer = new(Layer)
	scheme := m.scheme()
	flow := scheme.Flow
	scheme.Flow = func(l *msg.Layer, c *msg.Channel) msg.Flow { return revived{flow(l, c).(*channel), m} }
	if m.Layer.Layer, err = msg.New(cfg, scheme); err != nil {
		t.Fatal(err)
	}
	layer.FreeHeap(m.Memory)
	m.Memory = m.heap[mutMargin:][:mutHeap:mutHeap]
	for kind := range msg.Channels {
		if _, err := m.MakeChannel(1, kind); err != nil {
			t.Fatal(err)
		}
	}
	for range 256 { // more than can be held
		mem, r := bytes.Clone(m.channels[msg.Medium].Buffer(0)), new(mesh.Recv)
		r.Init(mem, 0, r)
		m.recvs, m.mems = append(m.recvs, r), append(m.mems, mem)
	}
	return m
}

// revived is a channel that goes on after each send.
type revived struct {
	*channel
	m *mutation
}

// Send implements msg.Flow.
func (r revived) Send(n int, data []byte) {
	n += copy(r.Request()[n:], data)
	r.first(request, n, r.m.clock)
	r.m.revive(r.channel)
}

// begin starts an operation, if there is room.
func (m *mutation) begin(c *channel) (err error) {
	if !c.Room() {
		return nil
	}
	dst := m.dst[mutMargin:][:1+m.rng.IntN(mutGet)]
	off := uint64(m.rng.IntN(mutHeap))
	switch {
	case c.Kind == msg.Medium:
		err = m.Call(context.Background(), 1, 1, dst, dst)
	case m.rng.IntN(2) == 0:
		err = m.Get(context.Background(), 1, dst, off)
	default:
		err = m.Put(context.Background(), 1, off, dst)
	}
	return err
}

// frame writes a frame into a receive that is not held, and changes some of it.
func (m *mutation) frame(c *channel) *mesh.Recv {
	i := m.rng.IntN(len(m.recvs))
	for m.isHeld(m.recvs[i]) {
		i = (i + 1) % len(m.recvs)
	}
	r, b, rng, le := m.recvs[i], m.mems[i], m.rng, binary.LittleEndian
	n, class := m.message(b[headSize:])
	le.PutUint32(b, c.w.in[class]+uint32(max(0, rng.IntN(6)-3)))
	for class := range classes {
		s := &c.w.out[class]
		le.PutUint32(b[4+4*class:], s.first+rng.Uint32N(s.next-s.first+1))
	}
	n += headSize
	for range rng.IntN(4) {
		at := rng.IntN(headSize)
		if rng.IntN(4) == 0 {
			at = rng.IntN(n)
		}
		b[at] ^= 1 << rng.IntN(8)
	}
	if rng.IntN(8) == 0 {
		n = rng.IntN(len(c.Buffer(0)) + 1)
	}
	r.Desc.Length = uint32(min(n, len(c.Buffer(0))))
	return r
}

// message writes a message, and returns its length and class.
func (m *mutation) message(b []byte) (n, class int) {
	rng, le := m.rng, binary.LittleEndian
	clear(b[:128])
	b[0] = byte(msg.Get + rng.IntN(msg.NoOp))
	le.PutUint16(b[2:], uint16(rng.IntN(64)))
	le.PutUint64(b[msg.HeaderSize:], uint64(rng.IntN(mutHeap)))
	switch b[0] {
	case msg.Get:
		le.PutUint32(b[12:], uint32(rng.IntN(65)))
		return 16, request
	case msg.Stores:
		le.PutUint64(b[msg.HeaderSize:], uint64(rng.IntN(mutHeap))|8<<56)
		return msg.HeaderSize + 16, request
	case msg.NoOp:
		le.PutUint64(b[msg.HeaderSize:], rng.Uint64()>>rng.IntN(64))
		return noOpSize - headSize, request
	case msg.Got, msg.Result:
		return msg.HeaderSize + rng.IntN(mutGet+1), reply
	case msg.PutDone, msg.Refused:
		return msg.HeaderSize, reply
	}
	return 12 + rng.IntN(65), request
}

// give hands a frame to the layer as one that has come. A receive that is posted again, and a
// send that comes back, end the channel for the layer.
func (m *mutation) give(c *channel, r *mesh.Recv) {
	was := m.Count.Outstanding
	m.Clock = m.clock
	c.receive(r)
	for range 3 {
		m.revive(c)
		c.advance()
	}
	m.revive(c)
	if m.rng.IntN(50) == 0 {
		c.service(m.clock)
	} else {
		c.speak(m.clock)
	}
	m.revive(c)
	m.ended += was - m.Count.Outstanding
}

// revive takes back what was sent, and has the channel go on.
func (m *mutation) revive(c *channel) {
	_ = m.Layer.Base.Poll() // it fails because what was sent comes back
	c.Gone, m.Err, m.Clock = nil, nil, m.clock
}

func (m *mutation) isHeld(r *mesh.Recv) bool {
	for _, c := range m.channels {
		for class := range classes {
			for _, h := range c.held[class] {
				if h == r {
					return true
				}
			}
		}
	}
	return false
}

// unsound says what is wrong with the layer, if anything is.
func (m *mutation) unsound() string {
	pending := 0
	for _, c := range m.channels {
		pending += c.Pending.Count()
		for class := range classes {
			if s := &c.w.out[class]; s.next-s.first > c.w.size {
				return fmt.Sprintf("%d messages are under way", s.next-s.first)
			}
			for i := range c.w.size {
				held := c.held[class][c.w.place(c.w.in[class]+i)] != nil
				if says := c.w.have[class]>>i&1 == 1; held != says {
					return fmt.Sprintf("message %d of class %d is held: %t, and the window says %t", i, class, held, says)
				}
			}
		}
	}
	if m.Count.Outstanding != pending || m.Count.Outstanding < 0 {
		return fmt.Sprintf("%d operations are outstanding, and %d known", m.Count.Outstanding, pending)
	}
	return ""
}
