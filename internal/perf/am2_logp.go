package perf

import "context"

// Bursts is part of burster. Before a burst there is a rest, after which a
// receiver that sleeps does so, and the sender, which may have slept until the
// last answer came, is warm: as it is within bursts of long delays.
func (a *amConn) Bursts(ctx context.Context, all []burst, note func(b burst, sent, answered int64)) error {
	err := eachBurst(all, func() { a.pause(int64(sweepRest)) }, func(n int, ns int64) (sent, answered int64, err error) {
		return a.burst(ctx, n, ns)
	}, note)
	if err != nil {
		return err
	}
	return a.finish(ctx)
}

// burst sends n requests with pauses.
func (a *amConn) burst(ctx context.Context, n int, ns int64) (sent, answered int64, err error) {
	nic := a.node.NIC()
	a.pongs = 0
	start, over := nic.Now(), int64(0)
	for range n {
		if err := a.send(ctx, amPing); err != nil {
			return 0, 0, err
		}
		if ns == 0 {
			continue
		}
		over += a.pause(ns) - ns
	}
	sent = nic.Now() - start - over
	err = a.until(ctx, n)
	return sent, nic.Now() - start, err
}
