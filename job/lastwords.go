package job

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/vipl"
)

// What a rank reports when it leaves Meet without the others, so that they do not have to wait for
// the timeout or guess why it has left.

const (
	tellFor     = 250 * time.Millisecond // how long a rank tries to deliver its report
	tellLateFor = 300 * time.Millisecond // how long rank 0 stays to tell ranks that have not asked yet
	lastAckFor  = 3 * time.Second        // how long a rank waits for the next acknowledgement after all have said goodbye
)

// AwaitAcks implements joining.Job.
func (j *membership) AwaitAcks(ctx context.Context) error {
	for j.links.Unacked() > 0 {
		if came, err := j.nextAck(ctx); !came {
			return err
		}
	}
	return nil
}

// nextAck waits for an acknowledgement, and reports whether one has arrived.
func (j *membership) nextAck(ctx context.Context) (came bool, err error) {
	last, cancel := j.nic.WithTimeout(ctx, lastAckFor)
	defer cancel()
	for before := j.links.Unacked(); ; {
		err := j.links.Step(last)
		switch {
		case j.links.Unacked() < before:
			return true, nil
		case err != nil && ctx.Err() == nil && timeIsUp(err):
			return false, nil
		case err != nil:
			return false, err
		}
	}
}

// leave tells other ranks why this one ends: those that it is connected with, and in any case rank
// 0, or in a tree the rank above. Rank 0, which all ranks contact, and in a tree each rank with
// others below it, stays for a moment to tell the rest.
func (m *meeting) leave(err error) {
	ctx, cancel := m.nic.WithTimeout(context.Background(), tellFor)
	defer cancel()
	last := &meeting{membership: m.membership, ctx: ctx, end: m.nic.Now() + int64(tellFor)}
	last.waits.said = true
	r := m.ReportOf(err)
	own := r.Rank == m.Rank && !r.Twice() // otherwise all reachable ranks have been told
	if own && m.Rank > 0 && m.links.State(m.first()) == joining.Absent && !errors.Is(err, vipl.ErrReject) {
		last.introduce()
	}
	m.links.Lock()
	defer m.links.Unlock()
	if own {
		m.links.Tell(r)
	}
	t, isTree := m.links.(*tree)
	if isTree {
		t.ending = true
	}
	m.drain()
	if m.Rank == 0 || m.tree {
		m.tellLate(r)
	}
	if isTree && !own && !r.Twice() && m.Nonce != 0 {
		t.giveUp(r)
		m.drain()
	}
	m.turnAway(r, func(*hello) {})
}

// giveUp tells the ranks that have joined that this one has not, because of the failure in r.
// Otherwise they would wait for it when they leave. If the rank above this one has failed, giveUp
// tells the next living one. The ranks below this one give up as well, and report it through this
// rank, so it waits for them first.
func (t *tree) giveUp(r joining.Report) {
	ctx, cancel := t.nic.WithTimeout(context.Background(), tellLateFor)
	defer cancel()
	if up := t.nextAbove(t.job.Rank); up >= 0 && !t.address(up).IsZero() {
		t.link(up)
	}
	waits := func(p *link) bool { return p.rank > t.job.Rank && p.talks() }
	for (len(t.dialing) > 0 || slices.ContainsFunc(t.near, waits)) && t.Step(ctx) == nil {
	}
	t.Tell(joining.Report{Rank: t.job.Rank, Why: gaveUp(r)})
}

// drain waits until this rank's reports have been acknowledged.
func (m *meeting) drain() {
	ctx, cancel := m.nic.WithTimeout(context.Background(), tellFor)
	defer cancel()
	for m.links.Unacked() > 0 && m.links.Step(ctx) == nil {
	}
}

// turnAway tells the ranks that have requested a connection why there will be none.
func (m *meeting) turnAway(r joining.Report, told func(*hello)) {
	for _, req := range slices.Concat(m.asked, m.postponed, m.early) {
		if h := m.parseHello(req.Data()); m.named(&h) {
			told(&h)
		}
		req.Reject(r.String())
	}
	m.asked, m.postponed, m.early = nil, nil, nil
}

// introduce connects with rank 0, or in a tree with the rank above, only to tell it why this rank
// does not join. The reason may be a lack of memory, so introduce uses little.
func (m *meeting) introduce() {
	m.links.Reset(m.first())
	delete(m.vis, m.first())
	m.dial(m.first())
}

// tellLate tells ranks that ask now why the job does not start, until all ranks have been told.
func (m *meeting) tellLate(r joining.Report) {
	ctx, cancel := m.nic.WithTimeout(context.Background(), tellLateFor)
	defer cancel()
	untold := map[int]bool{}
	for rank := range m.Size {
		if rank != m.Rank && !m.said[rank] && (!m.tree || rank > 0 && m.above(rank) == m.Rank) {
			untold[rank] = true
		}
	}
	for {
		m.turnAway(r, func(h *hello) { delete(untold, int(h.Rank)) })
		if len(untold) == 0 || m.links.Step(ctx) != nil {
			return
		}
	}
}
