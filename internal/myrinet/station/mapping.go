package station

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Mapping runs a host's mapper on its card. The control program calls it. In VNT, 4.4.3, a
// privileged daemon does this: it sends and receives packets along its own routes and writes the
// card's table. The zero value is for a host without a mapper.
type Mapping struct {
	Agent *mapper.Agent // may be nil
	Long  uint64        // routes not used because they are longer than an entry of the card's table

	mem   []byte // in SRAM: the packet that is being sent
	talks bool   // it may have packets to send
	turn  bool   // the last packet was the mapper's
}

const (
	// MapperRoom is the size in bytes of a buffer for a mapper's packets, which may be longer than
	// those of the program.
	MapperRoom = 2048

	// mapperPause is the minimum interval in nanoseconds between calls of a mapper that has
	// received nothing: it can be due while the card cannot send.
	mapperPause = 10_000
)

// Start starts the mapper with the host's address and the table that it writes. With nil options
// the host has no mapper.
func (m *Mapping) Start(now int64, opts *myrinet.MapperOptions, id ethertype.MAC, table mapper.RouteTable) (err error) {
	if opts == nil {
		return nil
	}
	with := *opts
	with.ID = id
	m.Agent, err = mapper.New(now, with, table)
	return err
}

// Alloc allocates the mapper's memory on the card. Each loaded program calls it.
func (m *Mapping) Alloc(sram *hardware.SRAM) error {
	if m.Agent == nil {
		return nil
	}
	b, err := sram.Alloc("the mapper's packets", MapperRoom)
	m.mem = b.Data
	return err
}

// Receive passes a packet to the mapper, and reports whether it was a mapper's packet.
func (m *Mapping) Receive(now int64, r *hardware.Received) bool {
	if m.Agent == nil || r.Type != mapper.PacketType {
		return false
	}
	m.Agent.Receive(now, r.Payload)
	m.talks = true
	return true
}

// Poll makes the mapper do what is due.
func (m *Mapping) Poll(now int64) {
	if m.Agent != nil && now >= m.Agent.Next() {
		m.Agent.Poll(now)
		m.talks = true
	}
}

// Next returns when to call Poll again.
func (m *Mapping) Next(now int64) int64 {
	if m.Agent == nil {
		return transport.Forever
	}
	return max(m.Agent.Next(), now+mapperPause)
}

// Send sends the mapper's next packet, which costs that many processor cycles. If others wait, it
// alternates with them. It reports whether it has sent a packet.
func (m *Mapping) Send(c *hardware.Card, now int64, others bool, cycles int) bool {
	if !m.talks || m.turn && others {
		m.turn = false
		return false
	}
	packet := m.Agent.Packet(now)
	if m.talks = packet != nil; !m.talks || len(packet) > len(m.mem) {
		return false
	}
	m.turn = true
	c.Work(cycles)
	return c.Send(m.mem[:copy(m.mem, packet)])
}

// Snapshot returns the mapper's state, or nil if there is none.
func (m *Mapping) Snapshot() *mapper.Snapshot {
	if m.Agent == nil {
		return nil
	}
	s := m.Agent.Snapshot()
	return &s
}
