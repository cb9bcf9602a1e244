package mplite

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// Who asks a rank for a connection. Anybody on the segment can, with any words: a
// request that does not belong here is refused and counted (Stats.Refused), and the
// job goes on coming together. What a request says is believed when its handshake is
// over, which several may be in at a time; nobody waits for the others' end.

// acceptFor is how long the handshake of a request may take: who has asked is
// there, or has gone.
const acceptFor = 2 * time.Second

// acceptFirst is after how long this rank looks first whether the handshake is over:
// nothing wakes it. Each further time is twice as long, up to lookAgain.
const acceptFirst = 50 * time.Microsecond

// askedMost is the most requests that wait for this rank to look at them, beside
// one for each rank.
const askedMost = 64

// requested takes in a request.
func (w *world) requested(req *vipl.Request) {
	switch {
	case w.joined:
		w.refuseLate(req)
	case len(w.asked) >= w.size+askedMost:
		w.stats.Refused++
		req.Reject(busy)
	default:
		w.asked = append(w.asked, req)
	}
}

// welcome looks at requests until all ranks are there.
func (m *meeting) welcome() error {
	for {
		for len(m.asked) > 0 {
			req := m.asked[0]
			m.asked = m.asked[1:]
			if err := m.admit(req); err != nil {
				return err
			}
		}
		if !m.anyPeer((*peer).absent) {
			return nil
		}
		while := time.Duration(m.end - m.nic.Now())
		if len(m.accepting) > 0 {
			while, m.pace = m.pace, min(2*m.pace, lookAgain)
		}
		if err := m.attendFor(max(while, 1), func() bool { return len(m.asked) > 0 || m.anyAccepted() }); err != nil {
			return err
		}
		m.takeIn()
	}
}

// takeIn greets the ranks whose handshake is over.
func (m *meeting) takeIn() {
	m.accepting = slices.DeleteFunc(m.accepting, func(p *peer) bool {
		err := p.vi.ConnectDone()
		if errors.Is(err, vipl.ErrNotDone) {
			return false
		}
		if err == nil { // else it has tired of waiting, and asks again
			p.greet()
		}
		m.asked = append(m.asked, m.postponed...) // some may be of the same rank
		m.postponed = nil
		return true
	})
}

// anyAccepted reports whether a handshake is over.
func (m *meeting) anyAccepted() bool {
	return slices.ContainsFunc(m.accepting, func(p *peer) bool { return !errors.Is(p.vi.ConnectDone(), vipl.ErrNotDone) })
}

// admit begins to connect with a higher rank, or refuses who does not belong here.
func (m *meeting) admit(req *vipl.Request) error {
	h := m.id.ParseHello(req.Data())
	if m.id.Claims(&h) && (int(h.Rank) == m.rank || m.peers[h.Rank].state != peerAbsent) {
		return m.contested(req, h.Rank)
	}
	err := m.id.Check(&h)
	if err == nil && int(h.Rank) < m.rank {
		err = fmt.Errorf("rank %d does not ask rank %d: the higher one asks", h.Rank, m.rank)
	}
	if err != nil {
		m.refuse(req, err.Error())
		return nil
	}
	p := m.peers[h.Rank]
	if slices.Contains(m.accepting, p) {
		m.postponed = append(m.postponed, req)
		return nil
	}
	if p.vi == nil {
		if err := p.init(acceptFor); err != nil {
			return fmt.Errorf("mplite: init: %w", err)
		}
	}
	if err := req.AcceptStart(p.vi); err != nil {
		m.refuse(req, err.Error())
		return nil
	}
	m.accepting, m.pace = append(m.accepting, p), acceptFirst
	return nil
}

// refuse turns a request away, in words.
func (m *meeting) refuse(req *vipl.Request, why string) {
	req.Reject(why)
	m.refusal = fmt.Sprintf("%v was refused: %s", req.Remote(), why)
	m.mu.Lock()
	m.stats.Refused++
	m.mu.Unlock()
}

// refuseLate turns away who asks when the job has come together. Who claims a rank
// of it learns where that is.
func (w *world) refuseLate(req *vipl.Request) {
	w.stats.Refused++
	h := w.id.ParseHello(req.Data())
	if !w.id.Claims(&h) {
		req.Reject(fmt.Sprintf("job %q has come together and takes nobody any more", w.id.Name))
		return
	}
	first := w.listener.Addr()
	if p := w.peers[h.Rank]; p != nil {
		first = p.vi.Remote()
	}
	req.Reject(job.Report{Rank: int(h.Rank), First: first, Second: req.Remote()}.String())
}

// adjourn ends the meeting of a job that has come together.
func (m *meeting) adjourn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined = true
	for _, req := range append(m.asked, m.postponed...) {
		m.refuseLate(req)
	}
	m.asked, m.postponed = nil, nil
}
