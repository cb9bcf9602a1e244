package plain

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/mapper"
)

// mapping is the mapper of a host. VNT, 4.4.3, has a privileged daemon do this, which
// sends and receives packets by routes of its own and writes the card's table; here the
// control program calls it.
type mapping struct {
	agent *mapper.Agent
	prog  *program
	mem   []byte // in SRAM: its packet that is being sent
	turn  bool   // it has sent the last packet
	talks bool   // it may have packets to send
	tight uint64 // routes that were not used: longer than an entry of the table
}

// mapperBuffer is the octets of a buffer for a mapper's packets, which may be longer than
// frames.
const mapperBuffer = 2048

// mapperPause is the least time between two calls of a mapper for which nothing has come,
// nanoseconds: it can be due while the card cannot send.
const mapperPause = 10_000

// straight is the table of a card that knows nobody: what a direct cable needs. A switch
// drops packets without a route at once, so it does no harm there.
var straight = []Route{{To: ethertype.Broadcast}}

// start begins, with the time of the link. Nil options are those of a link without a mapper.
func (m *mapping) start(p *program, now int64, opts *mapper.Options) error {
	m.prog = p
	if opts == nil {
		return nil
	}
	with := *opts
	with.ID, with.Card = p.l.info.MAC, m
	agent, err := mapper.New(now, with)
	m.agent = agent
	return err
}

// SetRoutes implements mapper.Card.
func (m *mapping) SetRoutes(entries []mapper.Entry) {
	routes := make([]Route, 0, len(entries))
	for _, e := range entries {
		if len(e.Route) > MaxHops {
			m.tight++
			continue
		}
		routes = append(routes, Route{To: e.Host, Turns: e.Route})
	}
	if len(routes) == 0 || m.prog.tab.set(routes) != nil {
		_ = m.prog.tab.set(straight) // it always fits
	}
}

// receive hands the mapper a packet.
func (m *mapping) receive(now int64, payload []byte) {
	m.agent.Receive(now, payload)
	m.talks = true
}

// poll has the mapper do what is due.
func (m *mapping) poll(now int64) {
	if now >= m.agent.Next() {
		m.agent.Poll(now)
		m.talks = true
	}
}

// send sends the mapper's next packet. It takes turns with frames.
func (m *mapping) send(c *myrinet.Card, now int64) bool {
	if !m.talks || m.turn && m.prog.waiting() {
		m.turn = false
		return false
	}
	packet := m.agent.Packet(now)
	if m.talks = packet != nil; !m.talks || len(packet) > len(m.mem) {
		return false
	}
	m.turn = true
	c.Work(cyclesAPacket)
	return c.Send(m.mem[:copy(m.mem, packet)])
}
