package lanai

import (
	"context"
	"math/rand/v2"
	"runtime"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Spy is what a wild host has learnt from packets that have come: it makes its own of that.
type Spy struct{ seen []header }

// Learn takes in a packet.
func (y *Spy) Learn(payload []byte) {
	var h header
	if h.parse(payload) {
		y.seen = append(y.seen[max(0, len(y.seen)-32):], h)
	}
}

// Forge returns a packet of any kind, that says to be from a station, with what the cards say on
// their lines and channels, as far as it has been heard.
func (y *Spy) Forge(rng *rand.Rand, from ethertype.MAC) []byte {
	h := header{line: rng.Uint64() >> rng.IntN(64), ch: channels.Header{Epoch: rng.Uint32()}}
	if n := len(y.seen); n > 0 && rng.IntN(4) > 0 {
		h = y.seen[rng.IntN(n)]
		h.line, h.echo = h.line+uint64(rng.IntN(3)), h.line
		if h.reply == channels.NackInit {
			h.ch.Epoch, h.ch.Init = uint32(h.to[0]), false
		}
	}
	if rng.IntN(4) == 0 {
		h.ch.Channel, h.ch.Init = uint8(rng.IntN(64)), rng.IntN(2) == 0
	}
	h.kind, h.flags, h.port = kind(rng.IntN(int(kinds)+1)), uint8(rng.IntN(4)), uint16(rng.IntN(4))
	h.order, h.reply = uint32(rng.IntN(3)), channels.AnswerKind(rng.IntN(12))
	h.ch.Bit = uint8(rng.IntN(2))
	h.ch.Stamp += uint32(rng.IntN(3))
	h.to = [2]uint64{rng.Uint64() >> rng.IntN(64), rng.Uint64N(4) << pageShift}
	h.from = from
	body := make([]byte, rng.IntN(100))
	for i := range body {
		body[i] = byte(rng.Uint32() >> rng.IntN(32))
	}
	if len(body) > 0 {
		body[0] = byte(rng.IntN(8))
	}
	h.size = uint32(len(body))
	b := make([]byte, headerSize)
	h.put(b)
	return append(b, body...)
}

// Forge has a process of the host write a request of its own making into its send queue:
// short or long, of size bytes, from a virtual address, to a proxy address.
func (h *Card) Forge(process uint32, short bool, size int, at uint64, proxy uint32) {
	p := h.of(process)
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	r := request{number: p.next, short: short, size: size, at: at, proxy: proxy}
	p.next = after(p.next)
	r.write(p.page)
}

// Scribble has a process fill its page with a byte, and ring.
func (h *Card) Scribble(process uint32, value byte) {
	p := h.of(process)
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	b := make([]byte, slots*slotSize)
	for i := range b {
		b[i] = value
	}
	_ = p.page.Write(0, b)
	p.page.Ring()
}

func (h *Card) of(number uint32) *process {
	for _, s := range h.procs {
		if p, here := s.listener.(*process); here && p.cfg.Process == number {
			return p
		}
	}
	return nil
}

// Forgery returns a packet that says to be from a station, on a line, with or without a channel
// or an epoch of it.
func Forgery(k int, from ethertype.MAC, line uint64) []byte {
	h := header{kind: kind(1 + k%int(kinds-1)), from: from, line: line, size: 1}
	h.ch = channels.Header{Channel: uint8(k >> 2 % channelCount), Init: k&16 != 0, Epoch: uint32(k), Stamp: 1 << 20}
	if k&32 != 0 {
		h.flags = flagChannel
	}
	h.reply = channels.AnswerKind(k % 9)
	b := make([]byte, headerSize+1)
	h.put(b)
	return b
}

// Forgeries is how many of them differ.
const Forgeries = 64

// LosePlace has a host believe that it has got the next packet of a node's line, as if somebody
// else had sent one in its name.
func (h *Card) LosePlace(from ethertype.MAC) {
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	node, _ := h.prog.nodes.Find(from)
	h.prog.lines[node].expect++
}

// SetRoutes gives the card another table of routes, as a mapper does.
func (h *Card) SetRoutes(routes []myrinet.HostRoute) error {
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	h.page.Ring()
	return h.prog.nodes.Set(routes)
}

// Desk is Card.Serve in two steps: when it returns, programs can come.
func Desk(h *Card, anyUser bool) (serve func(ctx context.Context) error, err error) {
	return h.desk(anyUser)
}

// Wreck writes nonsense to every byte that a program maps of a card that another process has, and rings: of
// its processes' pages, and of the page of bells. Most of the requests are for what a process could ask for.
func (h *Card) Wreck(rng *rand.Rand) {
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	f := h.far
	f.said.Lock()
	defer f.said.Unlock()
	for _, g := range f.guests {
		if g == nil {
			continue
		}
		mem := g.page.Bytes()
		for shared.Load(g.p.queue.words, int((g.p.next-1)%slots)*4)>>3 == g.p.next { // it has ended
			g.p.next = after(g.p.next)
		}
		for i := range mem[:stageAt] {
			mem[i] = byte(rng.Uint32())
		}
		for node := range 4 { // lines that there are
			for _, x := range f.lines {
				if x.node == node {
					shared.Store(mem, linesAt+node*lineWord, uint32(x.line))
				}
			}
		}
		for page := range uint32(outgoingPages) {
			shared.Store(mem, tableAt+int(page)*outgoingEntry, rng.Uint32N(4)<<frameBits|rng.Uint32N(1<<15))
		}
		for slot := range uint32(slots) {
			r := request{number: g.p.next + slot, short: rng.IntN(2) == 0, notify: rng.IntN(2) == 0, size: rng.IntN(1 << rng.IntN(25)),
				proxy: rng.Uint32N(outgoingPages << pageShift), at: rng.Uint64() >> rng.IntN(64)}
			r.data = mem[:min(r.size, shortData)]
			r.share(g.p.queue.mem)
		}
		for range 3 {
			g.calls.Ring(rng.IntN(shared.Bits))
		}
		g.calls.Ring(g.bit)
	}
}

// Babble has a program say to the process that has the card what no program of this package says.
func (h *Card) Babble(rng *rand.Rand) {
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	f := h.far
	f.said.Lock()
	defer f.said.Unlock()
	does := []string{doHello, doJoin, doAlloc, doShut, doEnter, doWord, doLeave, doFree, doGrant, doSay, doFind, doUnfind, doWhose, doUnword, doUnname, "x"}
	n := memo{Do: does[rng.IntN(len(does))], Port: uint16(rng.IntN(8)), Seq: rng.Uint32N(20), Other: uint16(rng.IntN(8)), First: rng.Uint32() >> rng.IntN(32),
		Pages: rng.Uint32() >> rng.IntN(32), At: rng.Uint64() >> rng.IntN(64), Size: int(rng.Uint64() >> rng.IntN(64)), Word: "word", Node: rng.IntN(300)}
	for mac, x := range f.lines {
		n.MAC, n.Line = mac, x.line
	}
	for port, s := range h.procs {
		if rng.IntN(2) == 0 {
			n.Port = port
		}
		if rng.IntN(2) == 0 {
			n.First, n.Pages, n.At, n.Size = s.frames.base+rng.Uint32N(8), 1+rng.Uint32N(3), uint64(rng.IntN(1<<20)), rng.IntN(3*pageSize)
		}
	}
	n.Body = make([]byte, rng.IntN(30))
	for i := range n.Body {
		n.Body[i] = byte(rng.Uint32() >> rng.IntN(32))
	}
	f.line.Send(n)
}

// Sizes and the packet type of this program, for its tests.
const (
	Slots         = slots
	ShortData     = shortData
	LongData      = longData
	OutgoingPages = outgoingPages
	TLBPages      = tlbPages
	RefillPages   = refillPages
	TypePacket    = typePacket
	MostReplies   = mostReplies
)

// Grant has a process of a program say to the process that has the card that another process may write to a
// page of it. It asks nobody.
func (h *Card) Grant(process uint32, to ethertype.Addr) {
	s := h.of(process)
	g := s.guest
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	_, line, _ := h.line(to.MAC)
	g.line.Send(memo{Do: doGrant, Port: s.port, First: s.frames.base, Pages: 1, At: g.at + stageAt, Size: 1, MAC: to.MAC, Other: to.Port, Line: line})
}

// PeerAddr returns the address of the process that a process is connected with.
func (h *Card) PeerAddr(process uint32) ethertype.Addr {
	for at := range h.of(process).conns {
		return at
	}
	return ethertype.Addr{}
}

// Addr returns a process's address.
func (h *Card) Addr(process uint32) ethertype.Addr { return h.of(process).self.Addr }

// Ask has a process of a program say so many questions to a process of another node.
func (h *Card) Ask(process uint32, to ethertype.Addr, many int) {
	s := h.of(process)
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	_, line, _ := h.line(to.MAC)
	for range many {
		s.guest.say(&envelope{port: to.Port}, to.MAC, line, body(sayAsk, 1, 1))
	}
}

// Flood has a process of a program say to another process what nobody asks for, so many times: questions, credits,
// or ends, with so many bytes.
func (h *Card) Flood(process uint32, to ethertype.Addr, many, size int) {
	s := h.of(process)
	kinds := []byte{sayAsk, sayCredit, sayBye}
	for n := range many {
		h.host.Engine.Lock()
		_, line, _ := h.line(to.MAC)
		s.guest.say(&envelope{port: to.Port}, to.MAC, line, append([]byte{kinds[n/16%len(kinds)]}, make([]byte, size)...))
		h.host.Engine.Unlock()
	}
}

// Notify has a process of a program write a byte to what it has imported so many times, with notifications for
// which the exporter has given no room.
func (h *Card) Notify(process uint32, many int) {
	p := h.of(process)
	var x *region
	for _, k := range p.conns {
		x = k.inOrder()[0]
	}
	for range many {
		h.host.Engine.Lock()
		q := request{number: p.next, short: true, notify: true, size: 1, proxy: x.first<<pageShift + uint32(x.offset), data: []byte{0}}
		p.next = after(p.next)
		h.host.Engine.Unlock()
		p.ask(&q)
	}
}

// ask has a process of a program give the card a request that this package does not know of, and waits for its
// end.
func (p *process) ask(q *request) {
	q.share(p.queue.mem)
	p.guest.calls.Ring(p.guest.bit)
	for shared.Load(p.queue.words, int((q.number-1)%slots)*4)>>3 != q.number {
		runtime.Gosched()
	}
}

// Hog has a process of the host ask for what the card refuses so many times, each time within the step of the card
// that has refused the time before. It returns how many of them are left.
func (h *Card) Hog(process uint32, times int) (left func() int) {
	p := h.of(process)
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	x := &hog{listener: p, p: p, left: times}
	p.listener = x
	x.finished(0, 0)
	return func() int { return x.left }
}

type hog struct {
	listener
	p    *process
	left int
}

func (x *hog) finished(uint32, ending) {
	if x.left--; x.left > 0 {
		r := request{number: x.p.next, short: true, size: shortData + 1}
		x.p.next = after(x.p.next)
		r.write(x.p.page)
	}
}

// Reply has the driver reply to a node, once more than may wait.
func (h *Card) Reply(node int) {
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	for range mostReplies + 1 {
		h.refused(node, 1, 1)
	}
	h.page.Ring()
}

// MostWords is how many messages of a user may wait to leave.
const MostWords = mostWords

// Hello begins to use the card at an interface, as a program that has another version of what both share does, and
// returns what the card answers.
func Hello(ctx context.Context, at iface.Interface, other int) (refused string, err error) {
	conn, _, err := share.Dial(ctx, at, share.VMMC, version)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	line := share.NewLine(conn, 0)
	defer line.Finish(0)
	line.Send(memo{Do: doHello, Version: version + other})
	var n memo
	fds, err := line.Receive(&n)
	closeFiles(fds)
	return n.Error, err
}

// CutLines has a node's process speak to a process, and the line to the node be cut, so many times, while the process
// does not look. It returns how many events wait then, and what the process has been told, before and after it looks.
func (h *Card) CutLines(number uint32, node, times int) (events int, told, after bool) {
	p, from := h.of(number), ethertype.Addr{MAC: h.prog.nodes.MAC(node), Port: 9}
	p.Turn()
	h.host.Engine.Lock()
	for range times {
		h.lineCut(node)
		p.hearMessage(event{kind: eventMessage, from: from, id: provider.Identity{Addr: from, Incarnation: 7}, body: []byte{sayAsk}})
	}
	h.lineCut(node)
	events, told = len(p.inbox), p.told.Has(from)
	h.host.Engine.Unlock()
	p.Turn()
	return events, told, p.told.Has(from)
}

// Kill breaks the connection of a program with the process that serves its card, as kill -9 of the program does.
func Kill(h *Card) { passfd.HangUp(h.far.conn) }
