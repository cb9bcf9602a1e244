package mplite

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// How the ranks find and connect each other: each listens, advertises the
// listener's address as job/<name>/<rank>, connects to every lower rank in
// ascending order, and then accepts the higher ones. Rank 0 accepts at once,
// so the rest follow one after the other, each a handshake behind its
// predecessor, and no cycle of ranks can wait for each other. A rank listens
// before it can be found, so nobody meets a closed door; requests wait in the
// listener meanwhile.

// mesh connects this rank with all others, within Config.Timeout and until
// parent ends.
func (w *world) mesh(parent context.Context) error {
	listener, err := w.nic.Listen(0)
	if err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	defer listener.Close()
	if err := w.nic.Advertise(w.name(w.rank), listener.Addr()); err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	ctx, cancel := w.bounded(parent)
	defer cancel()
	began := w.nic.Now()
	switch err := w.meet(ctx, listener); {
	case err != nil && parent.Err() != nil:
		return fmt.Errorf("mplite: init: %w: %w before %s of job %q had connected", ErrInit, parent.Err(), naming(w.unconnected()), w.job)
	case err != nil && timeIsUp(err):
		return w.missing(time.Duration(w.nic.Now()-began).Round(time.Millisecond), err)
	default:
		return err
	}
}

// meet is the order of it that the comment above describes.
func (w *world) meet(ctx context.Context, listener *vipl.Listener) error {
	for _, p := range w.peers[:w.rank] {
		if err := p.dial(ctx); err != nil {
			return err
		}
	}
	for w.anyPeer((*peer).absent) {
		if err := w.admit(ctx, listener); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.anyPeer((*peer).silent) {
		if err := w.step(ctx); err != nil {
			return err
		}
	}
	if len(w.dead) > 0 {
		return w.dead[0].err
	}
	return w.fatal
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
func (p *peer) dial(ctx context.Context) error {
	w := p.w
	addr, err := w.nic.Lookup(ctx, w.name(p.rank))
	if err != nil {
		return fmt.Errorf("mplite: init: rank %d: %w", p.rank, err)
	}
	if err := p.init(); err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	var data [helloSize]byte
	mine := w.hello()
	mine.put(data[:])
	if err := p.vi.Connect(ctx, addr, data[:]); err != nil { // as long as ctx lets it: the rank may wait for others itself
		return fmt.Errorf("mplite: init: rank %d at %v: %w", p.rank, addr, err)
	}
	p.greet()
	return nil
}

// admit accepts one higher rank, or refuses who does not belong here.
func (w *world) admit(ctx context.Context, l *vipl.Listener) error {
	req, err := l.Wait(ctx)
	if err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	var m hello
	version := m.parse(req.Data())
	if err := w.examine(&m, version); err != nil {
		req.Reject(err.Error())
		if errors.Is(err, errStranger) {
			return nil
		}
		return err
	}
	p := w.peers[m.rank]
	if p.state != peerAbsent {
		req.Reject(fmt.Sprintf("there is already a rank %d in job %q", m.rank, w.job))
		return nil
	}
	if p.vi == nil {
		if err := p.init(); err != nil {
			return fmt.Errorf("mplite: init: %w", err)
		}
	}
	accepting, cancel := w.nic.WithTimeout(ctx, vipl.DefaultConnectTimeout) // who has asked is there, or has gone
	defer cancel()
	switch err := req.Accept(accepting, p.vi); {
	case errors.Is(err, vipl.ErrDisconnected) || errors.Is(err, vipl.ErrTimeout) && ctx.Err() == nil:
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

// timeIsUp tells the end of the time for Init from what is worth an error of
// its own. A rank that does not answer a request to connect is that.
func timeIsUp(err error) bool {
	var refused *vipl.ConnError
	return !errors.As(err, &refused) && (errors.Is(err, vipl.ErrNameService) || errors.Is(err, vipl.ErrTimeout) || errors.Is(err, context.DeadlineExceeded))
}

// How long Init looks, when time is up, for the ranks that it is not connected
// with, and for one of them: it asks for the first few only.
const (
	lookForAll = 200 * time.Millisecond
	lookForOne = 50 * time.Millisecond
)

// missing returns Init's error when time is up. It asks the segment once more,
// to tell the ranks that are not there from those that wait themselves.
func (w *world) missing(took time.Duration, cause error) error {
	var silent []int
	rest := w.unconnected()
	for end := w.nic.Now() + int64(lookForAll); len(rest) > 0 && w.nic.Now() < end; rest = rest[1:] {
		ctx, cancel := w.nic.WithTimeout(context.Background(), lookForOne)
		if _, err := w.nic.Lookup(ctx, w.name(rest[0])); err != nil {
			silent = append(silent, rest[0])
		}
		cancel()
	}
	if len(silent) == 0 {
		return opError("init", ErrInit, "%s of job %q did not connect within %v: %v", naming(w.unconnected()), w.job, took, cause)
	}
	more := ""
	if len(rest) > 0 {
		more = fmt.Sprintf("; %d more have not connected", len(rest))
	}
	return opError("init", ErrInit, "%s of job %q did not appear within %v: check that it runs, on this segment, with the same %s%s (%v)",
		naming(silent), w.job, took, EnvJob, more, cause)
}

// unconnected returns the ranks that this one does not talk with yet.
func (w *world) unconnected() (ranks []int) {
	for _, p := range w.peers {
		if p != nil && p.state != peerLive {
			ranks = append(ranks, p.rank)
		}
	}
	return ranks
}

// naming writes ranks for people, the first few by number.
func naming(ranks []int) string {
	const few = 8
	var text []string
	for _, rank := range ranks[:min(few, len(ranks))] {
		text = append(text, fmt.Sprint(rank))
	}
	if n := len(ranks) - few; n > 0 {
		text = append(text, fmt.Sprintf("and %d more", n))
	}
	return "rank " + strings.Join(text, ", ")
}
