package job

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// Ranks that are there twice, because one was started twice or two jobs have one
// name. All ranks come by rank 0, which finds those that claim one rank; and a rank
// 0 looks for another one before it takes anybody, so that of two the later finds the
// earlier, and tells it. A request alone proves nothing, anybody can forge it: that a
// rank is there twice is believed when two answer to its name.

const (
	lookForRival = 20 * time.Millisecond  // how long to listen for answers to a name
	tellRival    = 200 * time.Millisecond // how long to try to tell another rank 0
	checkAgain   = int64(time.Second)     // no rank is looked for more often, ns
)

// claimants returns who else answers to the name of a rank.
func (m *meeting) claimants(rank int) ([]ethertype.Addr, error) {
	ctx, cancel := m.nic.WithTimeout(m.ctx, lookForRival)
	defer cancel()
	found, err := m.nic.LookupAll(ctx, m.Address(rank))
	if err != nil && !m.over() {
		return nil, err
	}
	return found, nil
}

// findRival ends a rank 0 that finds another one, and tells that one.
func (m *meeting) findRival() error {
	found, err := m.claimants(0)
	if err != nil || len(found) == 0 {
		return err
	}
	m.challenge(found[0])
	return m.isTwice(0, found[0], m.listener.Addr())
}

// isTwice ends Meet.
func (m *meeting) isTwice(rank int, first, second ethertype.Addr) error {
	m.links.Lock()
	defer m.links.Unlock()
	return m.duplicate(&DuplicateError{Job: m.Identity.Job, Rank: rank, First: first, Second: second})
}

// challenge asks a rank 0 for a connection as rank 0, which will not be made, but
// has that one look around.
func (m *meeting) challenge(rival ethertype.Addr) {
	vi, err := m.nic.CreateVI(&vipl.Attributes{ConnectTimeout: tellRival}, nil, m.cq)
	if err != nil {
		return
	}
	defer vi.Close()
	if vi.ConnectStart(rival, m.hello()) == nil {
		m.connected(vi)
	}
}

// taken is what one is told who claims a rank that is there, and whom nobody else
// knows.
func (m *meeting) taken(rank uint32) error {
	return fmt.Errorf("rank %d of job %q is there already", rank, m.Identity.Job)
}

// contested handles the request of one who claims a rank that is there.
func (m *meeting) contested(req *vipl.Request, rank uint32) error {
	now := m.nic.Now()
	if last, ok := m.checked[rank]; ok && now-last < checkAgain {
		m.refuse(req, m.taken(rank))
		return nil
	}
	m.checked[rank] = now
	found, err := m.claimants(int(rank))
	if err != nil {
		return err
	}
	if int(rank) == m.Rank {
		found = append([]ethertype.Addr{m.listener.Addr()}, found...)
	}
	if len(found) < 2 {
		m.refuse(req, m.taken(rank))
		return nil
	}
	req.Reject(Report{Rank: int(rank), First: found[0], Second: found[1]}.String())
	return m.isTwice(int(rank), found[0], found[1])
}
