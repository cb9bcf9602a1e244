package handshake

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

const (
	nicPort  = 1 // of the NICs themselves
	viPort   = 10
	listens  = 20
	timeout  = int64(5 * time.Second)
	pairsMTU = 1500
)

// host is a NIC with one VI and one listener, as far as handshakes need one: a table, the
// state that sends for it, and the frames that are on their way to it. It owns its side,
// and is its link.
type host struct {
	t      testing.TB
	pair   *pair
	table  Table
	side   Side
	a      conn.Shared
	c      conn.Conn
	eng    progress.Engine
	info   transport.Info
	guard  guard.Strangers
	in     Listener
	peer   *host
	inbox  [][]byte
	sent   []ethertype.Kind
	lose   func(h *ethertype.Header) bool // a frame that is sent
	arrive int                            // requests
	stray  int
	serves bool // takes the requests that come
	serial bool
	done   int // times that an attempt has ended by itself
}

// pair is two hosts and their clock.
type pair struct {
	now   int64
	hosts [2]*host
}

func newPair(t testing.TB) *pair {
	p := &pair{now: int64(time.Hour)}
	rel := (*reliability.Config)(nil).Resolve()
	for i := range p.hosts {
		h := &host{t: t, pair: p, lose: func(*ethertype.Header) bool { return false }, serves: true}
		h.info = transport.Info{MAC: ethertype.MAC{2, 0, 0, 0, 0, byte(i + 1)}, MTU: pairsMTU, EtherType: ethertype.Default, Virtual: true}
		p.hosts[i] = h
		mtu := func(ethertype.MAC) int { return pairsMTU }
		h.a.Init(h, &h.eng, &h.info, uint64(100+i), slog.New(slog.NewTextHandler(io.Discard, nil)), conn.Hooks{
			LinkError: func(err error) { t.Errorf("link error: %v", err) },
			Trouble:   func() error { return nil },
			Sweep:     func() {},
			MTU:       mtu,
			Limits:    func(ethertype.MAC) *reliability.Config { return rel },
			Lives:     func(ethertype.Addr) bool { return false },
		})
		h.guard.Random.Init(uint64(i+1), true)
		h.guard.Tokens.Init(&h.guard.Random)
		h.guard.Answers.AtOnce = 1000
		h.in.Owner = (*owner)(h)
		h.table.Init(&h.a, &h.info, ethertype.Addr{MAC: h.info.MAC, Port: nicPort}, &h.guard, Hooks{
			Side:     h.sideAt,
			Listener: h.listener,
			Reaches:  func(ethertype.MAC) bool { return true },
			MTU:      mtu,
			Trouble:  func(ethertype.MAC) error { return nil },
			Stray: func(f *ethertype.Header) {
				h.stray++
				h.a.SendReset(f)
			},
		})
		h.c.Init(&h.a, (*owner)(h), viPort, nil, nil)
		h.c.SetTerms(conn.Terms{Reliability: reliability.ReliableDelivery, ReadDepth: 4, PeerTimeout: time.Second}, 16)
		h.side.Init(&h.table, &h.c, (*owner)(h))
		h.side.Terms = Terms{Reliability: reliability.ReliableDelivery, MaxTransferSize: 1 << 20, QoS: 3, ReadDepth: 4 + i}
		h.a.SetClock(p.now)
	}
	p.hosts[0].peer, p.hosts[1].peer = p.hosts[1], p.hosts[0]
	return p
}

func (h *host) sideAt(port uint16) *Side {
	if port == viPort {
		return &h.side
	}
	return nil
}

// listener is that of port listens, which has the name "bob" besides.
func (h *host) listener(port uint16, name []byte) *Listener {
	if port == listens && name == nil || string(name) == "bob" {
		return &h.in
	}
	return nil
}

// Send implements conn.Link: the frames are on their way to the peer, or lost.
func (h *host) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		b := frames[i].AppendTo(nil)
		var f ethertype.Header
		if _, err := f.Parse(b); err != nil {
			h.t.Fatalf("a frame cannot be read: %v", err)
		}
		h.sent = append(h.sent, f.Kind)
		if !h.lose(&f) {
			h.peer.inbox = append(h.peer.inbox, b)
		}
	}
	return len(frames), nil
}

// Now implements conn.Link.
func (h *host) Now() int64 { return h.pair.now }

// owner is a host as its side and its connection see it.
type owner host

func (o *owner) Connected() { o.done++ }
func (o *owner) Failed()    { o.done++ }
func (o *owner) Arrived()   { o.arrive++ }
func (o *owner) Failure(remote ethertype.Addr, cause error, detail string) error {
	return fmt.Errorf("to %v: %w: %s", remote, cause, detail)
}
func (o *owner) Raise(conn.Fault, *conn.Descriptor, code.Status, error) {}
func (o *owner) Lost(cause error, detail string) error                  { return fmt.Errorf("%w: %s", cause, detail) }
func (o *owner) Ended(error)                                            {}
func (o *owner) Notify(bool)                                            {}
func (o *owner) Due() int64                                             { return o.side.Due() }
func (o *owner) Step()                                                  { o.side.Step() }

// take hands a frame to what its kind concerns, as a NIC does.
func (h *host) take(frame []byte) {
	f := h.a.Incoming()
	payload, err := f.Parse(frame)
	if err != nil {
		return // the fuzz test has damaged it
	}
	pending := h.c.State == code.StateConnectPending
	switch f.Kind {
	case ethertype.KindReset:
		if pending && h.c.Answered(f) {
			h.side.Reset()
		} else if h.c.State == code.StateConnected && h.c.Answered(f) {
			h.c.EnterError(code.ErrDisconnected, "reset", code.ReasonLeft)
		}
	case ethertype.KindDisconnect, ethertype.KindData, ethertype.KindAck:
		switch {
		case f.Tag != h.c.LocalTag || f.DstPort != viPort:
		case pending:
			h.side.Disconnect(f, payload)
		case h.c.State == code.StateConnected:
			h.c.Receive(f, payload, false)
		}
	default:
		h.table.Receive(f, payload)
	}
}

// turn is what an engine does in a turn. It reports whether frames had come.
func (h *host) turn() bool {
	frames := h.inbox
	h.inbox = nil
	h.a.SetClock(h.pair.now)
	for _, f := range frames {
		h.take(f)
	}
	h.a.RunTimers()
	if h.serves && h.c.State == code.StateIdle {
		h.serve()
	}
	h.a.Settle()
	h.a.FlushPending()
	return len(frames) > 0
}

// serve accepts the next request that matches, and refuses those that do not.
func (h *host) serve() {
	for r := h.in.Backlog.Pop(h.pair.now); r != nil; r = h.in.Backlog.Pop(h.pair.now) {
		if err := h.side.Match(r); err != nil {
			h.table.Refuse(r, err.Error())
			continue
		}
		h.side.Answer(r, h.serial, timeout)
		return
	}
}

// run has both hosts take turns until done. When no frame is on its way the clock goes on
// to the next timer.
func (p *pair) run(done func() bool) {
	p.hosts[0].t.Helper()
	for range 20_000 {
		if done() {
			return
		}
		p.step()
	}
	p.hosts[0].t.Fatalf("it does not end: %v and %v, sent %v and %v",
		p.hosts[0].c.State, p.hosts[1].c.State, p.hosts[0].sent, p.hosts[1].sent)
}

// step has both hosts take a turn.
func (p *pair) step() {
	p.now += 1000
	a, b := p.hosts[0].turn(), p.hosts[1].turn()
	if a || b || len(p.hosts[0].inbox) > 0 {
		return
	}
	next := p.now + int64(time.Second)
	for _, h := range p.hosts {
		next = min(next, h.a.FindTimer())
	}
	p.now = max(p.now, next)
}

// ask has a host ask the other one's listener.
func (h *host) ask(data string) {
	h.a.SetClock(h.pair.now)
	h.side.Ask(ethertype.Addr{MAC: h.peer.info.MAC, Port: listens}, []byte(data), false, timeout)
	h.a.FlushPending()
}

// askPeer has a host ask the other one of a pair that both do so.
func (h *host) askPeer(discriminator string) {
	h.a.SetClock(h.pair.now)
	h.side.AskPeer(ethertype.Addr{MAC: h.peer.info.MAC, Port: nicPort}, []byte(discriminator), timeout)
	h.a.FlushPending()
}

// connected reports whether both hosts are, with each other.
func (p *pair) connected() bool {
	a, b := &p.hosts[0].c, &p.hosts[1].c
	return a.State == code.StateConnected && b.State == code.StateConnected
}

// check fails if what the hosts know of each other does not match.
func (p *pair) check() {
	p.hosts[0].t.Helper()
	for _, h := range p.hosts {
		s, q := &h.side, &h.peer.side
		if h.c.LocalTag == 0 || h.c.LocalTag != h.peer.c.RemoteTag || h.c.Remote != h.peer.c.Local() || s.attempt != nil {
			h.t.Fatalf("%v of tag %d is connected to %v of tag %d", h.c.Local(), h.c.LocalTag, h.c.Remote, h.peer.c.RemoteTag)
		}
		if s.PeerTerms != q.Terms || s.PeerIncarnation != h.peer.a.Incarnation() || s.Err != nil {
			h.t.Fatalf("%+v of %x (%v), want %+v of %x", s.PeerTerms, s.PeerIncarnation, s.Err, q.Terms, h.peer.a.Incarnation())
		}
	}
}
