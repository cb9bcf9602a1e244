package mplite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// timeIsUp tells the end of the time for Init from what is worth an error of
// its own. A rank that does not answer a request to connect is that, and one
// that has died.
func timeIsUp(err error) bool {
	var refused *vipl.ConnError
	return !errors.As(err, &refused) && !errors.Is(err, ErrRankFailed) && (errors.Is(err, vipl.ErrNameService) || errors.Is(err, vipl.ErrTimeout) || errors.Is(err, context.DeadlineExceeded))
}

// How long Init looks, when time is up, for the ranks that it is not connected
// with, and for one of them: it asks for the first few only.
const (
	lookForAll = 200 * time.Millisecond
	lookForOne = 50 * time.Millisecond
)

// missing returns Init's error when time is up. It asks the segment once more,
// to tell the ranks that are not there from those that wait themselves.
func (m *meeting) missing(took time.Duration, cause error) error {
	var silent []int
	rest := m.unconnected()
	for end := m.nic.Now() + int64(lookForAll); len(rest) > 0 && m.nic.Now() < end; rest = rest[1:] {
		ctx, cancel := m.nic.WithTimeout(context.Background(), lookForOne)
		if _, err := m.nic.Lookup(ctx, m.id.Address(rest[0])); err != nil {
			silent = append(silent, rest[0])
		}
		cancel()
	}
	clues := m.clues()
	m.blame(append(silent, m.unconnected()...), fmt.Errorf("%w%s", errMissing, clues))
	if len(silent) == 0 {
		return opError("init", ErrInit, "%s of job %q did not connect within %v%s: %v", job.Ranks(m.unconnected()), m.id.Name, took, clues, cause)
	}
	more := clues
	if len(rest) > 0 {
		more += fmt.Sprintf("; %d more have not connected", len(rest))
	}
	return opError("init", ErrInit, "%s of job %q did not appear within %v: check that it runs, on this segment, with the same %s%s (%v)",
		job.Ranks(silent), m.id.Name, took, EnvJob, more, cause)
}

// blame tells the others of the first of ranks, because of which this one leaves:
// they would name this one else.
func (w *world) blame(ranks []int, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(ranks) > 0 {
		w.peers[ranks[0]].fail(why)
	}
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
