package lanai

import (
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/mapper"
)

// mapping is the host's mapper on the card. While the card has no routes it is all that
// runs there: the mapping program of the paper, section 4.3. When it has found some, or
// has looked everywhere and there is no other host, the driver loads VMMC's, which goes on mapping beside its work: nodes that come later are
// found, too, where the paper has to be started again.
type mapping struct {
	agent *mapper.Agent // nil for none
	mem   []byte        // in SRAM: the packet that is being sent
	talks bool          // it may have packets to send
	turn  bool          // it has sent the last packet
}

// mapperBuffer is the octets of a buffer for a mapper's packets.
const mapperBuffer = 2048

// mapperPause is the least time between two calls of a mapper for which nothing has come,
// nanoseconds: it can be due while the card cannot send.
const mapperPause = 10_000

// longest returns how long a mapper's packet is.
func (m *mapping) longest() int {
	if m.agent == nil {
		return 0
	}
	return mapperBuffer
}

// room takes its memory.
func (m *mapping) room(alloc func(purpose string, n int) ([]byte, error)) (err error) {
	if m.agent != nil {
		m.mem, err = alloc("the mapper's packets", mapperBuffer)
	}
	return err
}

// poll has the mapper do what is due, and returns when it is to be called again.
func (m *mapping) poll(now int64) (next int64) {
	if m.agent == nil {
		return forever
	}
	if now >= m.agent.Next() {
		m.agent.Poll(now)
		m.talks = true
	}
	return max(m.agent.Next(), now+mapperPause)
}

// alone reports whether the mapper has looked everywhere, and there is no other host.
func (m *mapping) alone() bool {
	s := m.agent.Snapshot()
	return s.Leading && s.Map != nil && len(s.Map.IDs) == 1
}

// receive hands the mapper a packet, if it is one of its own.
func (m *mapping) receive(now int64, r *myrinet.Received) bool {
	if m.agent == nil || r.Type != mapper.PacketType {
		return false
	}
	m.agent.Receive(now, r.Payload)
	m.talks = true
	return true
}

// send sends the mapper's next packet. It takes turns with others, if others wait.
func (m *mapping) send(c *myrinet.Card, now int64, others bool) bool {
	if !m.talks || m.turn && others {
		m.turn = false
		return false
	}
	packet := m.agent.Packet(now)
	if m.talks = packet != nil; !m.talks || len(packet) > len(m.mem) {
		return false
	}
	m.turn = true
	return c.Send(m.mem[:copy(m.mem, packet)])
}

// mappingProgram is a control program that maps, and nothing else.
type mappingProgram struct {
	c *myrinet.Card
	h *Host
	m mapping
}

// Load implements myrinet.Program.
func (p *mappingProgram) Load(c *myrinet.Card) error {
	p.c = c
	alloc := func(purpose string, n int) ([]byte, error) {
		b, err := c.SRAM().Alloc(purpose, n)
		return b.Data, err
	}
	if err := p.m.room(alloc); err != nil {
		return err
	}
	for range leastRecv {
		b, err := alloc("packets in", mapperBuffer)
		if err != nil {
			return err
		}
		c.Post(b)
	}
	return nil
}

// Step implements myrinet.Program.
func (p *mappingProgram) Step(now int64) (next int64) {
	p.h.carrier.enter()
	defer p.h.carrier.leave()
	for r, ok := p.c.Receive(); ok; r, ok = p.c.Receive() {
		p.m.receive(now, &r)
		p.c.Post(r.Buffer)
	}
	next = p.m.poll(now)
	if p.m.alone() && !p.h.load {
		p.h.mapped(nil)
	}
	if !p.c.Sending() && !p.h.carrier.holds() {
		p.m.send(p.c, now, false)
	}
	return next
}
