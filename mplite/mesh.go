package mplite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// How the ranks find and connect each other: each listens, advertises the
// listener's address as job/<name>/<rank>, connects to every lower rank in
// ascending order, and then accepts the higher ones. Rank 0 accepts at once,
// so the rest follow one after the other, each a handshake behind its
// predecessor, and no cycle of ranks can wait for each other. A rank listens
// before it can be found, so nobody meets a closed door; requests wait
// meanwhile.
//
// Rank 0 draws a nonce and tells it to each rank in its first message, before
// that one connects to others or accepts them: what belongs to another run of a
// job of the same name is refused. See admit.go and twice.go.
//
// Whatever a rank waits for, it hears those that it is connected with: when one
// dies, or says that another has, Init ends and names that one. Who ends for a
// reason of its own says it to the others; see lastwords.go.

// meeting is a rank's part in that.
type meeting struct {
	*world
	ctx context.Context // ends when time is up
	end int64           // the same, on the NIC's clock

	postponed []*vipl.Request  // of ranks that are being accepted
	accepting []*peer          // whose requests have been accepted, and who are not connected yet
	pace      time.Duration    // after which to look at those again
	checked   map[uint32]int64 // when the segment was asked who claims a rank
	refusal   string           // of the last request that was refused
	waits     wait
}

// mesh connects this rank with all others, within Config.Timeout and until
// parent ends.
func (w *world) mesh(parent context.Context) error {
	if err := w.open(); err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	ctx, cancel := w.bounded(parent)
	defer cancel()
	began := w.nic.Now()
	m := &meeting{world: w, ctx: ctx, end: began + int64(w.cfg.Timeout), checked: map[uint32]int64{}}
	m.waits.sayAt = began + int64(sayAfter)
	err := m.meet()
	w.mu.Lock()
	why := w.hopeless()
	w.mu.Unlock()
	switch {
	case err == nil && why == nil:
		m.adjourn()
		return nil
	case why != nil:
		err = why
	case parent.Err() != nil:
		err = fmt.Errorf("mplite: init: %w: %w before %s of job %q had connected", ErrInit, parent.Err(), job.Ranks(w.unconnected()), w.id.Name)
	case timeIsUp(err):
		err = m.missing(time.Duration(w.nic.Now()-began).Round(time.Millisecond), err)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.settle()
		m.turnAway(m.id.ReportOf(cmp.Or(w.hopeless(), err)), func(*job.Hello) {})
		return err
	}
	m.leave(err, parent.Err() == nil)
	return err
}

// open listens, and lets others find where.
func (w *world) open() (err error) {
	if w.listener, err = w.nic.Listen(0); err != nil {
		return err
	}
	if err := w.listener.Bind(w.cq); err != nil {
		return err
	}
	if w.rank == 0 {
		w.id.Nonce = job.NewNonce()
	}
	return w.nic.Advertise(w.id.Address(w.rank), w.listener.Addr())
}

// meet is the order of it that the comment above describes.
func (m *meeting) meet() error {
	if m.rank == 0 {
		if err := m.findRival(); err != nil {
			return err
		}
	}
	for _, p := range m.peers[:m.rank] {
		if err := m.dial(p); err != nil {
			return err
		}
	}
	m.waits.at(waitAsked, 0, ethertype.Addr{})
	if err := m.welcome(); err != nil {
		return err
	}
	return m.attend(m.ctx, func() bool { return !m.anyPeer((*peer).silent) })
}

// attend handles what comes until done. It fails when ctx ends, or when the job
// cannot come together any more. It says whom it waits for when that takes long.
func (m *meeting) attend(ctx context.Context, done func() bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if err := m.hopeless(); err != nil || done() {
			return err
		}
		if m.waits.said {
			if err := m.step(ctx); err != nil {
				return err
			}
			continue
		}
		patient, cancel := m.nic.WithTimeout(ctx, time.Duration(m.waits.sayAt-m.nic.Now()))
		err := m.step(patient)
		cancel()
		if m.nic.Now() >= m.waits.sayAt {
			m.mu.Unlock()
			m.sayAwaited()
			m.mu.Lock()
		} else if err != nil {
			return err
		}
	}
}

// attendFor is attend for a while at the most, whose end is no failure.
func (m *meeting) attendFor(while time.Duration, done func() bool) error {
	ctx, cancel := m.nic.WithTimeout(m.ctx, while)
	defer cancel()
	if err := m.attend(ctx, done); err != nil && (!timeIsUp(err) || m.over()) {
		return err
	}
	return nil
}

// hopeless returns what makes waiting for the rest of the job useless, or nil.
func (w *world) hopeless() error {
	if len(w.dead) > 0 {
		return w.dead[0].err
	}
	return w.fatal
}

// over reports whether time is up.
func (m *meeting) over() bool { return m.ctx.Err() != nil || m.nic.Now() >= m.end }

func (p *peer) absent() bool { return p.state == peerAbsent }
func (p *peer) silent() bool { return p.state == peerGreeting }

// dial connects to a lower rank. Rank 0 has then told which run this is.
func (m *meeting) dial(p *peer) error {
	if err := p.init(time.Duration(m.end - m.nic.Now())); err != nil { // the rank may wait for others itself
		return fmt.Errorf("mplite: init: %w", err)
	}
	for {
		addr, err := m.find(p)
		if err != nil {
			return fmt.Errorf("mplite: init: rank %d: %w", p.rank, err)
		}
		m.waits.at(waitAnswer, p.rank, addr)
		data := m.hello()
		if err = p.vi.ConnectStart(addr, data[:]); err == nil {
			err = m.connected(p)
		}
		switch {
		case err == nil:
			p.greet()
			return m.attend(m.ctx, func() bool { return p.rank != 0 || !p.silent() })
		case !m.again(err):
			return m.turnedAway(p, addr, err)
		}
		if err := m.attendFor(lookAgain, func() bool { return false }); err != nil {
			return err
		}
	}
}

// busy is what a rank says to whom it cannot listen now.
const busy = "too many ask at once: ask again"

// again reports whether an attempt to connect that has failed is worth another
// one: the rank has lost it, or had no room for it.
func (m *meeting) again(err error) bool {
	var refused *vipl.ConnError
	return errors.Is(err, vipl.ErrNoMatch) || errors.As(err, &refused) && refused.Detail == busy
}

// turnedAway returns why the rank p at addr cannot be reached. If it says that the
// job cannot come together, that is why.
func (m *meeting) turnedAway(p *peer, addr ethertype.Addr, err error) error {
	var refused *vipl.ConnError
	if errors.As(err, &refused) && errors.Is(err, vipl.ErrReject) {
		if r, ok := job.ParseReport(refused.Detail, m.size); ok {
			m.mu.Lock()
			defer m.mu.Unlock()
			if heard := m.hear(r, p.rank); heard != nil {
				return heard
			}
		}
	}
	return fmt.Errorf("mplite: init: rank %d at %v: %w", p.rank, addr, err)
}

// How long Init asks for a rank, and then how long it hears the others, before
// it asks again: each time twice as long.
const (
	askFirst = 50 * time.Millisecond
	askMost  = 400 * time.Millisecond
)

// find returns the address of a rank as soon as that has one.
func (m *meeting) find(p *peer) (addr ethertype.Addr, err error) {
	m.waits.at(waitName, p.rank, ethertype.Addr{})
	for ask := askFirst; ; ask = min(2*ask, askMost) {
		ctx, cancel := m.nic.WithTimeout(m.ctx, ask)
		addr, err = m.nic.Lookup(ctx, m.id.Address(p.rank))
		cancel()
		if err == nil || !timeIsUp(err) || m.over() {
			return addr, err
		}
		if err := m.attendFor(ask, func() bool { return false }); err != nil {
			return addr, err
		}
	}
}

// lookAgain is when a rank looks whether it is connected, if it does not hear
// the other one's first message before: a refusal brings none.
const lookAgain = 20 * time.Millisecond

// connected waits until the attempt to connect with p has an end.
func (m *meeting) connected(p *peer) error {
	end := vipl.ErrNotDone
	for {
		err := m.attendFor(lookAgain, func() bool {
			end = p.vi.ConnectDone()
			return !errors.Is(end, vipl.ErrNotDone)
		})
		if err != nil {
			return err
		}
		if !errors.Is(end, vipl.ErrNotDone) {
			return end
		}
	}
}

// greet sends the first message over a new connection.
func (p *peer) greet() {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.state != peerAbsent {
		return // its first message has ended it already
	}
	p.state = peerGreeting
	p.say(control{kind: kindHello})
	if p.said {
		p.state = peerLive
	}
}

// greeted handles the peer's first message.
func (p *peer) greeted(body []byte) {
	w := p.w
	m := w.id.ParseHello(body)
	if p.rank == 0 && w.id.Nonce == 0 {
		w.id.Nonce = m.Nonce
	}
	err := w.id.Check(&m)
	eager, credits := m.Params[0], m.Params[1]
	if err == nil && (p.said || int(m.Rank) != p.rank || credits < 2 || eager < 64 || w.id.Nonce == 0) {
		err = errGarbled
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.said = true
	p.credits = int(credits)
	p.eagerMax = min(int(eager), w.cfg.EagerSize)
	if p.state == peerGreeting {
		p.state = peerLive
	}
}
