package lanai

import (
	"slices"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// queue is a process as the card has it: its send queue and tables.
type queue struct {
	proc   *seat
	open   bool
	page   *hardware.Page
	mem    []byte // the send queue
	blocks [2]hardware.Block
	table  outgoing
	tlb    tlb
	lines  []byte // of a process elsewhere: the numbers of lines that it knows; nil for others
	words  []byte // in the host's memory: what the card tells of each slot
	copied [slotSize]byte

	next    uint32 // number of the request that comes next
	req     request
	has     bool   // req is under way
	sent    int    // bytes of it that are
	node    int    // where it goes
	number  uint64 // of that line, when it was picked
	under   [slots]under
	missing bool   // the driver has been asked for a translation
	page0   uint64 // the page that it was asked for
}

// under is a request that has not ended, and what has not gone well of it.
type under struct {
	number uint32
	how    ending
}

// drop forgets a process. What has begun to leave leaves.
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

// scan looks at the send queues in turn, and does the next step of a request.
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
	copy(q.copied[:], q.mem[slotOf(q.next):]) // which the process may change meanwhile
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

// check says whether the card takes a request.
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
		return endLost // the process has not heard yet that the line has ended
	}
	return endDone
}

// fail ends a request that the card refuses.
func (p *program) fail(q *queue, how ending) {
	q.has = false
	p.tell(q, q.req.number, how)
}

// step sends the next chunk of a request. It reports false if it has to wait: also for a route,
// which comes, or the line ends. If the request failed, and the connection went on, what it was to
// write would be missing among what was written before and behind it.
func (p *program) step(q *queue) bool {
	if !q.has { // it has failed when it was picked
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

// short copies the data of a request into a packet.
func (p *program) short(q *queue) bool {
	b := p.take(q.node, true)
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

// chunk has the data of the next chunk come by DMA: to the end of its page.
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
	b := p.take(q.node, true)
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
	p.c.Work(p.h.costs.Chunk) // the header, while the data comes
	p.dispatch(q, b)
	return true
}

// address finds where n bytes of a request go, and makes the packet's header. It reports
// false if they go nowhere: then the request has ended.
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

// dispatch puts a packet on its way, behind those before it, and ends the request with it
// if it is the last.
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

// onLoaded is the end of a transfer from the host.
func (p *program) onLoaded() { copy(p.load.mem[dataAt:], p.from) }

// finishLoad has a packet that is complete go on.
func (p *program) finishLoad() {
	b := p.load
	p.load, p.from = nil, nil
	if b.state = ready; b.dead {
		p.give(b)
		return
	}
	p.safe(b)
}

// safe ends a request whose last data is in SRAM, where nothing is sent again.
func (p *program) safe(b *buffer) {
	if !b.bound() {
		p.end(b, endDone)
	}
}

// refill adds translations for the queue of a process, of n pages from the one that was
// missing on; 0 for none, which ends the request.
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
