package reliability

import (
	"fmt"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/ethertype"
)

// packet is what travels between two peers: a sequenced frame, or a bare
// acknowledgement.
type packet struct {
	to       *peer
	data     bool
	seq      ethertype.Seq
	ackNow   bool
	id       uint32 // what the frame carries: the how manieth of its connection
	ack      ethertype.Seq
	sack     uint64
	more     [MaxSack]byte
	moreSize int
	inside   bool // on arrival, give it to world.relay
}

// peer is one end of a connection: a Sender with frames to send and a Receiver
// that counts what it gets.
type peer struct {
	Sender
	Receiver
	world   *world
	remote  *peer
	backlog int   // frames still to be pushed
	got     []int // times that each frame was taken
	missing int   // frames not taken yet
	doneAt  int64 // when the last was taken
	wakeAt  int64
	freeAt  int64 // when the peer's own wire is free
	err     error
}

// event is a packet that arrives, or without one, a timer of a peer.
type event struct {
	at    int64
	order uint64
	pkt   *packet
	timer *peer
}

// world is a segment in virtual time. transmit decides what becomes of a packet.
type world struct {
	now      int64
	order    uint64
	events   []event // a binary heap
	rng      *rand.Rand
	free     []*packet
	transmit func(w *world, from *peer, p *packet)
	relay    func(w *world, p *packet)
}

func newWorld(seed uint64, transmit func(*world, *peer, *packet)) *world {
	return &world{now: 1, rng: rand.New(rand.NewPCG(seed, 1)), transmit: transmit}
}

// connect joins two peers that send frames of the given numbers to each other.
func (w *world) connect(cfg *Config, aFrames, bFrames int) (a, b *peer) {
	a, b = &peer{world: w, backlog: aFrames, missing: bFrames}, &peer{world: w, backlog: bFrames, missing: aFrames}
	a.remote, b.remote = b, a
	for _, p := range []*peer{a, b} {
		first := ethertype.Seq(w.rng.Uint32())
		if w.rng.IntN(2) == 0 {
			first = -ethertype.Seq(w.rng.IntN(200)) // wraps around soon
		}
		p.Sender.Init(cfg, first)
		p.remote.Receiver.Init(cfg, first)
		p.got = make([]int, p.missing)
		p.wakeAt = never
	}
	return a, b
}

func (w *world) packet(to *peer) *packet {
	if n := len(w.free); n > 0 {
		p := w.free[n-1]
		w.free = w.free[:n-1]
		*p = packet{to: to}
		return p
	}
	return &packet{to: to}
}

func (w *world) at(at int64, p *packet, timer *peer) {
	w.order++
	e := event{at, w.order, p, timer}
	w.events = append(w.events, e)
	for i := len(w.events) - 1; i > 0; {
		up := (i - 1) / 2
		if !w.before(i, up) {
			break
		}
		w.events[i], w.events[up] = w.events[up], w.events[i]
		i = up
	}
}

func (w *world) before(i, j int) bool {
	a, b := &w.events[i], &w.events[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (w *world) pop() event {
	e, last := w.events[0], len(w.events)-1
	w.events[0] = w.events[last]
	w.events = w.events[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return e
		}
		if down+1 < last && w.before(down+1, down) {
			down++
		}
		if !w.before(down, i) {
			return e
		}
		w.events[i], w.events[down] = w.events[down], w.events[i]
		i = down
	}
}

// run lets time pass until done, until nothing is left to happen, or until the
// deadline.
func (w *world) run(deadline int64, done func() bool) error {
	for len(w.events) > 0 && !done() {
		e := w.pop()
		if e.at > deadline {
			return fmt.Errorf("not done after %v ns", deadline)
		}
		w.now = e.at
		p := e.timer
		if p == nil && e.pkt.inside {
			e.pkt.inside = false
			w.relay(w, e.pkt)
			continue
		}
		if p == nil {
			p = e.pkt.to
			p.arrive(e.pkt)
			w.free = append(w.free, e.pkt)
		} else if p.wakeAt == e.at {
			p.wakeAt = never
		}
		p.step()
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

func (p *peer) arrive(pkt *packet) {
	w := p.world
	if _, valid := p.OnAck(w.now, pkt.ack, pkt.sack, pkt.more[:pkt.moreSize]); !valid {
		p.err = fmt.Errorf("an honest peer's acknowledgement was taken for invalid")
	}
	if !pkt.data {
		return
	}
	switch p.Check(pkt.seq) {
	case Duplicate:
		p.Receiver.Duplicate()
	case Accept:
		p.Accept(w.now, pkt.seq, pkt.ackNow, false)
		if p.got[pkt.id]++; p.got[pkt.id] > 1 {
			p.err = fmt.Errorf("frame %d was taken twice", pkt.id)
		}
		if p.missing--; p.missing == 0 {
			p.doneAt = w.now
		}
	case Ahead:
		p.err = fmt.Errorf("an honest peer's frame was beyond every window")
	}
}

// step does what a progress engine does in one turn.
func (p *peer) step() {
	w := p.world
	if w.now >= p.Sender.Deadline() {
		if err := p.OnTimer(w.now); err != nil {
			p.err = err
			return
		}
	}
	for f, seq, ok := p.Retransmit(w.now); ok; f, seq, ok = p.Retransmit(w.now) {
		p.send(f.Offset, seq, true)
	}
	for p.backlog > 0 && p.Room(w.now) > 0 {
		id := uint32(len(p.remote.got) - p.backlog)
		seq, ackNow := p.Push(w.now, Sent{Offset: id}, false)
		p.send(id, seq, ackNow)
		p.backlog--
	}
	if p.AckDue(w.now) {
		pkt := w.packet(p.remote)
		pkt.moreSize = len(p.AppendSack(pkt.more[:0]))
		p.dispatch(pkt)
	}
	if at := max(min(p.Sender.Deadline(), p.Receiver.Deadline()), w.now); at < p.wakeAt {
		p.wakeAt = at
		w.at(at, nil, p)
	}
}

func (p *peer) send(id uint32, seq ethertype.Seq, ackNow bool) {
	pkt := p.world.packet(p.remote)
	pkt.data, pkt.id, pkt.seq, pkt.ackNow = true, id, seq, ackNow
	p.dispatch(pkt)
}

func (p *peer) dispatch(pkt *packet) {
	pkt.ack, pkt.sack = p.Ack()
	p.AckSent(p.world.now, pkt.data)
	p.world.transmit(p.world, p, pkt)
}
