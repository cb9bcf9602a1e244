package lanai

import (
	"slices"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// queue is the card's state of a process: its send queue and tables.
type queue struct {
	proc   *seat
	open   bool
	page   *hardware.Page
	mem    []byte // the send queue
	blocks [2]hardware.Block
	table  outgoing
	tlb    tlb
	lines  []byte // for a process of another program: the line numbers that were reported to it; nil for others
	words  []byte // in the host's memory: the status word of each slot
	copied [slotSize]byte

	next    uint32 // number of the next request
	req     request
	has     bool   // req is in progress
	sent    int    // bytes of req already sent
	node    int    // destination
	number  uint64 // number of that line at the start of the request
	under   [slots]under
	missing bool   // a translation has been requested from the driver
	page0   uint64 // the page of that translation
}

// under is a request in progress, with the first failure of its parts.
type under struct {
	number uint32
	how    ending
}

// drop removes a process. Packets that have begun to leave still leave.
func (p *program) drop(q *queue) {
	p.procs = slices.DeleteFunc(p.procs, func(x *queue) bool { return x == q })
	for i := range p.bufs {
		if p.bufs[i].of == q {
			p.bufs[i].of = nil
		}
	}
	if p.turn, q.has = 0, false; p.tight == q {
		p.tight = nil
	}
}

// scan polls the send queues round-robin, and does the next step of a request.
func (p *program) scan() bool {
	for range p.procs {
		p.turn = (p.turn + 1) % len(p.procs)
		q := p.procs[p.turn]
		if q.open && !q.missing && (q.has || p.pick(q)) && p.step(q) {
			return true
		}
	}
	return false
}

// pick takes the next request of a queue.
func (p *program) pick(q *queue) bool {
	if !holds(q.mem, q.next) {
		return false
	}
	copy(q.copied[:], q.mem[slotOf(q.next):]) // the process may change the slot meanwhile
	q.req.parse(q.copied[:], q.next)
	p.c.Work(p.h.costs.Pick)
	q.next = after(q.next)
	q.has, q.sent = true, 0
	q.under[(q.req.number-1)%slots] = under{number: q.req.number}
	if how := p.check(q); how != endDone {
		p.fail(q, how)
		return true
	}
	cost := p.h.costs.Long
	if q.req.short {
		cost = p.h.costs.Short
	}
	p.c.Work(cost)
	return true
}

// check decides whether the card accepts a request.
func (p *program) check(q *queue) ending {
	r := &q.req
	if r.size > longData || r.short && r.size > shortData {
		p.count.BadRequests++
		return endSize
	}
	node, _, ok := q.table.get(r.proxy >> pageShift)
	if !ok || node >= p.nodes.Len() {
		p.count.BadProxies++
		return endProxy
	}
	q.node, q.number = node, p.lines[node].number
	if q.lines != nil && shared.Load(q.lines, node*lineWord) != uint32(q.number) {
		return endLost // the end of the line was not yet reported to the process
	}
	return endDone
}

// fail ends a request that the card refuses.
func (p *program) fail(q *queue, how ending) {
	q.has = false
	p.tell(q, q.req.number, how)
}

// step sends the next chunk of a request. It reports false if the request has to wait, also for a
// route, which returns unless the line ends. The request must not fail instead: the connection
// would continue, and its data would be missing between earlier and later writes.
func (p *program) step(q *queue) bool {
	if !q.has { // it failed when it was picked
		return true
	}
	if p.lines[q.node].number != q.number {
		p.fail(q, endLost)
		return true
	}
	if _, ok := p.nodes.Route(q.node); q.node != 0 && !ok {
		return false
	}
	if q.req.short {
		return p.short(q)
	}
	return p.chunk(q)
}

// short copies the data of a short request into a packet.
func (p *program) short(q *queue) bool {
	b := p.unusedBuffer(q.node, true)
	if b == nil {
		return false
	}
	if !p.address(q, b, q.req.size) {
		return true
	}
	p.c.Work(p.h.costs.Word * ((q.req.size + 3) / 4))
	copy(b.mem[dataAt:], q.req.data)
	p.dispatch(q, b)
	return true
}

// chunk starts the DMA of the next chunk: up to the end of its page.
func (p *program) chunk(q *queue) bool {
	at := q.req.at + uint64(q.sent)
	offset := int(at % pageSize)
	n := min(q.req.size-q.sent, pageSize-offset)
	pin, ok := q.tlb.find(at >> pageShift)
	if !ok {
		p.count.Misses++
		q.missing, q.page0 = true, at>>pageShift
		p.h.missed(q.proc)
		p.c.Interrupt(causeMiss)
		return false
	}
	if p.h.cfg.Serial && (p.c.Sending() || p.queued.Len() > 0) {
		return false
	}
	b := p.unusedBuffer(q.node, true)
	if b == nil {
		return false
	}
	if p.tight != q && q.sent > 0 {
		p.c.Work(p.h.costs.Leave)
	}
	p.tight = q
	from := q.proc.space.load(pin, offset, n)
	if from == nil {
		p.give(b)
		p.count.BadAddresses++
		p.fail(q, endAddress)
		return true
	}
	if !p.address(q, b, n) {
		return true
	}
	b.state, p.load, p.from, p.job = filling, b, from, loading
	p.c.Transfer(n, p.loaded)
	p.c.Work(p.h.costs.Chunk) // builds the header while the data arrives
	p.dispatch(q, b)
	return true
}

// address determines the destination of n bytes of a request, and fills in the packet's header. It
// reports false if there is none; the request has then ended.
func (p *program) address(q *queue, b *buffer, n int) bool {
	proxy := uint64(q.req.proxy) + uint64(q.sent)
	offset := proxy % pageSize
	node, frame, ok := q.table.get(uint32(proxy >> pageShift))
	b.kind, b.port, b.size = kindChunk, q.proc.port, uint32(n)
	b.to[0] = uint64(frame)<<pageShift | offset
	if ok && offset+uint64(n) > pageSize {
		second, frame, has := q.table.get(uint32(proxy>>pageShift) + 1)
		ok = has && second == node
		b.to[1] = uint64(frame) << pageShift
	}
	if ok && node == q.node {
		return true
	}
	p.give(b)
	p.count.BadProxies++
	p.fail(q, endProxy)
	return false
}

// dispatch queues a packet behind those before it. The last packet of a request ends the request.
func (p *program) dispatch(q *queue, b *buffer) {
	if !p.h.cfg.Drop {
		b.flags |= flagChannel
	}
	p.count.BytesOut += uint64(b.size)
	b.of, b.number = q, q.req.number
	if q.sent += int(b.size); q.sent == q.req.size {
		b.ends, q.has = true, false
		if q.req.notify {
			b.flags |= flagNotify
		}
	}
	p.wait(b)
	if b.state == ready {
		p.safe(b)
	}
}

// onLoaded completes a transfer from the host.
func (p *program) onLoaded() { copy(p.load.mem[dataAt:], p.from) }

// finishLoad continues with a packet whose data is complete.
func (p *program) finishLoad() {
	b := p.load
	p.load, p.from = nil, nil
	if b.state = ready; b.dead {
		p.give(b)
		return
	}
	p.safe(b)
}

// safe ends a request whose last data is in SRAM, if there are no retransmissions.
func (p *program) safe(b *buffer) {
	if !b.bound() {
		p.end(b, endDone)
	}
}

// refill adds translations of n pages to the queue of a process, from the missing one on. With n =
// 0 the request ends.
func (p *program) refill(q *queue, n int) {
	q.missing = false
	if n == 0 {
		p.count.BadAddresses++
		p.fail(q, endAddress)
		return
	}
	p.count.Refills++
	for i := range uint64(n) {
		page := q.page0 + i
		if _, ok := q.tlb.find(page); ok {
			continue
		}
		if gone, had := q.tlb.insert(page, q.proc.space.pin(page)); had {
			q.proc.space.unpin(gone)
		}
	}
}
