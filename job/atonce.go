package job

import (
	"errors"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/vipl"
)

// Connecting when all ranks know from the beginning where the others are and which run this is.
// Each rank asks several lower ranks at a time, and accepts higher ones meanwhile. No rank waits
// until another one has finished, so the ranks do not queue up behind each other.

// dialMost is the number of ranks that a rank asks at a time. It starts with the rank below its
// own, so that few ranks ask the same one at first.
const dialMost = 8

// meetAtOnce implements meet with a key-value space.
func (m *meeting) meetAtOnce() error {
	if err := m.publish(); err != nil {
		return err
	}
	m.undialed = m.lower()
	slices.Reverse(m.undialed)
	m.waits.at(waitAll, 0, ethertype.Addr{})
	if err := m.welcome(); err != nil {
		return err
	}
	return m.attend(m.ctx, func() bool { return !m.any(joining.Greeting) })
}

// dialMore asks further lower ranks, up to dialMost at a time.
func (m *meeting) dialMore() error {
	for len(m.undialed) > 0 && len(m.dialed) < dialMost && m.nic.Now() >= m.dialAt {
		rank := m.undialed[0]
		other, err := m.read(rank)
		if err != nil {
			return err
		}
		vi, err := m.connector(rank, time.Duration(m.end-m.nic.Now()))
		if err != nil {
			return m.errorf("%w", err)
		}
		if err := vi.ConnectStart(other.addr, m.Hello()); err != nil {
			return m.turnedAway(rank, other.addr, err)
		}
		m.know(rank, other.params)
		m.undialed, m.dialed = m.undialed[1:], append(m.dialed, rank)
	}
	return nil
}

// takeDialed greets the ranks that have accepted this one. A rank that was busy is asked again a
// little later.
func (m *meeting) takeDialed() (failed error) {
	m.dialed = slices.DeleteFunc(m.dialed, func(rank int) bool {
		err := m.vis[rank].ConnectDone()
		switch {
		case errors.Is(err, vipl.ErrNotDone):
			return false
		case err == nil:
			m.greet(rank)
		case refusal.Passing(err):
			m.undialed, m.dialAt = append(m.undialed, rank), m.nic.Now()+int64(lookAgain)
		case failed == nil:
			other, _ := m.read(rank)
			failed = m.turnedAway(rank, other.addr, err)
		}
		return true
	})
	return failed
}
