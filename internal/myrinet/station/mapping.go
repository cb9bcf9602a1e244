package station

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Mapping is the mapper of a host on its card, beside the work of the control program, which
// calls it. VNT, 4.4.3, has a privileged daemon do this, which sends and receives packets by
// routes of its own and writes the card's table. The zero value is that of a host without.
type Mapping struct {
	Agent *mapper.Agent // nil for none
	Long  uint64        // routes that were not used: longer than an entry of the card's table

	mem   []byte // in SRAM: its packet that is being sent
	talks bool   // it may have packets to send
	turn  bool   // it has sent the last packet
}

const (
	// MapperRoom is the bytes of a buffer for a mapper's packets, which may be longer than
	// those of the program.
	MapperRoom = 2048

	// mapperPause is the least time between two calls of a mapper for which nothing has come,
	// nanoseconds: it can be due while the card cannot send.
	mapperPause = 10_000
)

// Start begins, with the address of the host, and the table of routes that the mapper writes
// to. Nil options are those of a host without a mapper.
func (m *Mapping) Start(now int64, opts *myrinet.MapperOptions, id ethertype.MAC, table mapper.RouteTable) (err error) {
	if opts == nil {
		return nil
	}
	with := *opts
	with.ID = id
	m.Agent, err = mapper.New(now, with, table)
	return err
}

// Alloc takes the mapper's memory on the card, for each program that is loaded.
func (m *Mapping) Alloc(sram *hardware.SRAM) error {
	if m.Agent == nil {
		return nil
	}
	b, err := sram.Alloc("the mapper's packets", MapperRoom)
	m.mem = b.Data
	return err
}

// Receive hands the mapper a packet, if it is one of its own.
func (m *Mapping) Receive(now int64, r *hardware.Received) bool {
	if m.Agent == nil || r.Type != mapper.PacketType {
		return false
	}
	m.Agent.Receive(now, r.Payload)
	m.talks = true
	return true
}

// Poll has the mapper do what is due.
func (m *Mapping) Poll(now int64) {
	if m.Agent != nil && now >= m.Agent.Next() {
		m.Agent.Poll(now)
		m.talks = true
	}
}

// Next returns when Poll is to be called again.
func (m *Mapping) Next(now int64) int64 {
	if m.Agent == nil {
		return transport.Forever
	}
	return max(m.Agent.Next(), now+mapperPause)
}

// Send sends the mapper's next packet, which takes the processor so many cycles. It takes
// turns with others, if others wait.
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

// Snapshot returns what the mapper is doing, nil for none.
func (m *Mapping) Snapshot() *mapper.Snapshot {
	if m.Agent == nil {
		return nil
	}
	s := m.Agent.Snapshot()
	return &s
}
