package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Causes of interrupts.
const (
	causeFault   = 1 << iota // an endpoint needs a frame, or its memory pinned
	causeMoved               // an endpoint has been loaded or unloaded
	causeControl             // the drivers' endpoint, or a query, has an arrival
	causeNews                // an endpoint has an arrival for its program
)

const (
	mostBuffers  = 16 // receive buffers
	leastBuffers = 2
	mostAnswers  = 64 // answers that wait to be sent; without room for another one a message is dropped
	packetRoom   = dataHeader + stageSize
	outAt        = station.MaxHops + framing.FabricTypeSize // where a packet's payload begins in a send buffer
	outSize      = outAt + packetRoom + framing.FabricCRCSize
	inSize       = framing.FabricLeast + max(packetRoom, station.MapperRoom)
)

// longest is the longest packet.
var longest = station.Longest{Size: hardware.PacketSize(station.MaxHops, packetRoom)}

// program is the control program.
type program struct {
	c    *hardware.Card
	d    *driver
	cfg  *Config
	self ethertype.MAC
	now  int64

	stepping bool // a step is running

	peers  station.Table // cards that this one communicates with; entry 0 is for those without a route
	maps   station.Mapping
	frames []frame
	sends  channels.Sender
	recvs  channels.Receiver

	// Outgoing packets.
	outs    [2]outBuffer
	fill    uint32 // number of the next buffer to fill, modulo those in use
	leave   uint32 // number of the next one to send
	answers answers
	small   []byte // in SRAM: the answer or query being sent
	current int    // the frame whose turn it is to send
	left    int    // its remaining attempts
	tried   int64  // time of the last attempt that another frame waited for
	again   bool   // the step ended early because of loitering

	// State of the host's DMA engine.
	job  job
	last job
	in   arrival // the message that is being stored, or waits
	move *frame  // the frame that is being loaded or saved

	stats Stats
}

type job uint8

const (
	none    job = iota
	loading     // copies a message from a staging area to a send buffer
	storing     // copies one from a receive buffer to a staging area
	moving      // moves an endpoint
)

// outBuffer holds an outgoing data packet.
type outBuffer struct {
	mem   []byte
	n     int // payload bytes
	peer  int
	frame *frame // frame of the message
	entry int
	state bufState
}

type bufState uint8

const (
	bufFree bufState = iota
	bufFilling
	bufReady
	bufLeaving
)

// answers is a ring of answers to send, at most one for each channel.
type answers struct {
	ring    [mostAnswers]answer
	head, n int
}

// answer is an answer to another card about one of its channels.
type answer struct {
	peer int
	channels.Answer
}

// find returns the waiting answer for a channel, or nil.
func (a *answers) find(peer int, channel uint8) *answer {
	for i := range a.n {
		if x := &a.ring[(a.head+i)%mostAnswers]; x.peer == peer && x.Channel == channel {
			return x
		}
	}
	return nil
}

// room reports whether there is room for an answer for a channel.
func (a *answers) room(peer int, channel uint8) bool {
	return a.n < mostAnswers || a.find(peer, channel) != nil
}

// push adds an answer, for which there is room. It replaces an earlier one for the same channel,
// because it contains all its information.
func (a *answers) push(peer int, x channels.Answer) {
	at := a.find(peer, x.Channel)
	if at == nil {
		at = &a.ring[(a.head+a.n)%mostAnswers]
		a.n++
	}
	*at = answer{peer, x}
}

// pop removes and returns the oldest answer. The ring must not be empty.
func (a *answers) pop() (x answer) {
	x = a.ring[a.head]
	a.head = (a.head + 1) % mostAnswers
	a.n--
	return x
}

// Load implements hardware.Program.
func (p *program) Load(c *hardware.Card) error {
	p.c = c
	alloc := func(purpose string, n int) (b []byte, err error) {
		block, err := c.SRAM().Alloc(purpose, n)
		if err != nil {
			return nil, fmt.Errorf("lanai: %w", err)
		}
		return block.Data, nil
	}
	// The tables of channels and of endpoints are in Go's memory, but count as memory of the card.
	if _, err := alloc("channels", p.cfg.Channels.Size()); err != nil {
		return err
	}
	if _, err := alloc("endpoints", endpointSize*p.cfg.Endpoints); err != nil {
		return err
	}
	mem, err := alloc("routes", maxCards*station.EntrySize)
	if err != nil {
		return err
	}
	p.peers.Init(mem, ethertype.Broadcast, p.idle)
	if p.small, err = alloc("answers", outAt+smallPacket+framing.FabricCRCSize); err != nil {
		return err
	}
	for i := range p.outs {
		if p.outs[i].mem, err = alloc("packets out", outSize); err != nil {
			return err
		}
	}
	if err := p.maps.Alloc(c.SRAM()); err != nil {
		return err
	}
	for n := range mostBuffers {
		b, err := alloc("packets in", inSize)
		if err != nil && n < leastBuffers {
			return err
		}
		if err != nil || !c.Post(b) {
			break
		}
	}
	return nil
}

// Step implements hardware.Program.
func (p *program) Step(now int64) (next int64) {
	p.now, p.again, p.stepping = now, false, true
	defer func() { p.stepping = false }()
	p.maps.Poll(now)
	p.look()
	for p.round() {
	}
	if p.again {
		return now
	}
	next = p.maps.Next(now)
	if p.buffer().state == bufFree && p.job == none {
		next = min(next, max(p.sends.Deadline(), now+1))
	}
	return min(next, p.d.due(now))
}

// round does all work that is possible now, and reports whether this may have made more possible.
func (p *program) round() (busy bool) {
	busy = p.finish()
	busy = p.launch() || busy
	busy = p.moves() || busy
	if p.last == storing {
		return p.prepare() || p.receivePacket() || busy
	}
	return p.receivePacket() || p.prepare() || busy
}

// look reads the frames whose doorbells were rung.
func (p *program) look() {
	for page := p.c.Rung(); page != nil; page = p.c.Rung() {
		for i := range p.frames {
			if f := &p.frames[i]; f.page == page && f.end != nil {
				f.posted = uint16(shared.Load(f.bytes(), postedAt))
			}
		}
	}
}

// buffer returns the next send buffer to fill.
func (p *program) buffer() *outBuffer { return &p.outs[p.fill%uint32(p.buffers())] }

// buffers returns how many send buffers are used. The paper's program moves a message to SRAM and
// then sends it (VNT, 5.2). GAM's fetches the next message meanwhile.
func (p *program) buffers() int {
	if p.cfg.Pipelined {
		return len(p.outs)
	}
	return 1
}

// finish handles the end of a transfer between host and SRAM.
func (p *program) finish() bool {
	if p.job == none || p.c.Transferring() {
		return false
	}
	p.last, p.job = p.job, none
	switch p.last {
	case loading:
		b := p.buffer()
		b.state = bufReady
		p.fill++
		p.fetched(b)
	case storing:
		p.stored()
	case moving:
		p.moved()
	}
	return true
}

// launch sends the next packet. The mapper's packets alternate with all others, because routes
// would be lost without them. Of the others, answers precede the drivers' queries, and these
// precede data.
func (p *program) launch() bool {
	if p.c.Sending() {
		return false
	}
	p.recycle()
	b := &p.outs[p.leave%uint32(p.buffers())]
	others := p.answers.n > 0 || len(p.d.queries.list) > 0 || b.state == bufReady
	held := p.d.host.Holds()
	if !held && p.maps.Send(p.c, p.now, others, 0) || p.launchAnswer(held) || !held && p.launchQuery() {
		return true
	}
	if b.state != bufReady {
		return false
	}
	if !p.leaves(b.mem, b.n, b.peer) {
		return false
	}
	b.state = bufLeaving
	p.stats.Sent++
	return true
}

// recycle frees the buffer of a packet that has been sent.
func (p *program) recycle() {
	b := &p.outs[p.leave%uint32(p.buffers())]
	if b.state != bufLeaving {
		return
	}
	b.state = bufFree
	p.leave++
}

// leaves sends a packet, whose payload is in a buffer, with its route before it. It drops a packet
// to a card without a route, because the message is returned earlier. It returns false if a packet
// to the card itself must wait.
func (p *program) leaves(mem []byte, n, peer int) bool {
	mem[station.MaxHops], mem[station.MaxHops+1] = typeMessage>>8, typeMessage&0xff
	if p.peers.MAC(peer) == p.self {
		return p.c.Loop(mem[station.MaxHops : outAt+n+framing.FabricCRCSize])
	}
	turns, ok := p.peers.Route(peer)
	if !ok {
		p.stats.NoRoute++
		return true
	}
	start := station.MaxHops - len(turns)
	copy(mem[start:], turns)
	p.c.Send(mem[start : outAt+n+framing.FabricCRCSize])
	return true
}

// launchAnswer sends an ACK or NACK. While the card may not send (Holds), it only sends one to
// itself.
func (p *program) launchAnswer(held bool) bool {
	if p.answers.n == 0 || held && p.peers.MAC(p.answers.ring[p.answers.head].peer) != p.self {
		return false
	}
	x := p.answers.pop()
	p.c.Work(p.cfg.Costs.Answer)
	h := header{kind: kindAnswer, channel: x.Header, answer: x.Kind, offer: x.Offer, from: p.self, to: p.peers.MAC(x.peer)}
	if !p.leaves(p.small, h.put(p.small[outAt:]), x.peer) {
		p.answers.push(x.peer, x.Answer)
		return false
	}
	return true
}

// launchQuery sends a query, or the answer to one.
func (p *program) launchQuery() bool {
	q := p.d.nextQuery()
	if q == nil {
		return false
	}
	h := header{kind: q.kind, from: p.self, to: q.to}
	n := h.put(p.small[outAt:])
	n += copy(p.small[outAt+n:][:smallPacket-n], q.body)
	p.leaves(p.small, n, q.peer)
	return true
}

// idle reports whether nothing is in flight to a card, and no message from it is being stored. The
// channels may then discard its state.
func (p *program) idle(peer int) bool {
	if p.sends.UnderWay(peer) > 0 || p.in.received.Buffer != nil && p.in.peer == peer {
		return false
	}
	for i := range p.outs {
		if b := &p.outs[i]; b.state != bufFree && b.peer == peer {
			return false
		}
	}
	p.sends.Forget(peer)
	p.recvs.Forget(peer)
	return true
}

// smallPacket is the maximum payload of an answer or a query, in bytes.
const smallPacket = baseHeader + querySize

// sender returns the number of the card that sent a packet. A card without a route gets no number.
func (p *program) sender(mac ethertype.MAC) (i int, ok bool) {
	if _, all := p.peers.Route(0); all {
		return p.peers.Add(mac)
	}
	return p.peers.Find(mac)
}

// SetRoutes implements mapper.RouteTable.
func (p *program) SetRoutes(entries []myrinet.HostRoute) {
	if routes := p.maps.Routes(entries); len(routes) == 0 || p.peers.Set(routes) != nil {
		_ = p.peers.Set(station.Straight) // it always fits
	}
	p.refuseRoutes()
}

// refuseRoutes returns the messages in flight to cards that no longer have a route.
func (p *program) refuseRoutes() {
	for i := 1; i < p.peers.Len(); i++ {
		if _, ok := p.peers.Route(i); ok || p.peers.MAC(i) == p.self {
			continue
		}
		for {
			x, ok := p.sends.AbandonCard(i)
			if !ok {
				break
			}
			p.ended(&x)
		}
	}
}

var _ mapper.RouteTable = (*program)(nil)
