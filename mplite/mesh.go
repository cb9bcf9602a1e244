package mplite

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
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
// Whatever a rank waits for, it hears those that it is connected with: when one
// dies, or says that another has, Init ends and names that one. Who runs out of
// time says so to the others, with the rank that it has missed.

// meeting is a rank's part in that.
type meeting struct {
	*world
	ctx context.Context // ends when time is up
	end int64           // the same, on the NIC's clock
}

// mesh connects this rank with all others, within Config.Timeout and until
// parent ends.
func (w *world) mesh(parent context.Context) error {
	listener, err := w.nic.Listen(0)
	if err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	defer listener.Close()
	if err := listener.Bind(w.cq); err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	if err := w.nic.Advertise(w.name(w.rank), listener.Addr()); err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	ctx, cancel := w.bounded(parent)
	defer cancel()
	began := w.nic.Now()
	m := &meeting{w, ctx, began + int64(w.cfg.Timeout)}
	defer m.turnAway()
	err = m.meet()
	w.mu.Lock()
	why := w.hopeless()
	w.mu.Unlock()
	switch {
	case why != nil:
		return why
	case err != nil && parent.Err() != nil:
		return fmt.Errorf("mplite: init: %w: %w before %s of job %q had connected", ErrInit, parent.Err(), naming(w.unconnected()), w.job)
	case err != nil && timeIsUp(err):
		return w.missing(time.Duration(w.nic.Now()-began).Round(time.Millisecond), err)
	default:
		return err
	}
}

// meet is the order of it that the comment above describes.
func (m *meeting) meet() error {
	for _, p := range m.peers[:m.rank] {
		if err := m.dial(p); err != nil {
			return err
		}
	}
	for m.anyPeer((*peer).absent) {
		if err := m.attend(m.ctx, func() bool { return len(m.asked) > 0 }); err != nil {
			return err
		}
		req := m.asked[0]
		m.asked = m.asked[1:]
		if err := m.admit(req); err != nil {
			return err
		}
	}
	return m.attend(m.ctx, func() bool { return !m.anyPeer((*peer).silent) })
}

// attend handles what comes until done. It fails when ctx ends, or when the job
// cannot come together any more.
func (m *meeting) attend(ctx context.Context, done func() bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if err := m.hopeless(); err != nil || done() {
			return err
		}
		if err := m.step(ctx); err != nil {
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

// turnAway refuses those who have asked and were not needed.
func (m *meeting) turnAway() {
	for _, req := range m.asked {
		req.Reject(fmt.Sprintf("rank %d of job %q takes nobody any more", m.rank, m.job))
	}
	m.asked = nil
}

func (p *peer) absent() bool { return p.state == peerAbsent }
func (p *peer) silent() bool { return p.state == peerGreeting }

// hello returns what this rank says of itself.
func (w *world) hello() hello {
	h := fnv.New64a()
	h.Write([]byte(w.job))
	return hello{
		job: h.Sum64(), rank: uint32(w.rank), size: uint32(w.size),
		eager: uint32(w.cfg.EagerSize), credits: uint32(w.cfg.Credits),
	}
}

// dial connects to a lower rank.
func (m *meeting) dial(p *peer) error {
	addr, err := m.find(p.rank)
	if err != nil {
		return fmt.Errorf("mplite: init: rank %d: %w", p.rank, err)
	}
	if err := p.init(time.Duration(m.end - m.nic.Now())); err != nil { // the rank may wait for others itself
		return fmt.Errorf("mplite: init: %w", err)
	}
	var data [helloSize]byte
	mine := m.hello()
	mine.put(data[:])
	err = p.vi.ConnectStart(addr, data[:])
	if err == nil {
		err = m.connected(p)
	}
	if err != nil {
		return fmt.Errorf("mplite: init: rank %d at %v: %w", p.rank, addr, err)
	}
	p.greet()
	return nil
}

// How long Init asks for a rank, and then how long it hears the others, before
// it asks again: each time twice as long.
const (
	askFirst = 50 * time.Millisecond
	askMost  = 400 * time.Millisecond
)

// find returns the address of a rank as soon as that has one.
func (m *meeting) find(rank int) (addr ethertype.Addr, err error) {
	for ask := askFirst; ; ask = min(2*ask, askMost) {
		ctx, cancel := m.nic.WithTimeout(m.ctx, ask)
		addr, err = m.nic.Lookup(ctx, m.name(rank))
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

// admit accepts one higher rank, or refuses who does not belong here.
func (m *meeting) admit(req *vipl.Request) error {
	var h hello
	version := h.parse(req.Data())
	if err := m.examine(&h, version); err != nil {
		req.Reject(err.Error())
		if errors.Is(err, errStranger) {
			return nil
		}
		return err
	}
	p := m.peers[h.rank]
	if p.state != peerAbsent {
		req.Reject(fmt.Sprintf("there is already a rank %d in job %q", h.rank, m.job))
		return nil
	}
	if p.vi == nil {
		if err := p.init(vipl.DefaultConnectTimeout); err != nil {
			return fmt.Errorf("mplite: init: %w", err)
		}
	}
	accepting, cancel := m.nic.WithTimeout(m.ctx, vipl.DefaultConnectTimeout) // who has asked is there, or has gone
	defer cancel()
	switch err := req.Accept(accepting, p.vi); {
	case errors.Is(err, vipl.ErrDisconnected) || errors.Is(err, vipl.ErrTimeout) && !m.over():
		return nil // the rank has tired of waiting, and asks again
	case err != nil:
		return fmt.Errorf("mplite: init: rank %d at %v: %w", p.rank, req.Remote(), err)
	}
	p.greet()
	return nil
}

// errStranger is the class of what is no fault of this job.
var errStranger = errors.New("not of this job")

// examine says what is wrong with a requester.
func (w *world) examine(m *hello, version uint32) error {
	mine := w.hello()
	switch {
	case version != wireVersion:
		return fmt.Errorf("%w: MPLite wire version %d, this is %d: build all ranks from one source", errStranger, version, wireVersion)
	case m.job != mine.job:
		return fmt.Errorf("%w: its name hashes to %x, that of job %q to %x", errStranger, m.job, w.job, mine.job)
	case m.size != mine.size:
		return opError("init", ErrInit, "job %q has %d ranks according to rank %d and %d according to rank %d: start all ranks with the same %s",
			w.job, m.size, m.rank, w.size, w.rank, EnvSize)
	case m.rank >= m.size || int(m.rank) == w.rank:
		return fmt.Errorf("%w: rank %d of %d asks rank %d", errStranger, m.rank, m.size, w.rank)
	}
	return nil
}

// greet sends the first message over a new connection.
func (p *peer) greet() {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p.state = peerGreeting
	p.say(control{kind: kindHello})
	if p.said {
		p.state = peerLive
	}
}

// greeted handles the peer's first message.
func (p *peer) greeted(body []byte) {
	var m hello
	version := m.parse(body)
	err := p.w.examine(&m, version)
	if err == nil && (p.said || int(m.rank) != p.rank || m.credits < 2 || m.eager < 64) {
		err = errGarbled
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.said = true
	p.credits = int(m.credits)
	p.eagerMax = min(int(m.eager), p.w.cfg.EagerSize)
	if p.state == peerGreeting {
		p.state = peerLive
	}
}
