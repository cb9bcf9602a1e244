package lab

import (
	"context"
	"slices"
	"time"
)

// moment is a time at which cuts begin or end.
type moment struct {
	at     time.Duration // from the start of the job
	active []Cut         // from here to the next moment
	begun  []Cut
	ended  []Cut
}

// moments returns the times at which the links of a job with cuts change, in order.
func moments(cuts []Cut) []moment {
	var times []time.Duration
	for _, c := range cuts {
		times = append(times, c.After)
		if c.For > 0 {
			times = append(times, c.After+c.For)
		}
	}
	slices.Sort(times)
	var all []moment
	for _, at := range slices.Compact(times) {
		m := moment{at: at}
		for _, c := range cuts {
			end := c.After + c.For
			if c.After <= at && (c.For == 0 || at < end) {
				m.active = append(m.active, c)
			}
			if c.After == at {
				m.begun = append(m.begun, c)
			}
			if c.For > 0 && end == at {
				m.ended = append(m.ended, c)
			}
		}
		all = append(all, m)
	}
	return all
}

// keepTo calls apply at each of moments with the cuts that are active from then on, and told with
// each cut that has begun or ended, until ctx is done. It returns an error of apply.
func keepTo(ctx context.Context, moments []moment, apply func(active []Cut) error, told func(c Cut, begun bool)) error {
	start := time.Now()
	for _, m := range moments {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(start.Add(m.at))):
		}
		if err := apply(m.active); err != nil {
			return err
		}
		for _, c := range m.ended {
			told(c, false)
		}
		for _, c := range m.begun {
			told(c, true)
		}
	}
	return nil
}

// cutLinks applies the lab's cuts from now on, until stop is called, which restores the links. The
// channel failed delivers an error.
func (l *Lab) cutLinks(told func(c Cut, begun bool)) (failed <-chan error, stop func()) {
	if len(l.cfg.Cuts) == 0 {
		return nil, func() {}
	}
	if told == nil {
		told = func(Cut, bool) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	errs, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		if err := keepTo(ctx, moments(l.cfg.Cuts), func(active []Cut) error { return l.Cut(active...) }, told); err != nil {
			errs <- err
		}
	}()
	return errs, func() {
		cancel()
		<-done
		if err := l.heal(); err != nil {
			l.cfg.Log.Warn("cannot restore the lab's links", "err", err)
		}
	}
}

// heal ends all cuts, and waits until every interface is up.
func (l *Lab) heal() error {
	if err := l.Cut(); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return ErrClosed
	}
	return l.awaitAll(context.Background())
}
