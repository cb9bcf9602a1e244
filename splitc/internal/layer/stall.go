package layer

import (
	"context"
	"fmt"
	"time"
)

// Stall is a wait for a credit. Its time is counted while it passes, and the watch's observer is
// notified, so that a rank shows that it waits, and for which rank.
type Stall struct {
	watch   *Watch
	rank    int
	began   int64
	counted int64          // time up to which total is current
	total   *time.Duration // nil if the time is counted elsewhere
	told    bool
}

// Stall starts a wait for a credit of a rank. Its time is added to total, unless that is nil.
func (w *Watch) Stall(rank int, total *time.Duration) Stall {
	w.Begin()
	now := w.nic.Now()
	return Stall{watch: w, rank: rank, began: now, counted: now, total: total}
}

// Check is Watch.Check for this wait.
func (s *Stall) Check(ctx context.Context) error {
	w := s.watch
	if !w.Expired() {
		return nil
	}
	s.count()
	if w.observer != nil {
		s.told = true
		w.observer.Stalled(s.rank, s.began)
	}
	if err := w.member.Err(); err != nil {
		return err
	}
	if err := w.late(ctx); err != nil {
		return fmt.Errorf("splitc: wait for room at process %d: %w", s.rank, err)
	}
	return nil
}

// End ends the wait.
func (s *Stall) End() {
	s.count()
	w := s.watch
	if (w.Renewed() || s.told) && w.observer != nil {
		w.observer.Resumed()
	}
}

// count adds the time since its last call.
func (s *Stall) count() {
	if s.total != nil {
		now := s.watch.nic.Now()
		*s.total += time.Duration(now - s.counted)
		s.counted = now
	}
}
