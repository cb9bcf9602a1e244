package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/directory"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// Machine is the state of a NIC that its engine drives.
type Machine struct {
	conn.Shared // the common state of its connections
	Link        transport.Link
	Info        transport.Info
	Ports       Ports
	Strangers   guard.Strangers
	Connects    handshake.Table
	Ended       TimeWait
	Dir         directory.Directory
	Closed      bool // the NIC is closed

	eng    *progress.Engine
	log    *slog.Logger
	hooks  Hooks
	rel    reliability.Config
	host   local // path to stations of this host
	health health
	views  [][]byte // as many as one poll receives
}

// Hooks are the reports of a machine to its NIC.
type Hooks struct {
	// Dead reports that the link has failed permanently.
	Dead func(cause error)
	// Damaged reports that a peer's RDMA write to a connection of the unreliable level has arrived
	// damaged.
	Damaged func(c *conn.Conn)
	// Sealed reports an encrypted frame on a link without a key, which has been counted. The frame
	// has a valid outer layout.
	Sealed func(frame []byte)
	// Speaks reports whether the NIC answers for all NICs of its interface on this host. Nil means
	// true.
	Speaks func(now int64) bool
}

var _ progress.Machine = (*Machine)(nil)

// Init initializes a machine for a link whose MTU is at least handshake.MinMTU. In virtual time
// seed determines the incarnation and all other random values.
func (m *Machine) Init(link transport.Link, eng *progress.Engine, log *slog.Logger, rel *reliability.Config, seed uint64, hooks Hooks) {
	m.Link, m.Info, m.eng, m.log, m.rel, m.hooks = link, link.Info(), eng, log, *rel, hooks
	m.limitFlight()
	m.host.init(m)
	m.Strangers.Random.Init(seed, m.Info.Virtual)
	m.Strangers.Tokens.Init(&m.Strangers.Random)
	m.Strangers.Answers.AtOnce = answersAtOnce
	m.Ports.init(m.Info.Ports)
	m.Ended.m = m
	m.health.init(m)
	m.Shared.Init(link, eng, &m.Info, m.Strangers.Random.Uint64(), log, conn.Hooks{
		LinkError: m.health.recordError, Trouble: m.Trouble, Sweep: m.sweep, MTU: m.mtuTo, Limits: m.relTo, Lives: m.lives,
	})
	if m.health.checks {
		m.SweepFrom(m.Now())
	}
	m.Connects.Init(&m.Shared, &m.Info, m.Addr(), &m.Strangers, handshake.Hooks{
		Side: m.Ports.side, Listener: m.Ports.listener, Reaches: m.Reaches, MTU: m.mtuTo, Stray: m.stray, Trouble: m.TroubleTo,
	})
	m.Dir.Init(segment{m}, eng, &m.Strangers.Random, directory.Self{
		Addr: m.Addr(), Ports: m.Info.Ports, Interface: m.Info.Interface, Driver: m.Info.Driver, MTU: m.Info.MTU, MinMTU: MinMTU,
		MaxData: m.Info.MTU - ethertype.BaseSize, Incarnation: m.Incarnation(),
	})
}

// answersAtOnce is the maximum number of VIs of a NIC, because each VI of another NIC may
// need an answer.
const answersAtOnce = 1 << 14

// Addr returns the address of the NIC itself: the lowest port of its range.
func (m *Machine) Addr() ethertype.Addr {
	return ethertype.Addr{MAC: m.Info.MAC, Port: m.Info.Ports.Lo}
}

// flightBytes bounds the bytes in flight to what stays in a processor's cache between the copies.
// Beyond that, larger windows of large frames are slower, not faster.
const (
	flightBytes = 4 << 20
	flightMin   = 16 // frames
)

// limitFlight adjusts window and batches to the size of the link's frames.
func (m *Machine) limitFlight() {
	window := max(flightBytes/m.Info.MTU, flightMin)
	if m.Info.Slots > 0 { // a single peer must not be able to overrun the receive queue
		window = min(window, max(m.Info.Slots/2, 8))
	}
	m.rel.Window = min(m.rel.Window, window)
	m.rel.InitialWindow = min(m.rel.InitialWindow, m.rel.Window)
	m.views = make([][]byte, min(conn.Burst(m.Info.MTU), transport.MaxBatch))
}

// Idle implements progress.Machine. It sends delayed acknowledgements, and messages that wait to
// share a frame.
func (m *Machine) Idle() {
	m.FinishReceives()
	m.Uncork()
	m.FlushPending()
}

// NextTimer implements progress.Machine.
func (m *Machine) NextTimer() int64 {
	return m.FindTimer()
}

// Woke implements progress.Machine.
func (m *Machine) Woke(err error) {
	if err != nil {
		m.health.recordError(err)
	}
}

// Failed implements progress.Machine.
func (m *Machine) Failed() error { return m.health.dead }

// sweep checks the interface and makes each connection check its peer.
func (m *Machine) sweep() {
	m.health.check()
	if m.health.checks && m.health.dead == nil { // a listener, or a program about to connect, cannot detect a change otherwise
		m.SweepFrom(m.Now())
	}
	for c := range m.Ports.Conns() {
		c.KeepAlive()
	}
}

// MinMTU is the smallest MTU for the frames of the handshake.
const MinMTU = handshake.MinMTU

// segment is the machine as its directory accesses it.
type segment struct{ m *Machine }

func (s segment) Now() int64                                      { return s.m.Link.Now() }
func (s segment) Send(h ethertype.Header, parts ...[]byte)        { s.m.SendControl(h, parts...) }
func (s segment) SendPadded(h ethertype.Header, id []byte, n int) { s.m.SendPadded(h, id, n) }
func (s segment) Flush()                                          { s.m.Flush() }
func (s segment) Unknown()                                        { s.m.Drop(drops.Unknown) }
func (s segment) Wait(w *progress.Waiter, g *progress.Gate) error { return s.m.Wait(w, g) }
func (s segment) Closed() bool                                    { return s.m.Closed }
func (s segment) Dead() error                                     { return s.m.Dead() }
func (s segment) Trouble() error                                  { return s.m.Trouble() }
func (s segment) ShareTrouble() error                             { return optional.ShareTrouble(s.m.Link) }
func (s segment) Speaks() bool {
	return s.m.hooks.Speaks == nil || s.m.hooks.Speaks(s.m.Now())
}
func (s segment) MayAnswer(kind guard.Answer) bool {
	return s.m.Strangers.Answers.Allow(kind, s.m.Now())
}

// Wait lets time pass for a caller that has found nothing at g. It returns nil to make the caller
// check again, or an error that ends the wait.
func (m *Machine) Wait(w *progress.Waiter, g *progress.Gate) error {
	if err := m.eng.Wait(w, g); err != nil {
		return WaitError(err)
	}
	return nil
}

// WaitError converts the error of progress.Engine.Wait to an error of package vipl.
func WaitError(err error) error {
	var end *progress.EndError
	errors.As(err, &end)
	switch {
	case end.Failed != nil:
		return code.Within("wait", fmt.Errorf("%w: %w", code.ErrLink, end.Failed))
	case end.Context != nil:
		return code.Within("wait", fmt.Errorf("%w: %w", code.ErrTimeout, end.Context))
	}
	return code.Within("wait", fmt.Errorf("%w after %v", code.ErrTimeout, end.After.Round(time.Millisecond)))
}
