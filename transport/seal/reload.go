package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// ask returns the keys that a source has now.
func ask(s Source) ([]Key, error) {
	keys, err := s()
	if err == nil {
		err = checkKeys(keys)
	}
	if err != nil && !errors.Is(err, ErrKey) {
		err = fmt.Errorf("%w: %w", ErrKey, err)
	}
	return slices.Clone(keys), err
}

// randomOf returns the source of randomness that is wanted.
func randomOf(wanted io.Reader) io.Reader {
	if wanted == nil {
		return rand.Reader
	}
	return wanted
}

// reload asks a link's source of keys again and again: on a goroutine of its own, because
// the source may take its time, or over a virtual link within Recv.
type reload struct {
	link   *Link
	done   chan struct{} // closed by stop; nil: there is no goroutine
	at     int64         // over a virtual link: when to ask again
	failed bool          // the last time, so that it is said once
}

// start begins, if it is wanted.
func (r *reload) start(l *Link, virtual bool) {
	r.link = l
	every := l.m.opts.Reload
	if every < 0 {
		return
	}
	if virtual {
		r.at = l.Link.Now() + int64(every)
		return
	}
	r.done = make(chan struct{})
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-r.done:
				return
			case <-tick.C:
				r.again()
			}
		}
	}()
}

// stop ends it. A source that is being asked is not waited for.
func (r *reload) stop() {
	if r.done != nil && !r.link.stopped.Swap(true) {
		close(r.done)
	}
}

// poll asks over a virtual link, if it is time.
func (r *reload) poll(now int64) {
	if r.at != 0 && now >= r.at {
		r.at = now + int64(r.link.m.opts.Reload)
		r.again()
	}
}

// again asks once. Keys that cannot be had leave the old ones valid.
func (r *reload) again() {
	l := r.link
	keys, err := ask(l.m.opts.Keys)
	switch {
	case err != nil && !r.failed:
		l.m.opts.Logger.Warn("keys cannot be read again: those from before stay valid", "err", err)
	case err == nil && !slices.Equal(keys, *l.valid.Load()):
		l.valid.Store(&keys)
		l.wakeAt(0)
	}
	r.failed = err != nil
}
