package plain

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
)

// TypeFrame is the type of packets that carry an Ethernet frame.
const TypeFrame = 0x0800

const (
	sendBuffers    = 4 // in SRAM
	leastReceive   = 2 // buffers in SRAM
	mostReceive    = 64
	cyclesAPacket  = 41
	frameAt        = MaxHops + framing.FabricTypeSize // offset in a send buffer
	sendOverhead   = frameAt + framing.FabricCRCSize
	recvOverhead   = framing.FabricLeast
	causeFrame     = 1  // of interrupts
	leastSendSlots = 64 // of the send ring
)

// program is the control program.
type program struct {
	c    *hardware.Card
	l    *Link
	tab  station.Table
	page *hardware.Page
	size int // size of the longest frame in bytes

	bufs [sendBuffers]sendBuffer
	load uint32 // number of the next frame to load, modulo the buffers
	next uint32 // number of the next frame to send
	sent uint32 // frames in the send ring, according to the host

	gather func() // onGather

	now  int64
	maps station.Mapping

	job  job // current work of the DMA engine
	last job // its previous work
	in   hardware.Received
}

type job uint8

const (
	none    job = iota
	loading     // a frame from the send ring
	storing     // a frame to the receive ring
)

// sendBuffer holds an outgoing packet: room for the longest route, the type, the frame, the CRC-8.
type sendBuffer struct {
	mem    []byte
	n      int // size of the frame in bytes
	state  bufState
	way    int // entry of the table for its next copy
	copies int // copies sent
}

type bufState uint8

const (
	free bufState = iota
	filling
	ready
	leaving
)

// Load implements hardware.Program.
func (p *program) Load(c *hardware.Card) error {
	p.c = c
	alloc := func(purpose string, n int) ([]byte, error) {
		b, err := c.SRAM().Alloc(purpose, n)
		if err != nil {
			return nil, fmt.Errorf("plain: frames of %d bytes do not fit into the memory of the card: %w (lower Config.MTU)", p.size, err)
		}
		return b.Data, nil
	}
	mem, err := alloc("routes", (MaxStations+1)*station.EntrySize) // plus entry 0
	if err != nil {
		return err
	}
	p.tab.Init(mem, ethertype.Broadcast, func(int) bool { return true })
	for i := range p.bufs {
		if p.bufs[i].mem, err = alloc("packets out", sendOverhead+p.size); err != nil {
			return err
		}
	}
	room := recvOverhead + p.size
	if p.maps.Agent != nil {
		room = max(room, station.MapperRoom)
	}
	if err := p.maps.Alloc(c.SRAM()); err != nil {
		return err
	}
	for n := 0; n < mostReceive; n++ {
		b, err := alloc("packets in", room)
		if err != nil && n < leastReceive {
			return err
		}
		if err != nil || !c.Post(b) {
			break
		}
	}
	return nil
}

// Step implements hardware.Program. Each round does what is possible, which may make more possible.
func (p *program) Step(now int64) (next int64) {
	p.now = now
	p.maps.Poll(now)
	for p.round() {
	}
	return p.maps.Next(now)
}

func (p *program) round() (busy bool) {
	busy = p.finish()
	p.look()
	busy = p.launch() || busy
	if p.last == storing {
		return p.fetch() || p.store() || busy
	}
	return p.store() || p.fetch() || busy
}

// look reads the host's counter of the send ring.
func (p *program) look() {
	for page := p.c.Rung(); page != nil; page = p.c.Rung() {
		if page != p.page {
			continue
		}
		ring := &p.l.tx
		if sent := word(page.Bytes(), wordSent); sent-ring.taken.Load() <= uint32(len(ring.slots)) {
			p.sent = sent
		} else {
			p.l.badDoorbells.Add(1)
		}
	}
}

// fetch starts the DMA of the next frame from the send ring.
func (p *program) fetch() bool {
	ring := &p.l.tx
	b := &p.bufs[p.load%sendBuffers]
	if p.job != none || b.state != free || ring.taken.Load() == p.sent {
		return false
	}
	s := ring.at(ring.taken.Load())
	b.n, b.state, b.way, b.copies = min(s.n, p.size), filling, 0, 0
	p.job = loading
	if s.from != nil {
		return p.c.Transfer(b.n, p.gather)
	}
	return p.c.DMA(b.mem[frameAt:][:b.n], s.mem)
}

// onGather copies a frame from the memory of Send's caller.
func (p *program) onGather() {
	ring := &p.l.tx
	s := ring.at(ring.taken.Load())
	s.from.AppendTo(p.bufs[p.load%sendBuffers].mem[frameAt:frameAt])
	s.from = nil
}

// store starts the DMA of the next received packet to the receive ring. Frames that are not for the
// host, or find no room, are dropped and counted: routes are free of deadlock only if every card
// always accepts packets.
func (p *program) store() bool {
	if p.job != none {
		return false
	}
	r, ok := p.c.Receive()
	if !ok {
		return false
	}
	p.c.Work(cyclesAPacket)
	if drop := p.refuse(&r); drop {
		p.c.Post(r.Buffer)
		return true
	}
	p.in, p.job = r, storing
	s := p.l.rx.at(p.l.rx.put.Load())
	s.n = len(r.Payload)
	return p.c.DMA(s.mem, r.Payload)
}

// refuse reports whether a packet must be dropped, and counts the reason.
func (p *program) refuse(r *hardware.Received) bool {
	l := p.l
	if p.maps.Receive(p.now, r) {
		return true
	}
	if r.Type != TypeFrame || len(r.Payload) < framing.OuterSize || len(r.Payload) > p.size || l.closed.Load() {
		l.filtered.Add(1)
		return true
	}
	port, ok := framing.Concerns(r.Payload, l.info.EtherType, l.info.MAC)
	if !ok || port != ethertype.PortAll && !l.info.Ports.Contains(port) {
		l.filtered.Add(1)
		return true
	}
	room := p.room()
	if room < 0 {
		l.badDoorbells.Add(1)
	}
	if room <= 0 {
		l.counters.RxDrops.Add(1)
	}
	return room <= 0
}

// room returns the free slots of the receive ring according to the host, or a negative number if
// the host's counter is impossible.
func (p *program) room() int {
	if p.l.closed.Load() {
		return len(p.l.rx.slots) // for frames that are dropped
	}
	n := p.l.rx.put.Load() - word(p.page.Bytes(), wordTaken)
	if n > uint32(len(p.l.rx.slots)) {
		return -1
	}
	return len(p.l.rx.slots) - int(n)
}

// finish completes a transfer.
func (p *program) finish() bool {
	if p.job == none || p.c.Transferring() {
		return false
	}
	p.last, p.job = p.job, none
	if p.last == loading {
		p.l.tx.taken.Add(1)
		p.bufs[p.load%sendBuffers].state = ready
		p.load++
		return true
	}
	p.l.rx.put.Add(1)
	p.c.Post(p.in.Buffer)
	p.in = hardware.Received{}
	if page := p.page.Bytes(); word(page, wordAsks) != 0 {
		p.c.Interrupt(causeFrame)
	}
	return true
}

// launch sends the next packet, or the next copy of a packet to several stations.
func (p *program) launch() bool {
	b := &p.bufs[p.next%sendBuffers]
	if p.c.Sending() || p.l.via.holds() {
		return false
	}
	if p.maps.Send(p.c, p.now, p.waiting(), cyclesAPacket) {
		return true
	}
	if !p.waiting() {
		return false
	}
	way := p.route(b)
	if way < 0 {
		p.sentAll(b)
		return true
	}
	p.c.Work(cyclesAPacket)
	b.state = leaving
	b.copies++
	turns, _ := p.tab.Route(way)
	start := MaxHops - len(turns)
	copy(b.mem[start:], turns)
	b.mem[MaxHops], b.mem[MaxHops+1] = TypeFrame>>8, TypeFrame&0xff
	return p.c.Send(b.mem[start : frameAt+b.n+framing.FabricCRCSize])
}

// waiting reports whether a frame is to be sent or is being sent.
func (p *program) waiting() bool {
	s := p.bufs[p.next%sendBuffers].state
	return s == ready || s == leaving
}

// route returns the entry of the table for the next copy of the packet, or -1 if there is none.
func (p *program) route(b *sendBuffer) int {
	to := ethertype.MAC(b.mem[frameAt:])
	if _, all := p.tab.Route(0); !to.IsGroup() || all {
		i, _ := p.tab.Find(to)
		if _, ok := p.tab.Route(i); b.state == leaving || !ok {
			return -1
		}
		return i
	}
	for ; b.way < p.tab.Len(); b.way++ {
		if _, ok := p.tab.Route(b.way); ok && p.tab.MAC(b.way) != p.l.info.MAC {
			b.way++
			return b.way - 1
		}
	}
	return -1
}

// sentAll frees a buffer and counts its frame.
func (p *program) sentAll(b *sendBuffer) {
	n := &p.l.counters
	if b.copies > 0 || ethertype.MAC(b.mem[frameAt:]).IsGroup() {
		n.TxFrames.Add(1)
		driver.Add(&n.TxBytes, b.n)
	} else {
		n.TxDrops.Add(1)
	}
	b.state = free
	p.next++
}
