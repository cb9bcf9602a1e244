package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// ask returns the current keys of a source.
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

// randomOf returns the configured random source, or the system's.
func randomOf(wanted io.Reader) io.Reader {
	if wanted == nil {
		return rand.Reader
	}
	return wanted
}

// reload calls the key source of a link periodically: on a separate goroutine, because the source
// may block, or within Recv on a virtual link.
type reload struct {
	link   *Link
	done   chan struct{} // closed by stop; nil if there is no goroutine
	at     int64         // on a virtual link: when to call the source next
	failed bool          // whether the last call failed, so that a failure is logged once
}

// start starts the calls, if Options request them.
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

// stop ends the calls. It does not wait for a call in progress.
func (r *reload) stop() {
	if r.done != nil && !r.link.stopped.Swap(true) {
		close(r.done)
	}
}

// poll calls the source, on a virtual link, when it is due.
func (r *reload) poll(now int64) {
	if r.at != 0 && now >= r.at {
		r.at = now + int64(r.link.m.opts.Reload)
		r.again()
	}
}

// again calls the source once. If it fails, the old keys stay valid.
func (r *reload) again() {
	l := r.link
	keys, err := ask(l.m.opts.Keys)
	switch {
	case err != nil && !r.failed:
		l.m.opts.Logger.Warn("cannot read the keys again, the previous ones stay valid", "err", err)
	case err == nil && !slices.Equal(keys, *l.valid.Load()):
		l.valid.Store(&keys)
		l.wakeAt(0)
	}
	r.failed = err != nil
}
