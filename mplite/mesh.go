package mplite

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// links is the world as package job sees it: the connections with the other ranks.
// The lock is the world's mutex.
type links struct{ w *world }

func (l links) Lock()                          { l.w.mu.Lock() }
func (l links) Unlock()                        { l.w.mu.Unlock() }
func (l links) Step(ctx context.Context) error { return l.w.step(ctx) }
func (l links) State(rank int) job.State       { return job.State(l.w.peers[rank].state) }
func (l links) Greet(rank int)                 { l.w.peers[rank].greet() }
func (l links) Tell(r job.Report)              { l.w.sayAll(r) }
func (l links) End(err *DuplicateError)        { l.w.duplicate(err) }
func (l links) Params() [2]uint32              { return l.w.params() }

// Open makes the VI and the buffers of a rank.
func (l links) Open(rank int, connect time.Duration) (*vipl.VI, error) {
	p := l.w.peers[rank]
	err := p.init(connect)
	return p.VI, err
}

// Reset makes the rank's next connection one for a few short messages.
func (l links) Reset(rank int) {
	p := l.w.peers[rank]
	p.Close()
	*p = peer{w: l.w, rank: rank}
	l.w.cfg.Credits, l.w.cfg.EagerSize = 2, 64
}

// Fail makes a rank dead.
func (l links) Fail(rank int, cause error) error {
	p := l.w.peers[rank]
	p.fail(cause)
	return p.err
}

// Err returns what makes waiting for the rest of the job useless, or nil.
func (l links) Err() error {
	if w := l.w; len(w.dead) > 0 {
		return w.dead[0].err
	}
	return l.w.fatal
}

// Unacked returns how many messages to connected ranks are not acknowledged yet.
func (l links) Unacked() (n int) {
	for _, p := range l.w.peers {
		if p != nil && p.Connected() {
			n += p.unacked()
		}
	}
	return n
}

// unacked returns how many messages p, which is connected, has not acknowledged.
func (p *peer) unacked() int {
	return p.Busy + p.pending.Len()
}

// greet sends the first message over a new connection.
func (p *peer) greet() {
	if p.state != peerAbsent {
		return // its first message has ended it already
	}
	p.state = peerGreeting
	p.say(control{kind: kindHello})
	if p.w.job.Said(p.rank) {
		p.state = peerLive
	}
}

// greeted handles the peer's first message.
func (p *peer) greeted(body []byte) {
	w := p.w
	m, err := w.job.Greeted(p.rank, body)
	eager, credits := m.Params[0], m.Params[1]
	if err == nil && (credits < 2 || eager < 64) {
		err = errGarbled
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.credits = int(credits)
	p.eagerMax = min(int(eager), w.cfg.EagerSize)
	if p.state == peerGreeting {
		p.state = peerLive
	}
}
