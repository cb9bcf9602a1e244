package job

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/vipl"
)

// Duplicate ranks: one was started twice, or two jobs have the same name. All ranks contact rank 0,
// which detects processes that claim the same rank. Rank 0 itself looks for another rank 0 before
// it accepts any rank, so the later one detects the earlier one, and tells it. A request alone
// proves nothing, because any station can forge it: a duplicate is believed if two stations answer
// to the rank's name.

const (
	lookForRival = 20 * time.Millisecond  // how long to wait for answers to a name
	tellRival    = 200 * time.Millisecond // how long to try to tell another rank 0
	checkAgain   = int64(time.Second)     // minimum interval between searches for one rank, ns
)

// claimants returns the other stations that answer to the name of a rank.
func (m *meeting) claimants(rank int) ([]ethertype.Addr, error) {
	ctx, cancel := m.nic.WithTimeout(m.ctx, lookForRival)
	defer cancel()
	found, err := m.nic.LookupAll(ctx, m.address(rank))
	if err != nil && !m.over() {
		return nil, err
	}
	return found, nil
}

// findRival ends a rank 0 that finds another one, and tells the other one.
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

// challenge sends a connection request as rank 0 to another rank 0. The request will be refused,
// but makes the other rank look for duplicates.
func (m *meeting) challenge(rival ethertype.Addr) {
	vi, err := m.nic.CreateVI(&vipl.Attributes{ConnectTimeout: tellRival}, nil, m.cq)
	if err != nil {
		return
	}
	defer vi.Close()
	if vi.ConnectStart(rival, m.Hello()) == nil {
		m.connected(vi)
	}
}

// taken is the refusal of a request that claims an existing rank when no second station answers to
// its name.
func (m *meeting) taken(rank uint32) error {
	return fmt.Errorf("rank %d of job %q already exists", rank, m.Identity.Job)
}

// contested handles a request that claims an existing rank.
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
	req.Reject(joining.Report{Rank: int(rank), First: found[0], Second: found[1]}.String())
	return m.isTwice(int(rank), found[0], found[1])
}
