package lanai

import (
	"context"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/gate"
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/progress"
)

// way implements provider.Provider for one program: its endpoints on the card, and its connections
// to others.
//
// The engine's lock guards what the driver also uses: news, items, names, and everything about
// entries. The node's lock, which is acquired first, guards the rest.
type way struct {
	card   *Card
	up     provider.Host
	memory *provider.Budget
	seat   *seat
	silent time.Duration
	full   error // why the card has refused an endpoint

	ends       map[uint32]*end
	conns      map[uint32]*channel
	lastConn   uint32
	lastWindow uint32
	spare      []*received

	gate   progress.Gate
	asking progress.Gate // for look-ups of names
	woken  bool
	closed bool
	news   fifo.Queue[*end]
	items  []item
	taken  []item // that are being delivered
	strays int
	looked map[string]ethertype.Addr // names being looked up, and their addresses
	peers  map[peerKey]*peerState

	tookNow int // received control messages that are handled and not yet reported to the card
}

// item is a message or an event to deliver to the node.
type item struct {
	what     itemKind
	ch       *channel
	i        int
	reason   wire.Reason
	x        *received
	from     peerName
	conn     uint32
	peerConn uint32
	life     uint32
	data     []byte
	heard    int // number of received control messages that are handled with this item
}

type itemKind uint8

const (
	itemMessage itemKind = iota
	itemBack
	itemSent
	itemWrote
	itemPlaced
	itemBroken
	itemOpen
	itemAccepted
	itemRefused
	itemGone
	itemLost // all connections with the program from are lost
	itemAlive
)

// received is a message that a half holds.
type received struct {
	provider.Packet
	ch  *channel
	at  int // entry in whose staging area it is, or -1
	mem []byte
}

// peerState is the state of a remote program.
type peerState struct {
	life  uint32 // 0 before it has accepted or requested a connection
	conns int    // number of this program's connections with it, or requests
	next  int64  // when to ask about connections
	asked bool   // an inquiry is in progress
}

func init() {
	provider.OnCard = func(card any, up provider.Host, memory *provider.Budget, silent time.Duration) (provider.Provider, error) {
		w, err := card.(*Card).program(up, memory, silent)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
}

// program connects a program with node up to the card. Connections requested by others use memory
// of the budget.
func (c *Card) program(up provider.Host, memory *provider.Budget, silent time.Duration) (*way, error) {
	var joined note
	if far := c.driver.far; far != nil {
		var err error
		if joined, err = far.request(note{Do: doJoin}); err != nil {
			return nil, fmt.Errorf("%w: open: %w", refusal(err), err)
		}
	}
	c.lock()
	defer c.unlock()
	if c.closed {
		return nil, provider.OpError("open", provider.ErrClosed, "the card is closed")
	}
	if err := c.failure(); err != nil {
		return nil, fmt.Errorf("%w: open: %w", provider.ErrClosed, err)
	}
	if silent == 0 {
		silent = defaultPeerTimeout
	}
	p := &way{card: c, up: up, memory: memory, silent: silent,
		ends: map[uint32]*end{}, conns: map[uint32]*channel{}, looked: map[string]ethertype.Addr{}, peers: map[peerKey]*peerState{}}
	if c.driver.far != nil {
		p.seat = &seat{port: joined.Port, life: joined.Life, names: map[string]struct{}{}, listener: p}
		c.driver.programs[p.seat.port] = p.seat
	} else {
		p.seat = c.sit(p)
	}
	p.lastConn, p.lastWindow = c.random(), c.random()
	return p, nil
}

// defaultPeerTimeout is how long a silent program is assumed to be alive by default, without the
// time in which channels detect a silent card.
const defaultPeerTimeout = 10 * time.Second

// lock acquires the lock of the card's engine.
func (c *Card) lock() { c.host.Engine.Lock() }

// unlock makes the card do the work that the host has queued, and releases the lock.
func (c *Card) unlock() {
	c.host.Drive()
	c.host.Engine.Unlock()
}

// Addr implements provider.Provider.
func (p *way) Addr() ethertype.Addr { return ethertype.Addr{MAC: p.card.cfg.MAC, Port: p.seat.port} }

// Now implements provider.Provider.
func (p *way) Now() int64 { return p.card.Now() }

// Virtual implements provider.Provider.
func (p *way) Virtual() bool { return p.card.host.Engine.Virtual() }

// Card returns the card that the program is on.
func (p *way) Card() *Card { return p.card }

// Opened implements provider.Provider. If the card has its maximum number of endpoints, messages of
// further ones are returned for congestion.
func (p *way) Opened(id uint32) {
	x, ok := (*end)(nil), false
	if far := p.card.driver.far; far != nil {
		x, ok = far.createEndpoint(p, id)
	}
	p.card.lock()
	defer p.card.unlock()
	if p.card.driver.far == nil {
		x, ok = p.card.driver.createEndpoint(p.seat.port, id, p)
	}
	if ok {
		x.setTag(wire.TagAll)
		p.ends[id] = x
	}
}

// Tagged implements provider.Provider.
func (p *way) Tagged(id uint32, tag wire.Tag) {
	p.card.lock()
	defer p.card.unlock()
	if x := p.ends[id]; x != nil {
		x.setTag(tag)
		p.card.driver.showTag(x)
	}
}

// Ended implements provider.Provider.
func (p *way) Ended(id uint32) {
	p.card.lock()
	defer p.card.unlock()
	if x := p.ends[id]; x != nil {
		delete(p.ends, id)
		p.card.driver.forget(x)
	}
}

// Dial implements provider.Dialer.
func (p *way) Dial(to wire.Name, greeting wire.Hello, up provider.Half) (provider.Channel, error) {
	x := p.ends[greeting.From.ID]
	if x == nil && p.full != nil {
		return nil, provider.OpError("connect", provider.ErrResource, "the card has no room for the endpoint: %v", p.full)
	}
	if x == nil {
		return nil, provider.OpError("connect", provider.ErrResource, "the card has no room for the endpoint: it has %d (Config.Endpoints)", p.card.cfg.Endpoints)
	}
	p.card.lock()
	defer p.card.unlock()
	if p.closed {
		return nil, provider.OpError("connect", provider.ErrClosed, "the node is closed")
	}
	ch := p.channel(greeting.Shape, wire.Asking, up, x)
	ch.peer = peerName{mac: to.Addr.MAC, port: to.Addr.Port}
	p.meets(ch, 0)
	p.card.driver.say(sayOpen, ch.peer, p.seat, ch.conn, greeting.Append(nil)...)
	return ch, nil
}

// push queues an item for delivery. The caller must hold the engine's lock.
func (p *way) push(x item) {
	p.items = append(p.items, x)
	p.wakeUp()
}

func (p *way) wakeUp() { p.gate.Open(&p.card.host.Engine) }

// told implements listener: it queues an endpoint that has news, and wakes the program.
func (p *way) told(e *end) {
	p.news.Push(e)
	p.wakeUp()
}

// Poll implements provider.Provider.
func (p *way) Poll() error {
	p.card.lock()
	p.card.host.Engine.Poll()
	err := p.failed()
	p.drain()
	p.card.unlock()
	p.handOn(false)
	return err
}

// failed returns why nothing can arrive any more, or nil.
func (p *way) failed() error {
	if err := p.card.failure(); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrClosed, err)
	}
	return nil
}

// CatchUp implements provider.Provider. No work is deferred.
func (p *way) CatchUp() {}

// Wait implements provider.Provider.
func (p *way) Wait(ctx context.Context) error {
	e := &p.card.host.Engine
	p.card.lock()
	defer p.card.unlock()
	w := e.Begin(ctx)
	defer e.End(&w)
	for !p.woken && p.news.Len() == 0 && len(p.items) == 0 {
		if err := e.Wait(&w, &p.gate); err != nil {
			return gate.EndOf(err)
		}
	}
	p.woken = false
	return nil
}

// Gate implements provider.Provider.
func (p *way) Gate() provider.Gate { return gate.New(&p.card.host.Engine) }

// Deliver implements provider.Provider.
func (p *way) Deliver(atOnce bool) bool {
	p.card.lock()
	p.drain()
	p.card.unlock()
	return p.handOn(atOnce)
}

// drain reads the endpoints with news. The caller must hold the engine's lock.
func (p *way) drain() {
	d := &p.card.driver
	for p.news.Len() > 0 {
		x := p.news.Pop()
		x.news = false
		if x.gone || !x.reachable() {
			continue // the card reports when it is
		}
		d.read(x, func(i int, h *entry, body []byte) bool { return p.arrived(x, i, h, body) }, p.came)
		if x.ending > 0 {
			p.endAll(x)
		}
		x.want(x.post.asked())
		d.showTag(x)
		d.flush(x)
		d.show(x)
		p.resume(x)
	}
}

// look reads an endpoint, with or without news. The caller must hold the engine's lock.
func (p *way) look(x *end) {
	if !x.news && x.reachable() {
		x.news = true
		p.news.Push(x)
	}
	p.drain()
}

// arrived handles a message, and reports whether it keeps its entry.
func (p *way) arrived(x *end, i int, h *entry, body []byte) (keeps bool) {
	conn := word(body, 0)
	ch := p.conns[conn]
	switch {
	case ch == nil:
		p.card.driver.say(sayGone, peerName{mac: h.station, port: h.port}, p.seat, conn, pair(0, 0)...)
		return false
	case ch.peer.mac != h.station || ch.peer.port != h.port || ch.e != x:
		p.card.prog.stats.Forged++
		return false
	case ch.over:
		return false
	}
	if h.op == opFragment {
		ch.fragment(body)
		return false
	}
	r := p.receive(ch)
	body = body[connSize:]
	q := i / receiveEntries
	keeps = h.flags&flagStaged != 0 && x.post.keeps[q] < receiveEntries/2
	if !keeps {
		r.mem = append(r.mem[:0], body...)
		body = r.mem
	}
	var ok bool
	if r.Body, ok = r.Head.Parse(body, nil); !ok || r.Head.Kind.Own() {
		p.strays++
		p.recycle(r)
		return false
	}
	if keeps {
		r.at, x.post.kept[i] = i, r
		x.post.keeps[q]++
	}
	p.push(item{what: itemMessage, ch: ch, x: r})
	return keeps
}

// receive returns a packet in which to deliver a message.
func (p *way) receive(ch *channel) (r *received) {
	if n := len(p.spare); n > 0 {
		r, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		r = &received{}
	}
	mem := r.mem
	*r = received{ch: ch, at: -1, mem: mem}
	r.Home = r
	return r
}

// recycle takes back such a packet.
func (p *way) recycle(r *received) {
	r.Home, r.ch, r.Body = nil, nil, nil
	p.spare = append(p.spare, r)
}

// came handles the outcome of a message.
func (p *way) came(r *ref, why wire.Reason) {
	ch := r.ch
	switch {
	case r.what == refMessage:
		ch.sends[r.i].busy = false
		if why != 0 {
			p.push(item{what: itemBack, ch: ch, i: r.i, reason: why})
		} else if ch.asked {
			ch.asked = false
			p.push(item{what: itemSent, ch: ch})
		}
	case why != 0:
		ch.breaks(wire.ReasonUnreachable)
	default:
		w := &ch.writes[r.i]
		if w.left--; w.left == 0 && w.off == len(w.data) {
			w.busy, w.data = false, nil
			p.push(item{what: itemWrote, ch: ch, i: r.i})
		}
	}
}

// handOn delivers the queued items. A message that is the only item may be handled at once.
func (p *way) handOn(atOnce bool) (handled bool) {
	took := 0
	for {
		p.card.lock()
		if took > 0 {
			p.took(took)
			took = 0
		}
		list, strays := p.items, p.strays
		p.items, p.strays, p.taken = p.taken[:0], 0, nil
		p.card.unlock()
		for range strays {
			p.up.Stray()
		}
		if len(list) == 0 {
			p.taken = list
			return false
		}
		if x := list[0]; atOnce && len(list) == 1 && x.what == itemMessage && x.heard == 0 && !x.ch.over {
			p.taken = list[:0]
			if x.ch.up.HandleNow(&x.x.Packet) { // from here on another goroutine may be in Wait
				return true
			}
			x.ch.up.Received(&x.x.Packet)
			return false
		}
		for i := range list {
			p.hand(&list[i])
			took += list[i].heard
			list[i] = item{}
		}
		p.taken = list[:0]
	}
}

// hand delivers an item.
func (p *way) hand(x *item) {
	ch := x.ch
	if ch != nil && ch.closed {
		if x.what == itemMessage && x.x.at < 0 {
			p.recycle(x.x)
		}
		return
	}
	switch x.what {
	case itemMessage:
		ch.up.Received(&x.x.Packet)
	case itemBack:
		if !ch.over {
			ch.up.Undelivered(x.i, x.reason)
		}
	case itemSent:
		ch.up.Sent()
	case itemWrote:
		ch.up.Wrote(x.i)
	case itemPlaced:
		ch.up.Placed(x.i)
	case itemBroken:
		p.broken(ch, x.reason)
	default:
		p.connection(x)
	}
}

// broken notifies a half, once, that its connection is broken.
func (p *way) broken(ch *channel, reason wire.Reason) {
	p.card.lock()
	ch.stop()
	told := ch.told
	ch.told = true
	p.card.unlock()
	if !told {
		ch.up.Broken(reason, nil)
	}
}

// Flush implements provider.Provider. No messages are corked.
func (p *way) Flush(wire.Side) {}

// Wake implements provider.Provider.
func (p *way) Wake() {
	p.card.lock()
	defer p.card.unlock()
	p.woken = true
	p.wakeUp()
}

// drainTime is the maximum time for which Drain waits.
const drainTime = time.Second

// Drain implements provider.Provider.
func (p *way) Drain(owes func() bool) {
	ctx, cancel := p.card.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for (p.flying() || owes()) && p.Wait(ctx) == nil {
		p.Deliver(false)
	}
}

// flying reports whether a sent message is not known to have arrived, and makes the card report
// when all are.
func (p *way) flying() (some bool) {
	p.card.lock()
	defer p.card.unlock()
	for _, x := range p.ends {
		p.look(x)
	}
	for _, x := range p.ends {
		post := &x.post
		busy := post.waiting[requests].Len()+post.waiting[replies].Len() > 0
		for i := range post.refs {
			busy = busy || post.refs[i].what != refNone
		}
		if busy {
			some = true
			x.want(true)
		}
	}
	for _, ch := range p.conns {
		some = some || len(ch.early) > 0
	}
	return some || p.seat.saying > 0
}

// Close implements provider.Provider. The card stays open.
func (p *way) Close() error {
	p.card.lock()
	defer p.card.unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	d := &p.card.driver
	for id, x := range p.ends {
		delete(p.ends, id)
		d.forget(x)
	}
	delete(d.programs, p.seat.port)
	if d.far != nil {
		d.far.line.Send(note{Do: doLeave, Port: p.seat.port})
	}
	p.wakeUp()
	return nil
}
