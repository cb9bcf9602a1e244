package lanai

import (
	"fmt"
	"math"

	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
)

const (
	sendBuffers = 8 // for as many processes as fit the paper's card; scaled up for more
	ownBuffers  = 2 // of these, reserved for the driver's messages
	lineBuffers = 4 // of these, for one node while the card has several processes
	leastRecv   = 4
	mostRecv    = 16

	forever = math.MaxInt64
)

// Causes of interrupts.
const (
	causeMiss    = 1 << iota // a translation is missing in a TLB
	causeMessage             // messages for the driver, or notifications
)

// program is VMMC's control program.
type program struct {
	c     *hardware.Card
	h     *Card
	now   int64
	birth uint64 // number of the first lines

	nodes  station.Table // entry 0 is the card itself; outgoing page tables name nodes by number
	flags  []byte        // the incoming page table, in SRAM: a byte for each frame
	bufs   []buffer
	free   int // number of free buffers
	queued fifo.Queue[*buffer]
	out    *buffer // buffer in the send engine

	answers  fifo.Queue[answer]
	answer   []byte // in SRAM: the answer being sent
	send     channels.Sender
	recv     channels.Receiver
	lines    []line
	ready    bool // the program is loaded
	procs    []*queue
	turn     int // last queue polled
	tight    *queue
	statuses fifo.Queue[ended]
	word     []byte // in SRAM: a status word on its way to the host

	job   job
	last  job
	load  *buffer // buffer being loaded
	from  []byte  // the host memory it is loaded from
	in    arrival
	early []early // packets that have arrived too early
	count Stats

	loaded, stored func() // called by the DMA engine at the end of a transfer
}

// job is the current work of the DMA engine.
type job uint8

const (
	idle job = iota
	loading
	storing
	reporting
)

// buffer holds an outgoing packet.
type buffer struct {
	index  int
	mem    []byte
	node   int
	state  bufferState
	queued bool // waits to be sent
	dead   bool // its request or line has ended
	header

	of     *queue // queue of its request, or nil
	number uint32
	ends   bool // last packet of the request
}

type bufferState uint8

const (
	free bufferState = iota
	filling
	ready
)

// bound reports whether the packet uses a line.
func (b *buffer) bound() bool { return b.flags&flagChannel != 0 }

// answer is an answer to be sent.
type answer struct {
	node int
	a    channels.Answer
}

// ended is the end of a request.
type ended struct {
	q      *queue
	number uint32
	how    ending
}

// Load implements hardware.Program.
func (p *program) Load(c *hardware.Card) error {
	p.c = c
	cfg := &p.h.cfg
	alloc := func(purpose string, n int) ([]byte, error) {
		b, err := c.SRAM().Alloc(purpose, n)
		if err != nil {
			return nil, fmt.Errorf("lanai: %w", err)
		}
		return b.Data, nil
	}
	channel := channels.Config{Cards: cfg.Nodes, Channels: channelCount, Owners: 1, Timeout: int64(cfg.Retry), Tries: 255}
	var err error
	var nodes, channelTables []byte
	for _, x := range []struct {
		what string
		n    int
		mem  *[]byte
	}{
		{"nodes", cfg.Nodes * station.EntrySize, &nodes}, {"channels", channel.Size(), &channelTables},
		{"incoming page table", cfg.Memory, &p.flags}, {"answers", dataAt + framing.FabricCRCSize, &p.answer}, {"status", 4, &p.word},
	} {
		if *x.mem, err = alloc(x.what, x.n); err != nil {
			return err
		}
	}
	p.bufs = make([]buffer, sendBuffers*max(1, cfg.Processes/defaultProcesses))
	for i := range p.bufs {
		b := &p.bufs[i]
		b.index = i
		if b.mem, err = alloc("packets out", roomSend); err != nil {
			return err
		}
	}
	p.free = len(p.bufs)
	if err := p.h.maps.Alloc(c.SRAM()); err != nil {
		return err
	}
	room := roomRecv
	if p.h.maps.Agent != nil {
		room = max(room, station.MapperRoom)
	}
	posted := 0
	for n := range mostRecv {
		mem, err := alloc("packets in", room)
		if err != nil && n < leastRecv {
			return err
		}
		if err != nil || !c.Post(mem) {
			break
		}
		if posted++; c.SRAM().Size()-c.SRAM().Used() < (cfg.Processes-len(p.h.procs))*(processSRAM+pageSize)+len(p.h.procs)*processSRAM {
			break
		}
	}
	p.early = make([]early, 0, min(mostEarly, posted/2))
	p.send.Init(&channel, uint32(p.birth))
	p.recv.Init(&channel, uint32(p.birth))
	p.lines = make([]line, cfg.Nodes)
	for i := range p.lines {
		p.lines[i].number, p.lines[i].patient = p.birth, int64(cfg.PeerTimeout)
	}
	p.loaded, p.stored = p.onLoaded, p.onStored
	p.nodes.Init(nodes, cfg.MAC, nil)
	return nil
}

// Step implements hardware.Program.
func (p *program) Step(now int64) (next int64) {
	p.h.enter()
	defer p.h.leave()
	p.now = now
	p.h.maps.Poll(now)
	next = p.h.maps.Next(now)
	busy := p.rounds()
	next = min(next, p.send.Deadline(), p.watch())
	busy = p.rounds() || busy // messages from watch
	if p.h.closing && !p.busy() {
		p.h.idle.Open(&p.h.host.Engine)
	}
	if busy {
		return now
	}
	return max(next, now+1)
}

// mostRounds limits the consecutive rounds. A process that shares its queue with the card can add
// requests while the card handles them, and the card must also handle other work.
const mostRounds = 16

// rounds runs rounds while there is work. It reports whether there is more.
func (p *program) rounds() (busy bool) {
	for range mostRounds {
		if !p.round() {
			return false
		}
	}
	return true
}

// busy reports whether anything is still to be sent.
func (p *program) busy() bool {
	return p.free < len(p.bufs) || p.answers.Len()+p.h.leaving.Len() > 0 || p.c.Sending()
}

// round does one unit of each kind of work, which may enable more.
func (p *program) round() (busy bool) {
	busy = p.finish()
	p.look()
	busy = p.fetch() || busy
	busy = p.again() || busy
	for node := range p.nodes.Len() {
		busy = p.pump(node) || busy
	}
	busy = p.launch() || busy
	busy = p.receive() || busy
	if p.job == idle {
		if p.last == storing {
			busy = p.report() || p.scan() || p.store() || busy
		} else {
			busy = p.report() || p.store() || p.scan() || busy
		}
	}
	return busy
}

// look counts doorbells of queues without a valid request. scan finds the others.
func (p *program) look() {
	for page := p.c.Rung(); page != nil; page = p.c.Rung() {
		for _, q := range p.procs {
			if q.page == page && !holds(q.mem, q.next) {
				p.count.BadQueues++
			}
		}
	}
}

// finish completes a transfer.
func (p *program) finish() bool {
	if p.job == idle || p.c.Transferring() {
		return false
	}
	done := p.job
	p.last, p.job = done, idle
	switch done {
	case loading:
		p.finishLoad()
	case storing:
		p.finishStore()
	case reporting:
		e := p.statuses.Pop()
		if e.q.open {
			e.q.proc.finished(e.number, e.how)
		}
	}
	return true
}

// mayTake reports whether a packet to a node may have a buffer. A node that does not answer keeps
// its buffers for long, so it must leave some for packets of other processes to other nodes.
func (p *program) mayTake(node int) bool {
	return node == 0 || len(p.procs) < 2 || p.lines[node].held < lineBuffers
}

// unusedBuffer returns a free buffer, or nil. Data leaves some to the driver.
func (p *program) unusedBuffer(node int, data bool) *buffer {
	if p.free == 0 || data && p.free <= ownBuffers || !p.mayTake(node) {
		return nil
	}
	for i := range p.bufs {
		if b := &p.bufs[i]; b.state == free {
			p.free--
			p.lines[node].held++
			*b = buffer{index: i, mem: b.mem, node: node, state: ready}
			b.from = p.h.cfg.MAC
			return b
		}
	}
	return nil
}

// give frees a buffer.
func (p *program) give(b *buffer) {
	b.state, b.of = free, nil
	p.lines[b.node].held--
	p.free++
}

// end ends the part of a request that a buffer carries.
func (p *program) end(b *buffer, how ending) {
	q := b.of
	if q == nil {
		return
	}
	b.of = nil
	if slot := &q.under[(b.number-1)%slots]; how != endDone && slot.number == b.number && slot.how == 0 {
		slot.how = how
	}
	if b.ends {
		p.tell(q, b.number, how)
	}
}

// tell reports the completion of a request to the host, with the result of its first failed part, if any.
func (p *program) tell(q *queue, number uint32, how ending) {
	slot := &q.under[(number-1)%slots]
	if slot.how != 0 && slot.number == number {
		how = slot.how
	}
	if *slot = (under{}); q.open {
		p.statuses.Push(ended{q, number, how})
	}
}

// report starts the DMA of the next status word to the host.
func (p *program) report() bool {
	for p.statuses.Len() > 0 {
		e := p.statuses.At(0)
		if !e.q.open {
			p.statuses.Pop()
			continue
		}
		putWord(p.word, status(e.number, e.how))
		p.job = reporting
		return p.c.DMA(e.q.words[(e.number-1)%slots*4:][:4], p.word)
	}
	return false
}

// release ends a packet, and frees its buffer when the send engine no longer uses it.
func (p *program) release(b *buffer, how ending) {
	p.end(b, how)
	if b.dead = true; !b.queued && p.out != b {
		p.give(b)
	}
}

// wait queues a packet on its line.
func (p *program) wait(b *buffer) {
	l := &p.lines[b.node]
	if l.waiting.Len()+l.under == 0 {
		l.last = p.now // no packet waited for an acknowledgement before
	}
	l.waiting.Push(b)
}

// bringForward moves the oldest message whose node may have a buffer to the front of the driver's
// queue. It reports false if there is none.
func (p *program) bringForward() bool {
	q := &p.h.leaving
	for i := range q.Len() {
		m := *q.At(i)
		if !p.mayTake(m.node) {
			continue
		}
		for ; i > 0; i-- {
			*q.At(i) = *q.At(i - 1)
		}
		*q.At(0) = m
		return true
	}
	return false
}

// fetch takes the driver's next message.
func (p *program) fetch() bool {
	if !p.bringForward() {
		return false
	}
	b := p.unusedBuffer(p.h.leaving.At(0).node, false)
	if b == nil {
		return false
	}
	m := p.h.leaving.Pop()
	p.h.left(&m)
	if m.data[0] == ctlPing {
		p.lines[m.node].pinged = false
	}
	p.c.Work(p.h.costs.Short)
	b.kind, b.flags = kindControl, flagChannel
	if m.query {
		b.kind, b.flags = kindQuery, 0
	}
	b.size = uint32(copy(b.mem[dataAt:][:mostData], m.data))
	p.wait(b)
	return true
}

// queue queues a packet for the send engine.
func (p *program) queue(b *buffer) {
	if !b.queued {
		b.queued = true
		p.queued.Push(b)
	}
}

// launch sends the next packet.
func (p *program) launch() bool {
	if p.c.Sending() || p.h.host.Holds() {
		return false
	}
	if b := p.out; b != nil {
		p.out = nil
		if !b.queued && (b.dead || !b.bound()) {
			p.give(b)
		}
	}
	if p.h.maps.Send(p.c, p.now, p.queued.Len()+p.answers.Len() > 0, 0) || p.launchAnswer() {
		return true
	}
	if p.queued.Len() == 0 {
		return false
	}
	b := *p.queued.At(0)
	if b.node == 0 && !b.dead && p.in.busy {
		return false // it is stored as if it had arrived
	}
	p.queued.Pop()
	b.queued = false
	switch turns, ok := p.nodes.Route(b.node); {
	case b.dead:
		p.give(b)
	case b.node == 0:
		p.local(b)
	case !ok:
		p.count.NoRoute++
		if !b.bound() { // others are retransmitted
			p.give(b)
		}
	default:
		p.c.Work(p.h.costs.Launch)
		l := &p.lines[b.node]
		b.line, b.echo = l.number, l.heard
		b.put(b.mem[headerAt:])
		p.out = b
		return p.transmit(b.mem, turns, int(b.size))
	}
	return true
}

// transmit sends a packet that lies in mem, except for its route and type.
func (p *program) transmit(mem, turns []byte, size int) bool {
	start := typeAt - len(turns)
	copy(mem[start:], turns)
	mem[typeAt], mem[typeAt+1] = typePacket>>8, typePacket&0xff
	p.count.PacketsOut++
	return p.c.Send(mem[start : dataAt+size+framing.FabricCRCSize])
}

// launchAnswer sends the next answer.
func (p *program) launchAnswer() bool {
	if p.answers.Len() == 0 {
		return false
	}
	x := p.answers.Pop()
	turns, ok := p.nodes.Route(x.node)
	if !ok {
		p.count.NoRoute++
		return true
	}
	l := &p.lines[x.node]
	h := header{kind: kindAnswer, from: p.h.cfg.MAC, line: l.number, echo: l.heard, ch: x.a.Header, reply: x.a.Kind}
	h.to[0] = uint64(x.a.Offer)
	h.put(p.answer[headerAt:])
	p.c.Work(p.h.costs.Launch)
	return p.transmit(p.answer, turns, 0)
}
