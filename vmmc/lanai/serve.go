package lanai

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"golang.org/x/sys/unix"
)

// Limits of a program on a card. Its user may use a part of the total.
const (
	mostGuests  = 16      // processes of one program
	mostAreas   = 256     // pieces of memory of one process
	mostNames   = 256     // words that name one process
	mostName    = 512     // bytes in a scope or word
	mostFinds   = 16      // open questions of one program; it delays further ones
	mostPeers   = 1024    // peers of one process
	mostLines   = 512     // lines reported to one program that it has not read
	mostSaying  = 32      // messages of one program that have not begun to leave
	mostWords   = 4096    // of all programs of one user, including ended ones
	mostBacklog = 1 << 20 // bytes of responses that a program has not read
	mostUntaken = 1 << 27 // bytes of other unread messages: more than the processes of one program can cause
	userPart    = 4       // of processes and memory, for one user
)

// limits holds the limits of programs of other processes, by user.
type limits struct {
	guests *admission.Gate[uint32] // connections: VMMC processes, until their parts of the incoming page table are free
	memory *admission.Gate[uint32] // bytes shared with the card
	words  map[uint32]int          // messages that the card has not begun to send
}

// Serve lets programs of other processes use the card, until ctx is done or the card fails permanently.
// Without anyUser, it serves only processes of root and of its own user. Those processes open a card at
// the same interface (Open). The error wraps EADDRINUSE if a process already serves a card there. It is
// nil when ctx is done. The caller closes the card; waits of the other processes then return an error.
func (h *Card) Serve(ctx context.Context, anyUser bool) error {
	serve, err := h.desk(anyUser)
	if err != nil {
		return err
	}
	return serve(ctx)
}

// desk opens the desk that programs connect to, in the network namespace of the calling thread, and
// returns the function that serves them.
func (h *Card) desk(anyUser bool) (serve func(ctx context.Context) error, err error) {
	if h.far != nil {
		return nil, fmt.Errorf("lanai: serve: another process serves the card: %w", unix.EADDRINUSE)
	}
	if h.host.Live == nil {
		return nil, fmt.Errorf("lanai: serve: %w: the card is in virtual time", transport.ErrArgument)
	}
	at, err := iface.Find(h.host.Live.Cable.Info().Interface)
	if err != nil {
		return nil, err
	}
	desk, err := share.OpenDesk(at, anyUser)
	if err != nil {
		return nil, fmt.Errorf("lanai: serving the card at %s: %w", at.Name, err)
	}
	own := uint32(os.Geteuid())
	all := 2 * int64(h.cfg.Memory) * pageSize
	h.limits = limits{
		guests: admission.New(admission.Limits{Conns: h.userGuests()}, 0, own),
		memory: admission.New(admission.Limits{Bytes: all / userPart, AllBytes: all}, 0, own),
		words:  map[uint32]int{},
	}
	return func(ctx context.Context) error {
		work, cancel := context.WithCancel(ctx)
		var served sync.WaitGroup
		served.Go(func() {
			desk.Serve(work, share.Welcome{Program: share.VMMC, Version: version}, func(conn *net.UnixConn, uid uint32) { h.tenant(work, conn, uid) })
		})
		err := h.serveUntil(ctx)
		cancel()
		desk.Close()
		served.Wait()
		return err
	}, nil
}

// userGuests returns how many processes one user may have.
func (h *Card) userGuests() int { return max(1, h.cfg.Processes/userPart) }

// guestPages returns how many pages one process may export, counted once for each importer. There
// are twice as many parts of the table as processes, because importers of an ended process may
// still name its part.
func (h *Card) guestPages() int { return max(1, (h.cfg.Memory-1)/(2*h.cfg.Processes)) }

// serveUntil drives the card until ctx is done or the card fails.
func (h *Card) serveUntil(ctx context.Context) (err error) {
	e := &h.host.Engine
	e.Lock()
	defer e.Unlock()
	w := e.Begin(ctx)
	defer e.End(&w)
	var never progress.Gate
	for err == nil {
		err = e.Wait(&w, &never)
	}
	if ctx.Err() != nil {
		return nil
	}
	return h.host.Failed()
}

// tenant is a program of another process that uses the card.
type tenant struct {
	card  *Card
	uid   uint32
	conn  *net.UnixConn
	line  *share.Line
	calls *shared.Bell // rung by the program
	news  *shared.Bell
	ctx   context.Context // ends with its connection, and with Serve
	work  sync.WaitGroup  // its open requests with a later response

	// Guarded by the host's lock.
	guests [shared.Bits]*guest // by bit
	told   map[int]uint64      // line numbers reported to the program, by node
	lines  int                 // reported lines that the program has not read
	saying int                 // messages that the card has not begun to send
	room   progress.Gate       // opens when one leaves
	finds  map[uint32]context.CancelFunc
	asked  int // open requests with a later response
}

// guest is a process of a tenant.
type guest struct {
	*tenant
	seat   seat
	bit    int
	page   *shared.Memory
	pages  run // its part of the incoming page table
	named  int // importers that may still name the part after the end of the process
	areas  map[uint64]*shared.Memory
	next   uint64 // virtual address of the next area
	peers  map[ethertype.Addr]*acquaintance
	keys   map[string]bool // its names
	memory int64           // bytes that it shares
}

// acquaintance is the record of a guest's peer. It exists from the first message between the two until the
// peer announces that it sends nothing more.
type acquaintance struct {
	node        int
	line        uint64
	incarnation uint64 // 0 if unknown
	met         bool   // the guest has sent the peer a message, or granted it memory
	imports     bool   // the guest has granted the peer memory to write
	said        bool   // the guest has sent the peer a bye
	mute        bool   // the guest has sent a bye, and neither has sent a message since
	bye         bool   // the peer has sent a bye that the guest has not confirmed
}

// tenant serves a program until its connection ends. When work is done it no longer waits.
func (h *Card) tenant(work context.Context, conn *net.UnixConn, uid uint32) {
	m, fd, err := shared.New(bellsSize)
	if err != nil {
		return // such as no descriptors left
	}
	ctx, cancel := context.WithCancel(work)
	t := &tenant{card: h, uid: uid, conn: conn, line: share.NewLine(conn, uid), calls: shared.NewBell(m, callsAt), news: shared.NewBell(m, newsAt),
		ctx: ctx, told: map[int]uint64{}, finds: map[uint32]context.CancelFunc{}}
	ends, err := passfd.OnHangUp(conn, cancel)
	if err != nil {
		unix.Close(fd)
		t.line.Finish(0)
		cancel()
		return
	}
	defer ends()
	var n memo
	if fds, err := t.line.Receive(&n); err != nil || n.Do != doHello || len(fds) > 0 {
		passfd.Close(uid, fds...)
		unix.Close(fd)
		t.line.Finish(0)
		cancel()
		return
	}
	if old := share.Outdated(share.VMMC, version, n.Version); old != "" {
		unix.Close(fd)
		t.line.Send(memo{Do: doHello, Error: old})
		t.line.Finish(closeTime)
		cancel()
		return
	}
	t.line.Send(memo{Do: doHello, MAC: h.cfg.MAC, Drop: h.cfg.Drop}, fd)
	h.host.Engine.Lock()
	if h.tenants == nil {
		h.tenants = map[*tenant]struct{}{}
	}
	h.tenants[t] = struct{}{}
	t.announce()
	h.host.Engine.Unlock()
	caller := h.host.NewCaller(t.calls, t.readDoorbells)
	var hears sync.WaitGroup
	hears.Go(caller.Hear)
	t.read()
	caller.End()
	cancel()
	hears.Wait()
	t.work.Wait()
	h.host.Engine.Lock()
	for _, g := range t.guests {
		if g != nil {
			g.leave()
		}
	}
	delete(h.tenants, t)
	h.drive()
	h.host.Engine.Unlock()
	t.line.Finish(0)
}

// announce reports new lines to all programs of other processes. The caller must hold the lock.
func (h *Card) announce() {
	for t := range h.tenants {
		t.announce()
	}
}

// announce reports to the program the nodes and lines that were not yet reported to it.
func (t *tenant) announce() {
	p := t.card.prog
	if !p.ready {
		return
	}
	for node := range p.nodes.Len() {
		if line := p.lines[node].number; t.told[node] != line && t.lines < mostLines {
			t.told[node] = line
			t.lines++
			t.tell(memo{Do: doLine, MAC: p.nodes.MAC(node), Node: node, Line: line})
		}
	}
}

// send sends a response to the program. It disconnects a program that does not read its responses.
func (t *tenant) send(n memo) {
	if t.line.Send(n); t.line.Backlog() > mostBacklog {
		passfd.HangUp(t.conn)
	}
}

// tell sends an unsolicited message to the program. It disconnects a program that exceeds the limit: that
// program has reported messages as handled that it has not read.
func (t *tenant) tell(n memo) {
	if t.line.Tell(n); t.line.Told() > mostUntaken {
		passfd.HangUp(t.conn)
	}
}

// readDoorbells makes the card look at the queues that the program has rung for. It reports whether one of them has a
// request. The host's lock is held.
func (t *tenant) readDoorbells() (some bool) {
	for i := range shared.Words {
		for set := t.calls.Take(i); set != 0; set &= set - 1 {
			g := t.guests[32*i+bits.TrailingZeros32(set)]
			if g != nil && g.seat.queue.open && holds(g.seat.queue.mem, g.seat.queue.next) {
				g.seat.page.Ring()
				some = true
			}
		}
	}
	return some
}

// read executes the program's requests, until its connection ends or it sends an invalid request.
func (t *tenant) read() {
	for {
		var n memo
		fds, err := t.line.Receive(&n)
		passfd.Close(t.uid, fds...)
		if err != nil || t.line.Backlog() > mostBacklog || !t.do(&n) {
			return
		}
	}
}

// do executes one request. It returns false if the request is invalid.
func (t *tenant) do(n *memo) (ok bool) {
	h := t.card
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	if n.Do == doJoin {
		answer, fd := t.join(n)
		t.answer(answer, fd)
		return true
	}
	if n.Do == doTook && n.Port == 0 {
		t.lines -= min(max(n.Size, 0), t.lines)
		t.announce()
		return true
	}
	g := t.guestAt(n.Port)
	if g == nil { // it has ended
		switch n.Do {
		case doAlloc, doShut, doEnter, doWord, doUnname:
			t.line.Send(memo{Do: n.Do, Error: "the process has ended"})
		}
		return true
	}
	switch n.Do {
	case doAlloc:
		answer, fd := g.alloc(n.Size)
		t.answer(answer, fd)
	case doShut:
		r := run{n.First, n.Pages}
		if !g.owns(r) {
			return false
		}
		h.shut(r)
		t.line.Send(memo{Do: doShut})
	case doEnter:
		t.line.Send(memo{Do: doEnter, Error: g.enter(n.Scope)})
	case doWord:
		t.line.Send(memo{Do: doWord, Error: g.claimKey(directory.WordKey(n.Scope, n.Word))})
	case doUnword:
		g.drop(directory.WordKey(n.Scope, n.Word))
	case doUnname:
		g.dropAll()
		t.line.Send(memo{Do: doUnname})
	case doLeave:
		g.leave()
		h.drive()
	case doFree:
		g.free(n.At)
	case doTook:
		g.seat.told.Took(n.Size)
	case doGrant:
		return g.grant(n)
	case doSay:
		return g.say(n)
	case doFind:
		return t.find(n)
	case doWhose:
		return t.whose(n)
	case doUnfind:
		if cancel := t.finds[n.Seq]; cancel != nil {
			cancel()
		}
	default:
		return false
	}
	return true
}

// answer answers a request, with a file unless fd is negative.
func (t *tenant) answer(n memo, fd int) {
	if fd < 0 {
		t.line.Send(n)
		return
	}
	t.line.Send(n, fd)
}

func (t *tenant) guestAt(port uint16) *guest {
	for _, g := range t.guests {
		if g != nil && g.seat.port == port {
			return g
		}
	}
	return nil
}

// join adds a process.
func (t *tenant) join(n *memo) (answer memo, fd int) {
	h, refused := t.card, memo{Do: doJoin, Full: true}
	if t.line.Told() > mostTold {
		refused.Error = "the program has not read the messages for its processes"
		return refused, -1
	}
	if h.limits.words[t.uid] >= mostWords {
		refused.Error = fmt.Sprintf("%d messages of user %d wait to be sent, the maximum", mostWords, t.uid)
		return refused, -1
	}
	bit := slices.Index(t.guests[:mostGuests], nil)
	if bit < 0 {
		refused.Error = fmt.Sprintf("a program may have at most %d processes on a card", mostGuests)
		return refused, -1
	}
	if err := h.full(n.Process); err != nil {
		refused.Error = err.Error()
		return refused, -1
	}
	if !h.limits.guests.Enter(t.uid) {
		refused.Error = fmt.Sprintf("user %d has %d processes on it, the maximum (ended ones count until their importers know)", t.uid, h.userGuests())
		return refused, -1
	}
	g := &guest{tenant: t, bit: bit, areas: map[uint64]*shared.Memory{}, next: pageSize, peers: map[ethertype.Addr]*acquaintance{}, keys: map[string]bool{}}
	g.seat = seat{listener: g, h: h, uid: t.uid, self: provider.Identity{Process: n.Process}}
	at, page, fd, err := g.share(pageEnd)
	if err == nil {
		var ok bool
		if g.page = page; page != nil {
			g.pages, ok = h.frames.reserve(h.guestPages())
		}
		if !ok {
			err = fmt.Errorf("the card's incoming page table is full (Config.Memory)")
		}
	}
	if err == nil {
		if err = h.sit(&g.seat, page); err == nil {
			g.seat.space.enter(at+stageAt, page.Bytes()[stageAt:])
		}
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		g.retire()
		h.limits.guests.Leave(t.uid)
		refused.Error = err.Error()
		return refused, -1
	}
	t.guests[bit] = g
	return memo{Do: doJoin, Port: g.seat.port, Bit: bit, Incarnation: g.seat.self.Incarnation, First: g.pages.first, Pages: g.pages.n, At: at}, fd
}

// share allocates memory that the process shares with the card, and returns its virtual address.
func (g *guest) share(size int) (at uint64, m *shared.Memory, fd int, err error) {
	size = int(pagesOf(0, uint64(size))) * pageSize
	if !g.card.limits.memory.Take(g.uid, int64(size)) {
		return 0, nil, -1, fmt.Errorf("%d bytes more are too many for user %d, or for all: they may have %d and %d (Config.Memory)", size, g.uid,
			2*int64(g.card.cfg.Memory)*pageSize/userPart, 2*int64(g.card.cfg.Memory)*pageSize)
	}
	if m, fd, err = shared.New(size); err != nil {
		g.card.limits.memory.Give(g.uid, int64(size))
		return 0, nil, -1, err
	}
	g.memory += int64(size)
	at, g.next = g.next, g.next+uint64(size)+pageSize
	return at, m, fd, nil
}

// alloc allocates memory that the process may export and send from.
func (g *guest) alloc(size int) (answer memo, fd int) {
	answer = memo{Do: doAlloc, Full: true}
	if size <= 0 || size > 1<<40 || len(g.areas) >= mostAreas {
		answer.Error = fmt.Sprintf("%d bytes, or more than %d pieces of memory", size, mostAreas)
		return answer, -1
	}
	at, m, fd, err := g.share(size)
	if err != nil {
		answer.Error = err.Error()
		return answer, -1
	}
	g.areas[at] = m
	g.seat.space.enter(at, m.Bytes())
	return memo{Do: doAlloc, At: at, Size: len(m.Bytes())}, fd
}

// free frees memory. Importers can no longer write to it.
func (g *guest) free(at uint64) {
	m := g.areas[at]
	if m == nil {
		return
	}
	delete(g.areas, at)
	g.seat.space.leave(at, m.Bytes())
	f := &g.card.frames
	for i := g.pages.first; i < g.pages.first+g.pages.n; i++ {
		if mem := f.all[i].mem; len(mem) > 0 && within(mem, m.Bytes()) {
			g.card.shut(run{i, 1})
		}
	}
	g.card.limits.memory.Give(g.uid, int64(len(m.Bytes())))
	g.memory -= int64(len(m.Bytes()))
	m.Retire()
}

// within reports whether some is a part of other.
func within(some, other []byte) bool {
	s := space{}
	s.enter(0, other)
	_, ok := s.reaches(some)
	return ok
}

// owns reports whether frames belong to the process.
func (g *guest) owns(r run) bool {
	return r.n > 0 && r.first >= g.pages.first && uint64(r.first)+uint64(r.n) <= uint64(g.pages.first)+uint64(g.pages.n)
}

// grant lets another process write to memory. It returns false if the request is invalid.
func (g *guest) grant(n *memo) bool {
	h, r := g.card, run{n.First, n.Pages}
	if !g.owns(r) || n.Size < 0 || pagesOf(int(n.At%pageSize), uint64(n.Size)) != uint64(r.n) {
		return false
	}
	for i := r.first; i < r.first+r.n; i++ {
		if h.frames.all[i].owner != nil {
			return false
		}
	}
	var mem []byte
	if n.Size > 0 {
		if mem = g.seat.space.find(n.At, n.Size); mem == nil {
			return false
		}
	}
	x, ok := g.meets(ethertype.Addr{MAC: n.MAC, Port: n.Other}, n.Line)
	if !ok {
		return true // the line has ended, and the process will be notified
	}
	x.met, x.imports = true, true
	h.frames.fill(r, &g.seat, mem, importer{x.node, n.Other})
	h.prog.allow(r)
	return true
}

// meets adds a peer. It returns false if the line is not the current one, or the process has too
// many peers.
func (g *guest) meets(at ethertype.Addr, line uint64) (*acquaintance, bool) {
	h := g.card
	node, now, ok := h.line(at.MAC)
	if !ok || now != line {
		return nil, false
	}
	x := g.peers[at]
	if x == nil {
		if len(g.peers) >= mostPeers {
			return nil, false
		}
		x = &acquaintance{node: node, line: line}
		g.peers[at] = x
		h.hang(node, 1, 0)
	}
	return x, true
}

// parts removes a peer.
func (g *guest) parts(at ethertype.Addr) {
	if x := g.peers[at]; x != nil {
		delete(g.peers, at)
		g.card.hang(x.node, -1, 0)
	}
}

// say sends a message of the guest to another process. The card fills in the sender's identity. It returns
// false if the request is invalid.
func (g *guest) say(n *memo) bool {
	h, at := g.card, ethertype.Addr{MAC: n.MAC, Port: n.Other}
	if len(n.Body) == 0 || len(n.Body) > mostData-1-envelopeSize {
		return false
	}
	node, line, ok := h.line(n.MAC)
	if !ok || line != n.Line {
		return true // the line has ended, and the process will be notified
	}
	if n.Body[0] != sayBye {
		x, ok := g.meets(at, line)
		if !ok {
			h.prog.count.Unsaid++
			return true
		}
		x.met, x.said, x.mute, x.bye = true, false, false, false
	} else if !g.sayBye(at, n.Body[1:]) {
		return true
	}
	g.speak(node, &envelope{port: n.Other, incarnation: n.Incarnation, from: g.seat.self}, n.Body)
	h.drive()
	for e := &h.host.Engine; g.saying >= mostSaying || h.limits.words[g.uid] >= mostWords; {
		if !g.waitForRoom(e) {
			return false
		}
	}
	return true
}

// sayBye records that the guest sends a bye. It returns false if the peer need not receive the bye.
func (g *guest) sayBye(to ethertype.Addr, why []byte) bool {
	x := g.peers[to]
	if x == nil || x.mute {
		return false
	}
	x.said, x.mute = true, true
	if answered := x.bye || len(why) == 1 && (bye(why[0]) == byeNobody || bye(why[0]) >= byeAnswer); answered && !x.imports {
		g.parts(to) // the peer does not confirm this bye
	}
	return true
}

// speak queues a message that the card sends to another process.
func (g *guest) speak(node int, e *envelope, body []byte) {
	b := e.append(append(make([]byte, 0, 1+envelopeSize+len(body)), ctlProcess))
	g.saying++
	g.card.limits.words[g.uid]++
	g.card.leaving.Push(message{node: node, data: append(b, body...), of: g.tenant})
	g.card.page.Ring()
}

// waitForRoom waits until another message of the program may be queued, and so stops reading from
// it. It returns false if the program or the card has ended, even if unread messages remain.
func (t *tenant) waitForRoom(e *progress.Engine) bool {
	w := e.Begin(t.ctx)
	defer e.End(&w)
	return e.Wait(&w, &t.room) == nil
}

// left records that a message has begun to leave, or will not leave.
func (t *tenant) left() {
	if t == nil {
		return
	}
	t.saying--
	words, e := t.card.limits.words, &t.card.host.Engine
	t.room.Open(e)
	if words[t.uid]--; words[t.uid] == mostWords-1 {
		for x := range t.card.tenants {
			if x.uid == t.uid {
				x.room.Open(e)
			}
		}
	}
	if words[t.uid] == 0 {
		delete(words, t.uid)
	}
}

// enter registers the process's number.
func (g *guest) enter(scope string) (refused string) {
	self := g.seat.self
	if refused = g.claimKey(directory.NodeKey(scope, self.Addr.MAC, self.Process)); refused == "" {
		refused = g.claimKey(directory.NumberKey(scope, self.Process))
	}
	return refused
}

// claimKey adds a name of the process. It returns the reason if it cannot.
func (g *guest) claimKey(key string) (refused string) {
	mine := g.card.names.mine
	_, taken := mine[key]
	switch {
	case g.keys[key]:
	case taken:
		return "another process has the name"
	case len(key) > mostName || len(g.keys) >= mostNames:
		return fmt.Sprintf("a name is longer than %d bytes, or the process has %d names: these are the most", mostName, mostNames)
	default:
		mine[key], g.keys[key] = g.seat.self.Addr, true
	}
	return ""
}

func (g *guest) drop(key string) {
	if g.keys[key] {
		delete(g.keys, key)
		delete(g.card.names.mine, key)
	}
}

func (g *guest) dropAll() {
	for key := range g.keys {
		g.drop(key)
	}
}

// ask handles a request of the program concurrently with its other requests, because the response may take a
// long time. It returns false if the request is invalid.
func (t *tenant) ask(seq uint32, answer func(ctx context.Context) memo) bool {
	if t.asked >= mostFinds || t.finds[seq] != nil {
		return false
	}
	ctx, cancel := context.WithCancel(t.ctx)
	t.asked++
	t.finds[seq] = cancel
	t.work.Go(func() {
		n := answer(ctx)
		cancel()
		t.card.host.Engine.Lock()
		t.asked--
		delete(t.finds, seq)
		if n.Seq = seq; t.ctx.Err() == nil {
			t.send(n)
		}
		t.card.host.Engine.Unlock()
	})
	return true
}

// find looks for a name.
func (t *tenant) find(n *memo) bool {
	key := n.Name.Key(n.Scope)
	if len(key) > mostName {
		return false
	}
	return t.ask(n.Seq, func(ctx context.Context) memo {
		at, err := t.card.names.find(ctx, key)
		found := memo{Do: doFound, MAC: at.MAC, Other: at.Port}
		if err != nil {
			found.Error = err.Error()
		}
		return found
	})
}

// whose requests the user of a process from its node, for the program.
func (t *tenant) whose(n *memo) bool {
	at, incarnation := ethertype.Addr{MAC: n.MAC, Port: n.Other}, n.Incarnation
	return t.ask(n.Seq, func(ctx context.Context) memo {
		uid, proven := t.card.names.whose(ctx, at, incarnation)
		return memo{Do: doTheirs, UID: uid, Proven: proven}
	})
}

// tell implements listener: it forwards the event to the program.
func (g *guest) tell(e event) {
	n := memo{Port: g.seat.port, MAC: e.from.MAC, Other: e.from.Port}
	switch e.kind {
	case eventMessage:
		if len(e.body) > 0 && e.body[0] == sayBye {
			g.heardBye(e.from, e.body[1:])
		} else if _, line, ok := g.card.line(e.from.MAC); ok {
			if x, ok := g.meets(e.from, line); ok { // relation has checked that there is room
				x.incarnation, x.mute, x.bye = e.id.Incarnation, false, false
			}
		}
		n.Do, n.Process, n.Incarnation, n.Body = doHeard, e.id.Process, e.id.Incarnation, e.body
	case eventNote:
		n.Do, n.First = doNote, e.frame
	case eventRefused:
		n.Do, n.First = doRefused, e.frame
	case eventCut: // announce notifies the program
		for _, at := range g.acquaintances() {
			if at.MAC == e.from.MAC {
				g.parts(at)
			}
		}
		return
	default:
		return
	}
	g.tenant.tell(n)
}

// relation implements listener.
func (g *guest) relation(to ethertype.Addr) relation {
	_, _, reached := g.card.line(to.MAC)
	switch {
	case g.peers[to] != nil && g.peers[to].met:
		return acquainted
	case g.peers[to] != nil:
		return heard
	case !reached || len(g.peers) >= mostPeers:
		return unwanted
	}
	return stranger
}

// heardBye handles a peer's bye. If the peer waits until the guest confirms the bye, the acquaintance lasts
// until the guest, or leave, sends the confirmation.
func (g *guest) heardBye(from ethertype.Addr, why []byte) {
	x := g.peers[from]
	if x == nil {
		return
	}
	if x.imports, x.bye = false, true; x.said || len(why) != 1 || bye(why[0]) == byeNobody || bye(why[0]) >= byeAnswer {
		g.parts(from)
	}
}

// acquaintances returns the peers in a fixed order.
func (g *guest) acquaintances() []ethertype.Addr {
	return slices.SortedFunc(maps.Keys(g.peers), ethertype.Addr.Compare)
}

// finished implements listener: the status word in the page has the result.
func (g *guest) finished(uint32, ending) { g.news.Ring(g.bit) }

// touched implements listener.
func (g *guest) touched() { g.news.Ring(g.bit) }

// waiting implements listener: only the program counts its requests that wait for a slot.
func (g *guest) waiting() int { return 0 }

// leave ends the process. Its memory is no longer written, and its peers receive a bye as if it had
// sent one. The numbers of its frames are reused when all importers have announced that they send
// nothing more, or their lines have ended.
func (g *guest) leave() {
	h := g.card
	g.guests[g.bit] = nil
	g.dropAll()
	h.shut(g.pages)
	for _, at := range g.acquaintances() {
		x := g.peers[at]
		g.speak(x.node, &envelope{port: at.Port, incarnation: x.incarnation, from: g.seat.self}, []byte{sayBye, byte(byeClosed)})
		if x.imports && !x.bye { // a peer that has sent its bye does not confirm this one
			g.named++
			h.kept = append(h.kept, kept{run: g.pages, frames: &h.frames, guest: g, node: x.node, peer: at, port: g.seat.port})
			h.hang(x.node, 1, 0)
		}
		g.parts(at)
	}
	if g.named == 0 {
		g.freePages()
	}
	g.pages = run{g.pages.first, g.pages.n}
	g.seat.detach()
	g.retireMemory()
}

// freePages frees the process's part of the incoming page table when no importer can name it any
// more, and its place among its user's processes, without which no process could get the part.
func (g *guest) freePages() {
	g.card.frames.free(g.pages)
	g.card.limits.guests.Leave(g.uid)
}

// retire frees the resources of a process that could not be added.
func (g *guest) retire() {
	if g.pages.n > 0 {
		g.card.frames.free(g.pages)
	}
	g.retireMemory()
}

func (g *guest) retireMemory() {
	for _, m := range g.areas {
		m.Retire()
	}
	g.areas = nil
	if g.page != nil {
		g.page.Retire()
	}
	g.card.limits.memory.Give(g.uid, g.memory)
	g.memory = 0
}
