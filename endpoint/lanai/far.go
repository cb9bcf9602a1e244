package lanai

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/ethertype"
	linkdriver "github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// far is the connection with the process that has the card (Card.Serve). It replaces the part of
// the driver that concerns all programs of the card. The driver of this process handles the pages
// of its endpoints, in memory that both processes share. far is the link on which the engine of
// this process waits.
type far struct {
	card  *Card
	conn  *net.UnixConn
	line  *share.Line
	bells *shared.Memory
	calls *shared.Bell // rung by this process
	news  *shared.Bell // rung by the card's process
	info  transport.Info
	index int               // of the card's interface
	look  int               // a socket in the network namespace of the interface
	ends  [shared.Bits]*end // by bit; guarded by the engine's lock

	asking  sync.Mutex // held while a request waits for its response
	answers chan note  // capacity 1; closed when the connection ends
	closed  atomic.Bool
}

// errEnded reports that the process that had the card has ended.
var errEnded = fmt.Errorf("%w: the process that serves the card has ended (start it again with bobnet card, then reopen the card)", transport.ErrGone)

// patience is the maximum time that a live process takes to respond.
const patience = 10 * time.Second

// attach opens the card that another process serves at an interface. Its errors are those of
// share.Dial.
func attach(ctx context.Context, cfg *Config) (*Card, error) {
	at, err := iface.Find(cfg.Interface)
	if err != nil {
		return nil, err
	}
	conn, _, err := share.Dial(ctx, at, share.AMII, version)
	if errors.Is(err, share.ErrFull) {
		return nil, fmt.Errorf("%w: lanai: open: %w", provider.ErrResource, err)
	}
	if err != nil {
		return nil, err
	}
	who, err := passfd.PeerOf(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c := &Card{cfg: Config{Interface: at.Name, Logger: cfg.Logger}, rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	look, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		conn.Close()
		return nil, os.NewSyscallError("socket", err)
	}
	f := &far{card: c, conn: conn, info: transport.Info{Driver: "myrinet", Interface: at.Name}, line: share.NewLine(conn, who.Uid), index: at.Index, look: look, answers: make(chan note, 1)}
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
		unix.Close(look)
		return nil, err
	}
	f.info.MAC = c.cfg.MAC
	c.driver = driver{prog: &c.prog, host: &c.host, cfg: &c.cfg, by: map[uint64]*end{}, programs: map[uint16]*seat{}, askAt: transport.Forever, far: f}
	c.host.Use(f, f)
	go f.listen()
	c.host.Engine.Start()
	return c, nil
}

// hello gets the page of bells.
func (f *far) hello() error {
	var n note
	f.line.Send(note{Do: doHello, Version: version})
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
	f.card.cfg.MAC, f.bells = n.MAC, m
	f.calls, f.news = shared.NewBell(m, callsAt), shared.NewBell(m, newsAt)
	return nil
}

func closeFiles(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// request sends a request to the card, and returns the response. The caller may hold no lock but the
// node's.
func (f *far) request(n note) (answer note, err error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	late := time.AfterFunc(patience, func() { passfd.HangUp(f.conn) })
	defer late.Stop()
	f.line.Send(n)
	answer, ok := <-f.answers
	switch {
	case !ok:
		return answer, errEnded
	case answer.Error != "":
		closeFiles(answer.fds)
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

// refusal returns the error class of a failed request.
func refusal(err error) error {
	if errors.Is(err, transport.ErrGone) {
		return provider.ErrClosed
	}
	return provider.ErrResource
}

// createEndpoint creates an endpoint of a program. If the card refuses it, createEndpoint returns false and p.full is
// the reason.
func (f *far) createEndpoint(p *way, id uint32) (*end, bool) {
	a, err := f.request(note{Do: doOpen, Port: p.seat.port, ID: id})
	var m *shared.Memory
	if err == nil && (len(a.fds) != 1 || a.Bit < 0 || a.Bit >= shared.Bits) {
		err = unix.EPROTO
	}
	if err == nil {
		m, err = shared.Map(a.fds[0], sharedSize)
		closeFiles(a.fds)
	}
	f.card.lock()
	defer f.card.unlock()
	if p.full = err; err != nil {
		return nil, false
	}
	d := &f.card.driver
	e := d.newEnd(p.seat.port, id, p)
	e.share(m, a.Bit)
	e.state = endResident // its page is always accessible
	f.ends[e.bit], d.by[keyOf(e.port, id)] = e, e
	return e, true
}

// forget removes an endpoint.
func (f *far) forget(e *end) {
	f.ends[e.bit] = nil
	f.line.Send(note{Do: doForget, Port: e.port, Bit: e.bit})
}

// say makes the card send a control message for a program.
func (f *far) say(what topic, to peerName, from *seat, conn uint32, body []byte) {
	f.line.Send(note{Do: doSay, Port: from.port, What: what, MAC: to.mac, Other: to.port, Conn: conn, Body: body})
	f.card.driver.kick()
}

// ask makes the card look up a name. All programs of this process receive the response.
func (f *far) ask(name string) {
	for port := range f.card.driver.programs {
		f.line.Send(note{Do: doAsk, Port: port, Name: name})
		return
	}
}

// listen reads the card's messages until the connection ends.
func (f *far) listen() {
	c := f.card
	for {
		var n note
		fds, err := f.line.Receive(&n)
		if err != nil {
			break
		}
		switch n.Do {
		case doHeard, doSaid, doFound:
			closeFiles(fds)
			c.lock()
			f.hear(&n)
			c.unlock()
		default:
			n.fds = fds
			select {
			case f.answers <- n:
			default: // a response without a request
				closeFiles(fds)
			}
		}
	}
	close(f.answers)
	c.lock()
	c.host.Fail(errEnded)
	c.unlock()
}

// hear handles an unsolicited message from the card. The caller must hold the engine's lock.
func (f *far) hear(n *note) {
	d := &f.card.driver
	if n.Do == doFound {
		for _, s := range d.inOrder() {
			s.found(n.Name, ethertype.Addr{MAC: n.MAC, Port: n.Other})
		}
		return
	}
	s := d.programs[n.Port]
	if s == nil {
		return
	}
	if n.Do == doHeard {
		s.heard(n.What, peerName{mac: n.MAC, port: n.Other}, n.Conn, n.Life, n.Body)
		return
	}
	s.saying--
	s.said(n.What, peerKey{n.MAC, n.Other}, n.Conn, n.Why)
}

// Poll implements station.Remote: it reads which endpoints have news.
func (f *far) Poll(now int64) (arrived bool) {
	for i := range shared.Words {
		for set := f.news.Take(i); set != 0; set &= set - 1 {
			e := f.ends[32*i+bits.TrailingZeros32(set)]
			if e == nil {
				continue
			}
			if arrived = true; !e.news {
				e.news = true
				e.owner.told(e)
			}
		}
	}
	f.card.driver.attend(now)
	return arrived
}

// NextTimer implements station.Remote.
func (f *far) NextTimer() int64 { return f.card.driver.askAt }

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

// Check implements transport.Checker: the interface of the card carries frames.
func (f *far) Check() error {
	if f.closed.Load() {
		return transport.ErrClosed
	}
	i, err := linkdriver.Look(f.look, f.index, f.info.Interface)
	if err != nil {
		return err
	}
	return i.Down()
}

// Info implements transport.Link.
func (f *far) Info() transport.Info { return f.info }

// Stats implements transport.Link.
func (f *far) Stats() transport.Stats { return transport.Stats{} }

// Send implements transport.Link. The link carries no frames.
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
	unix.Close(f.look)
	return f.conn.Close()
}
