package mplite

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// What a rank says that leaves Init without the others, so that they need not wait
// for it until their time is up, nor guess why it has gone.

const (
	tellFor   = 250 * time.Millisecond // how long a rank tries to be heard
	lingerFor = 300 * time.Millisecond // how long rank 0 stays to tell those who have not asked yet
)

// leave tells the others why this rank ends: those that it is connected with, and
// rank 0 in any case. Rank 0, by which all come, stays for a moment to tell the
// rest, if the program here has time.
func (m *meeting) leave(err error, patient bool) {
	ctx, cancel := m.nic.WithTimeout(context.Background(), tellFor)
	defer cancel()
	last := &meeting{world: m.world, ctx: ctx, end: m.nic.Now() + int64(tellFor)}
	last.waits.said = true
	r := m.id.ReportOf(err)
	own := r.Rank == m.rank && !r.Twice() // else all that can be told have been
	if own && m.rank > 0 && m.peers[0].absent() && !errors.Is(err, vipl.ErrReject) {
		last.introduce()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if own {
		m.sayAll(r)
	}
	m.settle()
	if m.rank == 0 && patient {
		m.linger(r)
	}
	m.turnAway(r, func(*job.Hello) {})
}

// settle waits until what the others were told has been heard.
func (m *meeting) settle() {
	ctx, cancel := m.nic.WithTimeout(context.Background(), tellFor)
	defer cancel()
	for m.anyPeer((*peer).unheard) && m.step(ctx) == nil {
	}
}

// turnAway tells those who have asked for a connection why there will be none.
func (m *meeting) turnAway(r job.Report, told func(*job.Hello)) {
	for _, req := range append(m.asked, m.postponed...) {
		if h := m.id.ParseHello(req.Data()); m.id.Named(&h) {
			told(&h)
		}
		req.Reject(r.String())
	}
	m.asked, m.postponed = nil, nil
}

// unheard reports whether p has not acknowledged what it was told.
func (p *peer) unheard() bool {
	return p.vi != nil && p.vi.State() == vipl.StateConnected && (p.txBusy > 0 || p.pending.n > 0 && p.state < peerDead)
}

// introduce connects with rank 0 for no other end than to tell it why this rank
// does not come. It may be for want of memory, so it takes little.
func (m *meeting) introduce() {
	p := m.peers[0]
	p.close()
	*p = peer{w: m.world, rank: 0}
	m.cfg.Credits, m.cfg.EagerSize = 2, 64
	m.dial(p)
}

// linger tells who asks now why the job does not come together, until all ranks
// have been told.
func (m *meeting) linger(r job.Report) {
	ctx, cancel := m.nic.WithTimeout(context.Background(), lingerFor)
	defer cancel()
	untold := map[int]bool{}
	for _, p := range m.peers {
		if p != nil && !p.said {
			untold[p.rank] = true
		}
	}
	for {
		m.turnAway(r, func(h *job.Hello) { delete(untold, int(h.Rank)) })
		if len(untold) == 0 || m.step(ctx) != nil {
			return
		}
	}
}
