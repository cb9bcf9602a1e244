package perf

import (
	"context"

	"github.com/bobnet-go/bobnet/splitc"
)

// Bursts is part of burster. A request is a put, which the other process's layer answers, or
// a store, which the other process answers by one, as it has no reply of its own. Neither
// call polls, unlike a request of active messages. So this process polls after each pause, as
// programs that compute do: what that takes when an answer has come is the overhead of
// receiving it.
func (s *splitConn) Bursts(ctx context.Context, all []burst, note func(b burst, sent, answered int64)) error {
	err := eachBurst(all, func() { s.pause(int64(sweepRest)) }, func(n int, ns int64) (sent, answered int64, err error) {
		return s.burst(ctx, n, ns)
	}, note)
	if err != nil || s.stores() {
		return err
	}
	return s.tell(ctx)
}

// burst sends n requests with pauses.
func (s *splitConn) burst(ctx context.Context, n int, ns int64) (sent, answered int64, err error) {
	start, over := s.nic.Now(), int64(0)
	for range n {
		at, mine := s.place()
		if err := s.bulk(ctx, at, mine); err != nil {
			return 0, 0, err
		}
		if ns == 0 {
			continue
		}
		over += s.pause(ns) - ns
		if err := s.w.Poll(); err != nil {
			return 0, 0, err
		}
	}
	sent = s.nic.Now() - start - over
	if err = s.w.Sync(ctx); err == nil && s.stores() {
		err = s.w.StoreSync(ctx, n*s.size)
	}
	return sent, s.nic.Now() - start, err
}

// answer is what the other process does for n requests.
func (s *splitConn) answer(ctx context.Context, n int) error {
	if !s.stores() {
		return s.w.StoreSync(ctx, 8)
	}
	for range n {
		if err := s.w.StoreSync(ctx, s.size); err != nil {
			return err
		}
		at, mine := s.place()
		if err := splitc.BulkStore(ctx, s.w, at, mine); err != nil {
			return err
		}
	}
	return s.w.Poll() // what shared a message is not held back
}
