package lanai

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	linkdriver "github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"golang.org/x/sys/unix"
)

// far is the connection with the process that owns the card (Card.Serve). It is the link on which
// the engine of this process waits.
type far struct {
	h     *Card
	conn  *net.UnixConn
	line  *share.Line
	calls *shared.Bell // rung by this process
	news  *shared.Bell // rung by the card
	info  transport.Info

	asking  sync.Mutex // held while a request waits for its answer
	answers chan memo  // of capacity 1; closed when the connection has ended
	closed  atomic.Bool
	places  chan struct{} // a token for each open question

	said    sync.Mutex // guards unheard and lines
	unheard []memo
	lines   map[ethertype.MAC]farLine // what depended on earlier lines may not have ended yet
	stirred chan struct{}             // of capacity 1: unheard is not empty

	// Guarded by the engine's lock.
	guests [shared.Bits]*farProcess // by bit
	seq    uint32
	open   map[uint32]chan memo // open questions
}

// farLine is a node and the line to it, as reported by the card.
type farLine struct {
	node int
	line uint64
}

// farProcess holds the resources of a process on the card of another process.
type farProcess struct {
	*far
	p       *process
	bit     int
	page    *shared.Memory
	at      uint64        // virtual address of the page
	numbers [slots]uint32 // of the requests in the slots, 0 for none
	areas   map[*shared.Memory]uint64
	taken   int // handled messages and notifications that were not yet reported to the card
}

// errEnded means that the process that owned the card has ended.
var errEnded = fmt.Errorf("%w: the process that serves the card has ended (start it again with bobnet card, then reopen the card)", transport.ErrGone)

// patience limits how long a running process takes to answer.
const patience = 10 * time.Second

// attach opens the card that another process serves at an interface. Its errors are those of share.Dial.
func attach(ctx context.Context, cfg *Config) (*Card, error) {
	at, err := iface.Find(cfg.Interface)
	if err != nil {
		return nil, err
	}
	conn, _, err := share.Dial(ctx, at, share.VMMC, version)
	if errors.Is(err, share.ErrFull) {
		return nil, fmt.Errorf("%w: lanai: open: %w", provider.ErrNoRoom, err)
	}
	if err != nil {
		return nil, err
	}
	who, err := passfd.PeerOf(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	h := &Card{cfg: Config{Interface: at.Name, Logger: cfg.Logger}, procs: map[uint16]*seat{}}
	f := &far{h: h, conn: conn, info: transport.Info{Driver: "myrinet", Interface: at.Name}, line: share.NewLine(conn, who.Uid), answers: make(chan memo, 1), places: make(chan struct{}, mostFinds), stirred: make(chan struct{}, 1),
		lines: map[ethertype.MAC]farLine{}, open: map[uint32]chan memo{}}
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	late := time.AfterFunc(patience, func() { passfd.HangUp(conn) })
	err = f.hello()
	late.Stop()
	if !stop() {
		err = fmt.Errorf("lanai: the card at interface %s: %w", at.Name, ctx.Err())
	}
	if err != nil {
		f.line.Finish(0)
		conn.Close()
		return nil, err
	}
	f.info.MAC = h.cfg.MAC
	h.far = f
	h.host.Use(f, f)
	h.kicks.Init(&h.host.Engine, func(p **process) { (*p).kick() })
	go f.listen()
	go f.takeIn()
	h.host.Engine.Start()
	return h, nil
}

// hello receives the page with the bells.
func (f *far) hello() error {
	var n memo
	f.line.Send(memo{Do: doHello, Version: version})
	fds, err := f.line.Receive(&n)
	if err != nil {
		return fmt.Errorf("lanai: the process that serves the card does not answer: %w", err)
	}
	defer closeFiles(fds)
	if n.Error != "" {
		return fmt.Errorf("lanai: the card at interface %s: %s", f.info.Interface, n.Error)
	}
	if n.Do != doHello || len(fds) != 1 {
		return fmt.Errorf("lanai: unexpected answer %q with %d files from the card: %w", n.Do, len(fds), unix.EPROTO)
	}
	m, err := shared.Map(fds[0], bellsSize)
	if err != nil {
		return err
	}
	f.h.cfg.MAC, f.h.cfg.Drop = n.MAC, n.Drop
	f.calls, f.news = shared.NewBell(m, callsAt), shared.NewBell(m, newsAt)
	return nil
}

func closeFiles(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// request sends a request to the card, and returns its answer. The caller must not hold the
// engine's lock.
func (f *far) request(n memo) (answer memo, err error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	late := time.AfterFunc(patience, func() { passfd.HangUp(f.conn) })
	defer late.Stop()
	f.line.Send(n)
	answer, ok := <-f.answers
	switch {
	case !ok:
		return answer, fmt.Errorf("%w: %w", provider.ErrClosed, errEnded)
	case answer.Error != "":
		closeFiles(answer.fds)
		if err = errors.New(answer.Error); answer.Full {
			err = fmt.Errorf("%w: the card: %w", provider.ErrNoRoom, err)
		}
		return answer, err
	}
	return answer, nil
}

// memory sends a request whose answer carries memory.
func (f *far) memory(n memo, size int) (answer memo, m *shared.Memory, err error) {
	if answer, err = f.request(n); err != nil {
		return answer, nil, err
	}
	defer closeFiles(answer.fds)
	if len(answer.fds) != 1 {
		return answer, nil, fmt.Errorf("lanai: the card answers %q with %d files: %w", n.Do, len(answer.fds), unix.EPROTO)
	}
	m, err = shared.Map(answer.fds[0], size)
	return answer, m, err
}

// join gives a process a seat on the card.
func (f *far) join(p *process) error {
	a, page, err := f.memory(memo{Do: doJoin, Process: p.cfg.Process}, pageEnd)
	switch {
	case err != nil:
		return fmt.Errorf("lanai: process %d: %w", p.cfg.Process, err)
	case a.Bit < 0 || a.Bit >= shared.Bits || a.Port == 0 || a.Pages == 0 || uint64(a.First)+uint64(a.Pages) > maxMemory:
		return fmt.Errorf("lanai: process %d: invalid answer from the card: %w", p.cfg.Process, unix.EPROTO)
	}
	own := newFrames(a.First, int(a.Pages))
	s := &p.seat
	s.port, s.space, s.frames = a.Port, newSpace(), &own
	s.self.Addr, s.self.Incarnation = ethertype.Addr{MAC: f.h.cfg.MAC, Port: a.Port}, a.Incarnation
	s.queue = queue{proc: s, open: true}
	s.queue.share(page.Bytes())
	s.queue.table.used = make([]bool, outgoingPages)
	g := &farProcess{far: f, p: p, bit: a.Bit, page: page, at: a.At, areas: map[*shared.Memory]uint64{}}
	p.guest = g
	f.h.host.Engine.Lock()
	defer f.h.host.Engine.Unlock()
	f.guests[g.bit], f.h.procs[s.port] = g, s
	f.said.Lock()
	defer f.said.Unlock()
	for _, x := range f.lines {
		g.began(x.node, x.line)
	}
	return nil
}

// to returns the card's report on a node.
func (f *far) to(mac ethertype.MAC) (node int, line uint64, ok bool) {
	f.said.Lock()
	defer f.said.Unlock()
	x, ok := f.lines[mac]
	return x.node, x.line, ok
}

// leave frees the seat of a process. Its memory stays mapped until the program frees it.
func (f *far) leave(s *seat) {
	for bit, g := range f.guests {
		if g != nil && &g.p.seat == s {
			f.guests[bit] = nil
			f.line.Send(memo{Do: doLeave, Port: s.port})
		}
	}
}

// began reports to the card the newest line to a node for which the process has ended everything
// that depended on earlier lines.
func (g *farProcess) began(node int, line uint64) {
	if node >= 0 && node < maxNodes {
		shared.Store(g.p.queue.lines, node*lineWord, uint32(line))
	}
}

// put puts a request into its slot. It copies the data of a long request if the card cannot read it
// in place.
func (g *farProcess) put(q *request, x *part) {
	slot := int((q.number - 1) % slots)
	if !x.short {
		at, reached := g.p.space.reaches(x.data)
		if !reached {
			to := stageAt + slot*stageSize + int((x.s.x.base()+x.at)%wordSize)
			copy(g.page.Bytes()[to:], x.data)
			at = g.at + uint64(to)
		}
		q.at = at
	}
	g.numbers[slot] = q.number
	q.share(g.p.queue.mem)
	g.calls.Ring(g.bit)
}

// look handles the requests that have ended. The caller must hold the engine's lock.
func (g *farProcess) look() {
	for i, number := range g.numbers {
		if word := shared.Load(g.p.queue.words, i*4); number != 0 && word>>3 == number {
			g.numbers[i] = 0
			g.p.finished(number, ending(word&7))
		}
	}
	g.p.touched()
}

// grant makes the card let a process write to memory. The caller must hold the engine's lock.
func (g *farProcess) grant(k *conn, r run, mem []byte) {
	at, _ := g.p.space.reaches(mem)
	if len(mem) == 0 {
		at = 0
	}
	g.line.Send(memo{Do: doGrant, Port: g.p.port, First: r.first, Pages: r.n, At: at, Size: len(mem), MAC: k.at.MAC, Other: k.at.Port, Line: k.line})
}

// shut revokes frames. After it returns, the card no longer writes to them, even if the connection to
// the card has ended.
func (g *farProcess) shut(r run) {
	_, _ = g.request(memo{Do: doShut, Port: g.p.port, First: r.first, Pages: r.n})
}

// tookAtOnce is the number of handled messages and notifications that a process reports to the card in one memo.
const tookAtOnce = 8

// took counts n messages and notifications that the process has handled, and reports them to the card when
// they are tookAtOnce or more. The caller must hold the engine's lock.
func (g *farProcess) took(n int) {
	if g.taken += n; g.taken >= tookAtOnce {
		g.line.Send(memo{Do: doTook, Port: g.p.port, Size: g.taken})
		g.taken = 0
	}
}

// say sends a message to another process.
func (g *farProcess) say(to *envelope, mac ethertype.MAC, line uint64, body []byte) {
	g.line.Send(memo{Do: doSay, Port: g.p.port, MAC: mac, Other: to.port, Incarnation: to.incarnation, Line: line, Body: body})
}

// held keeps the memory of programs mapped until they free it, even after the end of their
// processes.
var held struct {
	sync.Mutex
	memory map[uint64]*shared.Memory // by its address
}

// alloc returns memory that the card can access.
func (g *farProcess) alloc(n int) ([]byte, error) {
	if n <= 0 || n > 1<<40 {
		return nil, fmt.Errorf("%w: %d bytes", provider.ErrMemory, n)
	}
	a, m, err := g.memory(memo{Do: doAlloc, Port: g.p.port, Size: n}, n)
	if err != nil {
		return nil, err
	}
	g.h.host.Engine.Lock()
	g.areas[m] = a.At
	g.p.space.enter(a.At, m.Bytes())
	g.h.host.Engine.Unlock()
	held.Lock()
	if held.memory == nil {
		held.memory = map[uint64]*shared.Memory{}
	}
	held.memory[vipl.VirtualAddress(m.Bytes())] = m
	held.Unlock()
	return m.Bytes()[:n:n], nil
}

// free frees memory.
func (g *farProcess) free(mem []byte) {
	at := vipl.VirtualAddress(mem)
	held.Lock()
	m := held.memory[at]
	delete(held.memory, at)
	held.Unlock()
	if m == nil {
		return
	}
	g.h.host.Engine.Lock()
	defer g.h.host.Engine.Unlock()
	if at, had := g.areas[m]; had {
		delete(g.areas, m)
		g.p.space.leave(at, m.Bytes())
		g.line.Send(memo{Do: doFree, Port: g.p.port, At: at})
	}
}

// listen receives the card's messages until the connection ends. It takes no lock, because a
// goroutine that holds one may wait for an answer.
func (f *far) listen() {
	for {
		var n memo
		fds, err := f.line.Receive(&n)
		if err != nil {
			break
		}
		switch n.Do {
		case doHello, doJoin, doAlloc, doShut, doEnter, doWord, doUnname:
			n.fds = fds
			select {
			case f.answers <- n:
			default: // not an answer to a request
				closeFiles(fds)
			}
		default:
			closeFiles(fds)
			if n.Do == doLine {
				f.said.Lock()
				f.lines[n.MAC] = farLine{n.Node, n.Line}
				f.said.Unlock()
			}
			f.pass(n)
		}
	}
	close(f.answers)
	f.pass(memo{Do: doEnd})
}

// pass queues a message for takeIn.
func (f *far) pass(n memo) {
	f.said.Lock()
	f.unheard = append(f.unheard, n)
	f.said.Unlock()
	select {
	case f.stirred <- struct{}{}:
	default:
	}
}

// takeIn handles the messages that listen has queued, until the connection ends.
func (f *far) takeIn() {
	h := f.h
	for range f.stirred {
		f.said.Lock()
		all := f.unheard
		f.unheard = nil
		f.said.Unlock()
		for i := range all {
			h.host.Engine.Lock()
			if all[i].Do == doEnd {
				f.end()
				h.host.Engine.Unlock()
				return
			}
			f.hear(&all[i])
			h.host.Engine.Unlock()
		}
	}
}

// end ends all waits, because the connection has ended. The caller must hold the engine's lock.
func (f *far) end() {
	f.h.host.Fail(errEnded)
	for seq, answer := range f.open {
		delete(f.open, seq)
		close(answer)
	}
}

// hear handles an unsolicited message from the card. The caller must hold the engine's lock.
func (f *far) hear(n *memo) {
	h := f.h
	switch n.Do {
	case doLine:
		f.line.Send(memo{Do: doTook, Size: 1})
		for _, s := range h.inOrder() {
			s.tell(event{kind: eventCut, from: ethertype.Addr{MAC: n.MAC}, node: n.Node, line: n.Line})
		}
		h.keepFrames(func(k *kept) bool { return k.peer.MAC != n.MAC })
		return
	case doFound, doTheirs:
		if answer := f.open[n.Seq]; answer != nil {
			delete(f.open, n.Seq)
			answer <- *n
		}
		return
	}
	s := h.procs[n.Port]
	if s == nil {
		return
	}
	from := provider.Identity{Addr: ethertype.Addr{MAC: n.MAC, Port: n.Other}, Process: n.Process, Incarnation: n.Incarnation}
	switch n.Do {
	case doHeard:
		if len(n.Body) > 0 && n.Body[0] == sayBye {
			h.disconnected(&envelope{port: n.Port, from: from})
		}
		s.tell(event{kind: eventMessage, from: from.Addr, id: from, body: n.Body})
	case doNote:
		s.tell(event{kind: eventNote, frame: n.First})
	case doRefused:
		s.tell(event{kind: eventRefused, from: from.Addr, frame: n.First})
	}
}

// question sends a request whose response may take a long time, and waits for it. It returns an error
// if ctx or the connection ends before the response arrives.
func (f *far) question(ctx context.Context, n memo) (answer memo, err error) {
	select {
	case f.places <- struct{}{}:
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	defer func() { <-f.places }()
	e := &f.h.host.Engine
	comes := make(chan memo, 1)
	e.Lock()
	if err = f.h.failure(); err != nil {
		e.Unlock()
		return answer, err
	}
	f.seq++
	n.Seq = f.seq
	f.open[n.Seq] = comes
	f.line.Send(n)
	e.Unlock()
	select {
	case answer, ok := <-comes:
		if !ok {
			return answer, fmt.Errorf("%w: %w", provider.ErrClosed, errEnded)
		}
		return answer, nil
	case <-ctx.Done():
	}
	f.line.Send(memo{Do: doUnfind, Port: n.Port, Seq: n.Seq})
	<-comes // before another question takes its place
	return answer, ctx.Err()
}

// Poll implements station.Remote: it handles the bells of its processes.
func (f *far) Poll(int64) (arrived bool) {
	for i := range shared.Words {
		for set := f.news.Take(i); set != 0; set &= set - 1 {
			if g := f.guests[32*i+bits.TrailingZeros32(set)]; g != nil {
				arrived = true
				g.look()
			}
		}
	}
	return arrived
}

// NextTimer implements station.Remote.
func (f *far) NextTimer() int64 { return transport.Forever }

// Ready implements transport.Link.
func (f *far) Ready() bool { return f.news.Ready() }

// Wait implements transport.Link.
func (f *far) Wait(until int64) error {
	if !f.closed.Load() {
		d := time.Hour
		if until != transport.Forever {
			d = time.Duration(until - f.Now())
		}
		f.news.Sleep(d)
	}
	if f.closed.Load() {
		return transport.ErrClosed
	}
	return nil
}

// Wake implements transport.Link.
func (f *far) Wake() { f.news.Wake() }

// Now implements transport.Link.
func (f *far) Now() int64 { return linkdriver.Now() }

// Info implements transport.Link.
func (f *far) Info() transport.Info { return f.info }

// Stats implements transport.Link.
func (f *far) Stats() transport.Stats { return transport.Stats{} }

// Send implements transport.Link. It carries no frames.
func (f *far) Send([]transport.Frame) (int, error) { return 0, transport.ErrClosed }

// Recv implements transport.Link.
func (f *far) Recv([][]byte) (int, error) { return 0, transport.ErrClosed }

// Close implements transport.Link.
func (f *far) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	f.news.Wake()
	f.line.Finish(closeTime)
	return f.conn.Close()
}

// farDirectory is the directory of a process on a card of another process.
type farDirectory struct {
	*far
	scope string
	self  provider.Identity
}

var _ directory.Directory = (*farDirectory)(nil)

// Enter implements directory.Directory, like the methods below.
func (d *farDirectory) Enter(self provider.Identity) error {
	d.self = self
	_, err := d.request(memo{Do: doEnter, Port: self.Addr.Port, Scope: d.scope})
	if err != nil && !errors.Is(err, provider.ErrClosed) {
		err = fmt.Errorf("%w: process %d of node %v: %w", directory.ErrTaken, self.Process, self.Addr.MAC, err)
	}
	return err
}

// Export advertises a word.
func (d *farDirectory) Export(_ uint32, word string) error {
	if word == "" {
		return nil
	}
	_, err := d.request(memo{Do: doWord, Port: d.self.Addr.Port, Scope: d.scope, Word: word})
	return err
}

// Unexport withdraws a word.
func (d *farDirectory) Unexport(_ uint32, word string) {
	if word != "" {
		d.line.Send(memo{Do: doUnword, Port: d.self.Addr.Port, Scope: d.scope, Word: word})
	}
}

// Match makes the card look up a name on all nodes.
func (d *farDirectory) Match(ctx context.Context, name directory.Name) (directory.Found, error) {
	a, err := d.question(ctx, memo{Do: doFind, Port: d.self.Addr.Port, Scope: d.scope, Name: name})
	if err == nil && a.Error != "" {
		err = fmt.Errorf("%w: %s", provider.ErrClosed, a.Error)
	}
	return directory.Found{Addr: ethertype.Addr{MAC: a.MAC, Port: a.Other}}, err
}

// Prove requests the user of a process from the card.
func (d *farDirectory) Prove(_ provider.Ticket, from provider.Identity, answer func(uid uint32, proven bool)) {
	go func() {
		a, err := d.question(context.Background(), memo{Do: doWhose, Port: d.self.Addr.Port, MAC: from.Addr.MAC, Other: from.Addr.Port, Incarnation: from.Incarnation})
		answer(a.UID, err == nil && a.Proven)
	}()
}

// Spent does nothing.
func (d *farDirectory) Spent(provider.Ticket) {}

// Met does nothing: the card's driver notifies the process's peers when the process ends.
func (d *farDirectory) Met(ethertype.MAC) {}

// OnDeath does nothing.
func (d *farDirectory) OnDeath(func(addr ethertype.Addr, incarnation uint64)) {}

// Close withdraws all names.
func (d *farDirectory) Close() {
	_, _ = d.request(memo{Do: doUnname, Port: d.self.Addr.Port}) // so that the next process can have the number
}
