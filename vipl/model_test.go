package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
	"pgregory.net/rapid"
)

// oracle is what VIA says of one VI of a reliable pair on a perfect wire,
// naively: queues are lists, messages move when they are sent.
type oracle struct {
	state    vipl.State
	receives []*expected // posted
	done     []*expected // of the receive queue, not taken
	sends    []*expected // completed or not, not taken
	peer     *oracle
	real     *vipl.VI
}

// expected is a descriptor and what it has to look like when it is taken.
type expected struct {
	d      *vipl.Descriptor
	size   int
	status vipl.Status // 0 while it is pending
	length uint32
	serial int // of the message that fills it
}

// machine runs one sequence of operations against duo and oracle.
type machine struct {
	*duo
	sides  [2]*oracle
	serial int
}

// TestModel runs random sequences of calls on a pair of VIs, and wants from
// every descriptor and state what the oracle says.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		attr := &vipl.Attributes{Reliability: rapid.SampledFrom(reliableLevels).Draw(rt, "level"), QueueDepth: 12}
		m := &machine{duo: newDuo(t, attr, attr)}
		m.sides[0], m.sides[1] = &oracle{real: m.a}, &oracle{real: m.b}
		m.sides[0].peer, m.sides[1].peer = m.sides[1], m.sides[0]
		for _, o := range m.sides {
			o.state = vipl.StateConnected
		}
		rt.Repeat(map[string]func(*rapid.T){
			"post receive": func(rt *rapid.T) { m.postReceive(rt, m.side(rt)) },
			"post send":    func(rt *rapid.T) { m.postSend(rt, m.side(rt)) },
			"take receive": func(rt *rapid.T) { m.takeReceive(rt, m.side(rt)) },
			"take send":    func(rt *rapid.T) { m.takeSend(rt, m.side(rt)) },
			"disconnect":   func(rt *rapid.T) { m.disconnect(rt, m.side(rt)) },
			"reconnect":    func(rt *rapid.T) { m.reconnect(rt) },
			"":             func(rt *rapid.T) { m.compare(rt) },
		})
		m.na.Close()
		m.nb.Close()
	})
}

func (m *machine) side(rt *rapid.T) *oracle {
	return m.sides[rapid.IntRange(0, 1).Draw(rt, "side")]
}

var modelSizes = rapid.SampledFrom([]int{0, 1, 17, 300, 1452, 1453, 4000})

func (m *machine) memory(n *vipl.NIC, size int) []vipl.Segment {
	if size == 0 {
		return nil
	}
	buf := make([]byte, size)
	h, err := n.RegisterMem(buf, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	return []vipl.Segment{{Data: buf[:size/3], Handle: h}, {Data: buf[size/3:], Handle: h}}
}

func (m *machine) postReceive(rt *rapid.T, o *oracle) {
	e := &expected{size: modelSizes.Draw(rt, "size")}
	e.d = &vipl.Descriptor{Segs: m.memory(o.real.NIC(), e.size)}
	err := o.real.PostRecv(e.d)
	if len(o.receives)+len(o.done) == 12 {
		if err != vipl.ErrRecvQueueFull {
			rt.Fatalf("post to a full queue: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	if o.state == vipl.StateError {
		e.status = vipl.StatusDone | vipl.StatusOpReceive | vipl.StatusFlushed
		o.done = append(o.done, e)
		return
	}
	o.receives = append(o.receives, e)
}

func (m *machine) postSend(rt *rapid.T, o *oracle) {
	m.serial++
	e := &expected{size: modelSizes.Draw(rt, "size"), serial: m.serial}
	e.d = &vipl.Descriptor{Segs: m.memory(o.real.NIC(), e.size), HasImmediate: rapid.Bool().Draw(rt, "immediate"), Immediate: uint32(m.serial)}
	fillSegments(e.d.Segs, e.serial)
	err := o.real.PostSend(e.d)
	if len(o.sends) == 12 {
		if err != vipl.ErrSendQueueFull {
			rt.Fatalf("post to a full queue: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	o.sends = append(o.sends, e)
	e.status = vipl.StatusDone | vipl.StatusOpSend
	if o.state != vipl.StateConnected {
		e.status |= vipl.StatusFlushed
		return
	}
	m.run()
	o.deliver(e)
}

// deliver does to the oracles what the message e does.
func (o *oracle) deliver(e *expected) {
	p := o.peer
	if len(p.receives) == 0 || p.receives[0].size < e.size {
		e.status |= blamed(o.real.Query().Attributes.Reliability)
		if len(p.receives) > 0 {
			p.finish(vipl.StatusLengthError)
		}
		o.fail()
		p.fail()
		return
	}
	e.length = uint32(e.size)
	r := p.receives[0]
	r.length, r.serial = e.length, e.serial
	flags := vipl.Status(0)
	if e.d.HasImmediate {
		flags = vipl.StatusImmediate
		e.status |= flags
	}
	p.finish(flags)
}

// finish completes the oldest receive.
func (o *oracle) finish(flags vipl.Status) {
	r := o.receives[0]
	r.status = vipl.StatusDone | vipl.StatusOpReceive | flags
	o.receives, o.done = o.receives[1:], append(o.done, r)
}

func (o *oracle) flush() {
	for len(o.receives) > 0 {
		o.finish(vipl.StatusFlushed)
	}
}

func (o *oracle) fail() {
	o.flush()
	o.state = vipl.StateError
}

func (m *machine) takeReceive(rt *rapid.T, o *oracle) {
	d, err := o.real.RecvDone()
	switch {
	case len(o.done) > 0:
		e := o.done[0]
		o.done = o.done[1:]
		m.same(rt, d, err, e)
		if e.length > 0 && !segmentsHold(d.Segs, int(e.length), e.serial) {
			rt.Fatalf("receive does not hold message %d", e.serial)
		}
	case len(o.receives) > 0:
		m.nothing(rt, d, err, vipl.ErrNotDone)
	default:
		m.nothing(rt, d, err, vipl.ErrQueueEmpty)
	}
}

func (m *machine) takeSend(rt *rapid.T, o *oracle) {
	d, err := o.real.SendDone()
	if len(o.sends) == 0 {
		m.nothing(rt, d, err, vipl.ErrQueueEmpty)
		return
	}
	m.same(rt, d, err, o.sends[0])
	o.sends = o.sends[1:]
}

func (m *machine) nothing(rt *rapid.T, d *vipl.Descriptor, err, want error) {
	if d != nil || err != want {
		rt.Fatalf("took %v, %v; want %v", d, err, want)
	}
}

func (m *machine) same(rt *rapid.T, d *vipl.Descriptor, err error, e *expected) {
	if d != e.d || d.Status != e.status || d.Length != e.length || (err != nil) != e.status.Failed() {
		status := vipl.Status(0)
		if d != nil {
			status = d.Status
		}
		rt.Fatalf("took %p: %v (%v), want %p: %v, %d bytes", d, status, err, e.d, e.status, e.length)
	}
}

func (m *machine) disconnect(rt *rapid.T, o *oracle) {
	if err := o.real.Disconnect(); err != nil {
		rt.Fatal(err)
	}
	m.run()
	if o.state == vipl.StateConnected {
		o.peer.fail()
	}
	o.flush()
	o.state = vipl.StateIdle
}

func (m *machine) reconnect(rt *rapid.T) {
	for _, o := range m.sides {
		m.disconnect(rt, o)
	}
	m.connect()
	for _, o := range m.sides {
		o.state = vipl.StateConnected
	}
}

// compare looks at what can be seen from outside.
func (m *machine) compare(rt *rapid.T) {
	for i, o := range m.sides {
		if o.real.State() != o.state {
			rt.Fatalf("side %d is %v (%v), want %v", i, o.real.State(), o.real.Err(), o.state)
		}
		q := o.real.Query()
		if q.SendEmpty != (len(o.sends) == 0) || q.RecvEmpty != (len(o.receives)+len(o.done) == 0) {
			rt.Fatalf("side %d: queues empty: %v, %v; want %d sends, %d receives", i, q.SendEmpty, q.RecvEmpty, len(o.sends), len(o.receives)+len(o.done))
		}
	}
}

func fillSegments(segs []vipl.Segment, serial int) {
	i := 0
	for _, s := range segs {
		for k := range s.Data {
			s.Data[k] = byte(serial*31 + i)
			i++
		}
	}
}

func segmentsHold(segs []vipl.Segment, n, serial int) bool {
	i := 0
	for _, s := range segs {
		for k := range s.Data {
			if i < n && s.Data[k] != byte(serial*31+i) {
				return false
			}
			i++
		}
	}
	return i >= n
}
