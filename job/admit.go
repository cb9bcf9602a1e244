package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/vipl"
)

// Admission of connection requests. Any host on the segment can send a request with any contents. A
// request that does not belong to this job is refused and counted (Stats.Refused), and the job
// continues to start. The contents of a request are trusted when its handshake is complete. Several
// handshakes can be in progress at a time; none waits for another.

// A request is accepted only from a requester that has proven its address, so it exists or has just
// ended. A requester that stops answering blocks the place of its rank for acceptFirst. A rank that
// waits longer for a CPU asks again, and then has acceptFor.
const (
	acceptFirst = 250 * time.Millisecond
	acceptFor   = 2 * time.Second
)

// patience returns how long the handshake with a requester may take. If a launcher has distributed
// the nonce, the requester is known to be a rank, and has all the time that is left.
func (m *meeting) patience(from ethertype.Addr) time.Duration {
	if m.told {
		return max(time.Duration(m.end-m.nic.Now()), acceptFor)
	}
	if m.accepted[from] {
		return acceptFor
	}
	if len(m.accepted) >= m.Size+askedMost {
		clear(m.accepted)
	}
	m.accepted[from] = true
	return acceptFirst
}

// askedMost is the number of requests that can wait for this rank, in addition to one for each
// rank.
const askedMost = 64

// Requested implements joining.Job.
func (j *membership) Requested(req *vipl.Request) {
	if t, ok := j.links.(*tree); ok {
		switch h, late := j.isLate(req); {
		case !late:
		case j.joined:
			t.late(req, &h)
			return
		case len(j.early) < j.Size+askedMost:
			j.early = append(j.early, req)
			return
		default: // the rank tries again
			j.refused++
			refusal.Busy(req)
			return
		}
	}
	switch {
	case j.joined:
		j.refuseLate(req)
	case len(j.asked) >= j.Size+askedMost:
		j.refused++
		refusal.Busy(req)
	default:
		j.asked = append(j.asked, req)
	}
}

// welcome handles requests until all ranks have joined.
func (m *meeting) welcome() error {
	for {
		for len(m.asked) > 0 {
			req := m.asked[0]
			m.asked = m.asked[1:]
			if err := m.admit(req); err != nil {
				return err
			}
		}
		if err := m.dialMore(); err != nil {
			return err
		}
		if m.all() {
			return nil
		}
		until := m.end
		if len(m.undialed) > 0 && len(m.dialed) < dialMost { // a rank was busy and must be asked again
			until = m.dialAt
		}
		if err := m.attendFor(time.Duration(max(until-m.nic.Now(), 1)), func() bool {
			return len(m.asked) > 0 || m.anyDone(m.accepting) || m.anyDone(m.dialed) || m.tree && m.all()
		}); err != nil {
			return err
		}
		m.takeIn()
		if err := m.takeDialed(); err != nil {
			return err
		}
	}
}

// all reports whether all ranks have joined. In a tree that is when this rank knows their
// addresses.
func (m *meeting) all() bool {
	if t, ok := m.links.(*tree); ok {
		return t.known()
	}
	return !m.any(joining.Absent)
}

// takeIn greets the ranks whose handshake is complete.
func (m *meeting) takeIn() {
	m.accepting = slices.DeleteFunc(m.accepting, func(rank int) bool {
		err := m.vis[rank].ConnectDone()
		if errors.Is(err, vipl.ErrNotDone) {
			return false
		}
		if err == nil { // otherwise it has given up, and asks again
			m.greet(rank)
		}
		m.asked = append(m.asked, m.postponed...) // some may be from the same rank
		m.postponed = nil
		return true
	})
}

// anyDone reports whether the handshake with one of ranks has ended.
func (m *meeting) anyDone(ranks []int) bool {
	return slices.ContainsFunc(ranks, func(rank int) bool { return m.vis[rank].State() != vipl.StateConnectPending })
}

// admit starts to connect with a higher rank, or refuses a requester that does not belong here.
func (m *meeting) admit(req *vipl.Request) error {
	h := m.parseHello(req.Data())
	if m.claims(&h) && (int(h.Rank) == m.Rank || m.links.State(int(h.Rank)) != joining.Absent) {
		return m.contested(req, h.Rank)
	}
	err := m.check(&h)
	if err == nil && int(h.Rank) < m.Rank {
		err = fmt.Errorf("rank %d does not ask rank %d: the higher one asks", h.Rank, m.Rank)
	}
	if err == nil && m.tree && m.above(int(h.Rank)) != m.Rank {
		err = fmt.Errorf("rank %d does not ask rank %d: it asks rank %d", h.Rank, m.Rank, m.above(int(h.Rank)))
	}
	if err != nil {
		m.refuse(req, err)
		return nil
	}
	rank := int(h.Rank)
	if slices.Contains(m.accepting, rank) {
		m.postponed = append(m.postponed, req)
		return nil
	}
	patience := m.patience(req.Remote())
	vi, err := m.connector(rank, patience)
	if err != nil {
		return m.errorf("%w", err)
	}
	attr := vi.Query().Attributes
	attr.ConnectTimeout = patience
	if err := vi.SetAttributes(&attr); err != nil {
		return m.errorf("%w", err)
	}
	if err := req.AcceptStart(vi); err != nil {
		m.refuse(req, err)
		return nil
	}
	m.accepting = append(m.accepting, rank)
	if m.told { // so the request is from this run
		m.know(rank, h.Params)
	}
	return nil
}

// refuse refuses a request with a reason.
func (m *meeting) refuse(req *vipl.Request, why error) {
	req.Reject(why.Error())
	m.refusal = fmt.Errorf("%v was refused: %w", req.Remote(), why)
	m.links.Lock()
	m.refused++
	m.links.Unlock()
}

// refuseLate refuses a request after the job has started. A requester that claims one of its ranks
// learns that rank's address.
func (j *membership) refuseLate(req *vipl.Request) {
	j.refused++
	h := j.parseHello(req.Data())
	if !j.claims(&h) {
		req.Reject(fmt.Sprintf("job %q has started and accepts no more processes", j.Identity.Job))
		return
	}
	first := j.listener.Addr()
	if vi := j.vis[int(h.Rank)]; vi != nil {
		first = vi.Remote()
	} else if t, ok := j.links.(*tree); ok && int(h.Rank) != j.Rank {
		first = t.table[h.Rank].addr
	}
	req.Reject(joining.Report{Rank: int(h.Rank), First: first, Second: req.Remote()}.String())
}

// adjourn ends the meeting of a job that has started.
func (m *meeting) adjourn() {
	m.links.Lock()
	defer m.links.Unlock()
	m.joined = true
	for _, req := range append(m.asked, m.postponed...) {
		m.refuseLate(req)
	}
	m.asked, m.postponed = nil, nil
	for _, req := range m.early {
		m.Requested(req)
	}
	m.early = nil
}
