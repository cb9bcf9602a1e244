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
	causeFault   = 1 << iota // an endpoint is wanted in a frame, or memory of one is to be pinned
	causeMoved               // an endpoint has been loaded or unloaded
	causeControl             // the drivers' endpoint, or a query, has something
	causeNews                // an endpoint has something for its program
)

const (
	mostBuffers  = 16 // receive buffers
	leastBuffers = 2
	mostAnswers  = 64 // that wait to be sent; without room for one more a message is dropped
	packetRoom   = dataHeader + stageSize
	outAt        = station.MaxHops + framing.FabricTypeSize // where a packet's payload begins in a send buffer
	outSize      = outAt + packetRoom + framing.FabricCRCSize
	inSize       = framing.FabricLeast + max(packetRoom, station.MapperRoom)
)

// longest is the longest packet.
var longest = station.Longest{Octets: hardware.PacketSize(station.MaxHops, packetRoom)}

// program is the control program.
type program struct {
	c    *hardware.Card
	d    *driver
	cfg  *Config
	self ethertype.MAC
	now  int64

	stepping bool // a step is under way

	peers  station.Table // of the cards that this one speaks with; entry 0 is for those without a route of their own
	maps   station.Mapping
	frames []frame
	sends  channels.Sender
	recvs  channels.Receiver

	// What goes out.
	outs    [2]outBuffer
	fill    uint32 // number of the buffer that is filled next, modulo those in use
	leave   uint32 // number of the one that leaves next
	answers answers
	small   []byte // in SRAM: an answer, or a query, that is being sent
	current int    // frame whose turn it is to send
	left    int    // attempts that are left to it
	tried   int64  // when the last one was made that anybody has waited for
	again   bool   // the step was cut short by loitering

	// What the host's DMA engine does.
	job  job
	last job
	in   arrival // whose message is being stored, or waits
	move *frame  // that is being loaded or saved

	stats Stats
}

type job uint8

const (
	none    job = iota
	loading     // a message from a staging area to a send buffer
	storing     // one from a receive buffer to a staging area
	moving      // an endpoint
)

// outBuffer holds a packet of data that goes out.
type outBuffer struct {
	mem   []byte
	n     int // octets of its payload
	peer  int
	frame *frame // whose message it is
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

// answers is a ring of answers that are to be sent, at most one for each channel.
type answers struct {
	ring    [mostAnswers]answer
	head, n int
}

// answer is what is said to another card about one of its channels.
type answer struct {
	peer int
	channels.Answer
}

// find returns the answer for a channel that waits to be sent, nil for none.
func (a *answers) find(peer int, channel uint8) *answer {
	for i := range a.n {
		if x := &a.ring[(a.head+i)%mostAnswers]; x.peer == peer && x.Channel == channel {
			return x
		}
	}
	return nil
}

// room reports whether an answer for a channel finds room.
func (a *answers) room(peer int, channel uint8) bool {
	return a.n < mostAnswers || a.find(peer, channel) != nil
}

// push adds an answer, for which there is room. It takes the place of an earlier one for the
// same channel, which says nothing that it does not say.
func (a *answers) push(peer int, x channels.Answer) {
	at := a.find(peer, x.Channel)
	if at == nil {
		at = &a.ring[(a.head+a.n)%mostAnswers]
		a.n++
	}
	*at = answer{peer, x}
}

// pop returns the answer that has waited longest. There is one.
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
	// Go's memory holds the tables of channels and of endpoints; the card's is charged for them.
	if _, err := alloc("channels", p.cfg.Channels.Octets()); err != nil {
		return err
	}
	if _, err := alloc("endpoints", endpointOctets*p.cfg.Endpoints); err != nil {
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

// round does what can be done once, and reports whether that may have made more possible.
func (p *program) round() (busy bool) {
	busy = p.finish()
	busy = p.launch() || busy
	busy = p.moves() || busy
	if p.last == storing {
		return p.prepare() || p.take() || busy
	}
	return p.take() || p.prepare() || busy
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

// buffer returns the send buffer that is filled next.
func (p *program) buffer() *outBuffer { return &p.outs[p.fill%uint32(p.buffers())] }

// buffers returns how many send buffers are used: the paper's program has moved a message to
// SRAM, and then sends it (VNT, 5.2), where GAM's fetches the next one meanwhile.
func (p *program) buffers() int {
	if p.cfg.Pipelined {
		return len(p.outs)
	}
	return 1
}

// finish notes that a transfer between host and SRAM has ended.
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

// launch makes the next packet leave. The mapper's packets take turns with all others, because
// without them the routes go. Of the others answers go first, then the drivers' queries, then data.
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

// recycle makes the buffer free whose packet has left.
func (p *program) recycle() {
	b := &p.outs[p.leave%uint32(p.buffers())]
	if b.state != bufLeaving {
		return
	}
	b.state = bufFree
	p.leave++
}

// leaves sends a packet, the payload of which lies in a buffer: it puts the route before it.
// One to a card without a route is dropped, as a message to it comes back before. One to the card
// itself has to wait when leaves reports false.
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

// launchAnswer sends an ACK or NACK; while nothing leaves the card (Holds), only one to itself.
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

// launchQuery sends a query or the answer to one.
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

// idle reports whether nothing is under way to a card, and nothing of its is being stored. If
// so the channels forget it.
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

// smallPacket is the most octets of the payload of an answer or a query.
const smallPacket = baseHeader + querySize

// sender returns the number of the card that a packet is from. A card to which there is no route gets
// no number.
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

// refuseRoutes ends what is under way to cards that have no route any more.
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
