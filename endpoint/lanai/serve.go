package lanai

import (
	"context"
	"fmt"
	"math/bits"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Limits of one process on a card. A separate limit applies to all endpoints of a user.
const (
	mostSeats   = 16      // programs
	mostNames   = 256     // of each program
	mostLooked  = 256     // concurrent look-ups
	mostSayings = 64      // control messages passed to the driver; further ones wait
	mostSaying  = 4096    // bytes of a control message
	mostAsks    = 32      // look-ups of names within askAgain
	mostBacklog = 1 << 20 // unread bytes of responses
	mostLater   = 8 << 20 // bytes of waiting control messages: room for the responses to all messages that a program may not have handled
	mostTold    = 8 << 20 // unread bytes of control messages for its programs
	userPart    = 4       // one user may have this fraction of the endpoints: 1/userPart
)

// Serve lets programs of other processes use the card, until ctx is done or the card fails permanently.
// Without anyUser, it serves only processes of root and of its own user. Those processes open a card at
// the same interface (Open). The error wraps EADDRINUSE if a process already serves a card there. It is
// nil when ctx is done. The caller closes the card; waits of the other processes then return an error.
func (c *Card) Serve(ctx context.Context, anyUser bool) error {
	serve, err := c.desk(anyUser)
	if err != nil {
		return err
	}
	return serve(ctx)
}

// desk opens the desk to which programs connect, in the network namespace of the calling thread, and returns the
// function that serves them.
func (c *Card) desk(anyUser bool) (serve func(ctx context.Context) error, err error) {
	if c.driver.far != nil {
		return nil, fmt.Errorf("lanai: serve: another process serves the card: %w", unix.EADDRINUSE)
	}
	if c.host.Live == nil {
		return nil, fmt.Errorf("lanai: serve: %w: the card is in virtual time", transport.ErrArgument)
	}
	at, err := iface.Find(c.host.Live.Cable.Info().Interface)
	if err != nil {
		return nil, err
	}
	desk, err := share.OpenDesk(at, anyUser)
	if err != nil {
		return nil, fmt.Errorf("lanai: serving the card at %s: %w", at.Name, err)
	}
	c.endpoints = admission.New(admission.Limits{Conns: max(1, c.cfg.Endpoints/userPart)}, 0, uint32(os.Geteuid()))
	return func(ctx context.Context) error {
		work, cancel := context.WithCancel(ctx)
		var served sync.WaitGroup
		served.Go(func() { desk.Serve(work, share.Welcome{Program: share.AMII, Version: version}, c.tenant) })
		err := c.drive(ctx)
		cancel()
		desk.Close()
		served.Wait()
		return err
	}, nil
}

// drive drives the card until ctx is done or the card fails.
func (c *Card) drive(ctx context.Context) (err error) {
	e := &c.host.Engine
	c.lock()
	defer c.unlock()
	w := e.Begin(ctx)
	defer e.End(&w)
	var never progress.Gate
	for err == nil {
		err = e.Wait(&w, &never)
	}
	if ctx.Err() != nil {
		return nil
	}
	return c.failure()
}

// tenant is a process with programs on the card.
type tenant struct {
	card  *Card
	uid   uint32
	line  *share.Line
	calls *shared.Bell // rung by the process
	news  *shared.Bell
	over  atomic.Bool

	// The engine's lock guards the fields below.
	ends   [shared.Bits]*end // by their bits
	seats  map[uint16]*seat
	saying int                 // control messages passed to the driver
	later  fifo.Queue[*saying] // control messages that wait to be passed to the driver
	kept   int                 // bytes of the messages in later
	asks   int                 // names that the process has looked up since asksAt
	asksAt int64
}

// visitor is a program of a tenant. It implements listener.
type visitor struct {
	*tenant
	seat   *seat
	looked map[string]struct{}
}

// tenant serves a process until its connection ends.
func (c *Card) tenant(conn *net.UnixConn, uid uint32) {
	m, fd, err := shared.New(bellsSize)
	if err != nil {
		return // for example, out of descriptors
	}
	t := &tenant{card: c, uid: uid, line: share.NewLine(conn, uid), calls: shared.NewBell(m, callsAt), news: shared.NewBell(m, newsAt),
		seats: map[uint16]*seat{}}
	var n note
	if fds, err := t.line.Receive(&n); err != nil || n.Do != doHello || len(fds) > 0 {
		passfd.Close(uid, fds...)
		unix.Close(fd)
		t.line.Finish(0)
		return
	}
	if old := share.Outdated(share.AMII, version, n.Version); old != "" {
		unix.Close(fd)
		t.line.Send(note{Do: doHello, Error: old})
		t.line.Finish(closeTime)
		return
	}
	t.line.Send(note{Do: doHello, MAC: c.cfg.MAC}, fd)
	caller := c.host.NewCaller(t.calls, t.readDoorbells)
	var hears sync.WaitGroup
	hears.Go(caller.Hear)
	t.read()
	t.over.Store(true)
	caller.End()
	hears.Wait()
	c.lock()
	for _, s := range t.seats {
		t.leave(s)
	}
	t.later.Clear()
	c.driver.dropOrphans()
	c.unlock()
	t.line.Finish(0)
}

// readDoorbells makes the card look at the endpoints that the process has rung for, and reports whether there was a
// reason to ring for one of them. The caller must hold the engine's lock.
func (t *tenant) readDoorbells() (some bool) {
	for i := range shared.Words {
		for set := t.calls.Take(i); set != 0; set &= set - 1 {
			if e := t.ends[32*i+bits.TrailingZeros32(set)]; e != nil && t.card.driver.rung(e) {
				some = true
			}
		}
	}
	return some
}

// read handles the requests of a process, until its connection ends or it sends an invalid one.
func (t *tenant) read() {
	for {
		var n note
		fds, err := t.line.Receive(&n)
		passfd.Close(t.uid, fds...)
		if err != nil || t.line.Backlog() > mostBacklog {
			return
		}
		switch n.Do {
		case doJoin:
			t.line.Send(t.join())
		case doOpen:
			answer, fds := t.createEndpoint(&n)
			t.line.Send(answer, fds...)
		default:
			t.card.lock()
			t.do(&n)
			t.card.unlock()
		}
	}
}

// join registers a program.
func (t *tenant) join() note {
	t.card.lock()
	defer t.card.unlock()
	if len(t.seats) == mostSeats {
		return note{Do: doJoin, Error: fmt.Sprintf("a process may have at most %d nodes on a card", mostSeats)}
	}
	v := &visitor{tenant: t, looked: map[string]struct{}{}}
	v.seat = t.card.sit(v)
	t.seats[v.seat.port] = v.seat
	return note{Do: doJoin, Port: v.seat.port, Life: v.seat.life}
}

// leave removes a program. The caller must hold the engine's lock.
func (t *tenant) leave(s *seat) {
	d := &t.card.driver
	for bit, e := range t.ends {
		if e != nil && e.port == s.port {
			t.ends[bit] = nil
			d.forget(e)
		}
	}
	delete(d.programs, s.port)
	delete(t.seats, s.port)
}

// createEndpoint creates an endpoint, and returns the response and the descriptor of the endpoint's memory.
func (t *tenant) createEndpoint(n *note) (answer note, fds []int) {
	c, refused := t.card, note{Do: doOpen}
	if !c.endpoints.Enter(t.uid) {
		refused.Error = fmt.Sprintf("user %d has the maximum of %d endpoints on the card", t.uid, max(1, c.cfg.Endpoints/userPart))
		return refused, nil
	}
	m, fd, err := shared.New(sharedSize)
	if err != nil {
		c.endpoints.Leave(t.uid)
		refused.Error = err.Error()
		return refused, nil
	}
	c.lock()
	defer c.unlock()
	d := &c.driver
	s, bit := t.seats[n.Port], 0
	for bit < len(t.ends) && t.ends[bit] != nil {
		bit++
	}
	var e *end
	switch {
	case s == nil || d.find(n.Port, n.ID) != nil:
		refused.Error = "there is no such program, or it has the endpoint"
	case bit == len(t.ends):
		refused.Error = fmt.Sprintf("a process may have at most %d endpoints on a card", len(t.ends))
	default:
		var ok bool
		if e, ok = d.createEndpoint(n.Port, n.ID, s.listener); !ok {
			refused.Error = fmt.Sprintf("it has %d (Config.Endpoints)", c.cfg.Endpoints)
		}
	}
	if refused.Error != "" {
		unix.Close(fd)
		m.Retire()
		c.endpoints.Leave(t.uid)
		return refused, nil
	}
	e.share(m, bit)
	e.freed = func() {
		m.Retire()
		c.endpoints.Leave(t.uid)
	}
	t.ends[bit] = e
	return note{Do: doOpen, Bit: bit}, []int{fd}
}

// say sends a control message of a program: now, or when earlier ones of the process are done. If too many
// wait, say reports to the program that the message has failed. The caller must hold the engine's lock.
func (t *tenant) say(s *seat, n *note) {
	if n.What < sayOpen || n.What > sayNone || n.What == sayDead || len(n.Body) > mostSaying {
		t.card.prog.stats.Privileged++
		return
	}
	switch x := newSaying(n.What, peerName{mac: n.MAC, port: n.Other}, s, n.Conn, n.Body); {
	case t.saying < mostSayings:
		t.send(x)
	case t.kept+x.size() <= mostLater:
		t.later.Push(x)
		t.kept += x.size()
	default:
		t.answer(s, n.What, peerKey{n.MAC, n.Other}, n.Conn, wire.ReasonCongestion)
	}
}

// send passes a control message to the driver.
func (t *tenant) send(x *saying) {
	t.saying++
	x.from.saying++
	t.card.driver.send(x)
}

// size returns the approximate memory of a control message in bytes.
func (s *saying) size() int { return 128 + len(s.body) }

// answer reports the outcome of a control message to the program that sent it.
func (t *tenant) answer(s *seat, what topic, to peerKey, conn uint32, why wire.Reason) {
	t.line.Send(note{Do: doSaid, Port: s.port, What: what, MAC: to.mac, Other: to.port, Conn: conn, Why: why})
}

// mostOrphans is the maximum number of control messages that may wait for the privileged endpoint when a process ends.
// If more wait, the driver drops those of processes that have ended.
const mostOrphans = 1024

// dropOrphans drops the waiting control messages of processes that have ended, if more than mostOrphans messages wait.
// Otherwise processes that connect, send to a station that does not respond, and end could fill the memory. Other
// drivers detect the end of these processes by their next inquiries.
func (d *driver) dropOrphans() {
	if d.sayings.n <= mostOrphans {
		return
	}
	d.sayings.keep(func(s *saying) bool {
		if s.from == nil {
			return true
		}
		v, served := s.from.listener.(*visitor)
		return !served || !v.over.Load()
	})
}

// do handles requests with at most one response. The caller must hold the engine's lock.
func (t *tenant) do(n *note) {
	s := t.seats[n.Port]
	if s == nil {
		if n.Do == doSay {
			t.card.prog.stats.Privileged++
		}
		return
	}
	switch n.Do {
	case doSay:
		t.say(s, n)
	case doTook:
		s.untaken.Took(n.Size)
	case doLeave:
		t.leave(s)
	case doForget:
		if n.Bit < 0 || n.Bit >= len(t.ends) {
			return
		}
		if e := t.ends[n.Bit]; e != nil && e.port == s.port {
			t.ends[n.Bit] = nil
			t.card.driver.forget(e)
		}
	case doName:
		answer := note{Do: doName}
		switch _, has := s.names[n.Name]; {
		case n.Name == "" || len(n.Name) > maxName:
			answer.Error = fmt.Sprintf("a name of %d bytes: want 1 to %d", len(n.Name), maxName)
		case !has && len(s.names) >= mostNames:
			answer.Error = fmt.Sprintf("a program may have at most %d names on a card", mostNames)
		default:
			s.names[n.Name] = struct{}{}
		}
		t.line.Send(answer)
	case doUnname:
		delete(s.names, n.Name)
	case doAsk:
		t.ask(s.listener.(*visitor), n.Name)
	}
}

// ask looks up a name here and on all other cards. It drops look-ups of a process that asks too
// often. If a program has its maximum number of look-ups, a new one replaces an older one. A
// program repeats look-ups that it still needs.
func (t *tenant) ask(v *visitor, name string) {
	d := &t.card.driver
	if now := d.host.Now(); now-t.asksAt >= askAgain {
		t.asks, t.asksAt = 0, now
	}
	if t.asks++; t.asks > mostAsks || len(name) > maxName {
		d.prog.stats.Unasked++
		return
	}
	if _, again := v.looked[name]; !again && len(v.looked) >= mostLooked {
		for old := range v.looked {
			delete(v.looked, old)
			break
		}
	}
	v.looked[name] = struct{}{}
	var first *seat
	for _, s := range d.programs {
		if _, has := s.names[name]; has && (first == nil || s.port < first.port) {
			first = s
		}
	}
	if first != nil {
		v.found(name, ethertype.Addr{MAC: t.card.cfg.MAC, Port: first.port})
		return
	}
	d.ask(name)
}

// told implements listener: it rings the process's bell for the endpoint.
func (v *visitor) told(e *end) {
	e.news = false
	v.news.Ring(e.bit)
}

// heard implements listener: it forwards the control message to the process.
func (v *visitor) heard(what topic, from peerName, conn, life uint32, rest []byte) {
	v.line.Tell(note{Do: doHeard, Port: v.seat.port, What: what, MAC: from.mac, Other: from.port, Conn: conn, Life: life, Body: rest})
}

// stopped implements listener.
func (v *visitor) stopped() bool { return v.line.Told() > mostTold }

// said implements listener: it sends the process's next waiting control message, and reports the outcome to the
// program.
func (v *visitor) said(what topic, to peerKey, conn uint32, why wire.Reason) {
	v.saying--
	if v.later.Len() > 0 {
		x := v.later.Pop()
		v.kept -= x.size()
		v.send(x)
	}
	if v.seats[v.seat.port] == v.seat {
		v.answer(v.seat, what, to, conn, why)
	}
}

// found implements listener.
func (v *visitor) found(name string, at ethertype.Addr) {
	if _, asked := v.looked[name]; asked {
		delete(v.looked, name)
		v.line.Send(note{Do: doFound, Port: v.seat.port, Name: name, MAC: at.MAC, Other: at.Port})
	}
}

// attend implements listener: a program of another process keeps its own timers.
func (v *visitor) attend(int64) int64 { return transport.Forever }
