package station

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Open opens the cable at a network interface and calls join with it. If join fails, it closes the
// cable.
func Open[C any](ctx context.Context, iface string, long bool, join func(cable transport.Link) (C, error)) (c C, err error) {
	cable, err := OpenCable(ctx, iface, long)
	if err != nil {
		return c, err
	}
	if c, err = join(cable); err != nil {
		cable.Close()
	}
	return c, err
}

// Host is the host of a card: the engine on which goroutines wait, and which drives the card if the
// card is live. In virtual time, events of the world drive the card. The engine's lock guards the
// card and all state of its host.
type Host struct {
	Engine progress.Engine
	Card   *hardware.Card
	Live   *Live // nil in virtual time

	remote  Remote         // only for a card of another process
	link    transport.Link // where goroutines wait: the cable, or the clock
	callers callers
	logs    *logqueue.Queue
	failed  error
	seen    uint64 // Live.Arrivals at the end of the last Poll
}

var _ progress.Machine = (*Host)(nil)

// Join creates a card at the end of a live cable. On an error the cable does not change.
func (h *Host) Join(cable transport.Link, opts myrinet.LiveOptions, cfg myrinet.CardConfig, need Longest, driver Driver) error {
	live := new(Live)
	if err := live.Init(cable, opts, driver); err != nil {
		return err
	}
	if err := live.Plug(cfg, need); err != nil {
		return err
	}
	h.Live, h.Card, h.link = live, live.Card, &called{cable, &h.callers}
	h.Engine.Init(h.link, h, nil)
	return nil
}

// Sit makes h the host of a card in virtual time, whose goroutines wait on the clock.
func (h *Host) Sit(card *hardware.Card, clock transport.Link) {
	h.Card, h.link = card, clock
	h.Engine.Init(clock, h, nil)
}

// Remote is a program's view of the card of another process.
type Remote interface {
	// Poll processes the card's messages and what is due. It reports whether there was anything.
	Poll(now int64) (arrived bool)
	// NextTimer returns when Poll has work again.
	NextTimer() int64
}

// Use makes h the host of a card of another process. Goroutines wait on the link.
func (h *Host) Use(link transport.Link, r Remote) {
	h.link, h.remote = link, r
	h.Engine.Init(link, h, &progress.Config{GiveWay: true})
}

// Logged returns a copy of a mapper's options whose logger is called without the engine's lock. It
// uses opts.Logger, or logger if that is nil.
func (h *Host) Logged(opts *myrinet.MapperOptions, logger *slog.Logger) *myrinet.MapperOptions {
	with := *opts
	if with.Logger == nil {
		with.Logger = logger
	}
	h.logs = logqueue.New(with.Logger)
	with.Logger = h.logs.Logger()
	return &with
}

// Now returns the time, in nanoseconds.
func (h *Host) Now() int64 { return h.link.Now() }

// Holds reports whether packets must not leave yet (Live.Holds).
func (h *Host) Holds() bool { return h.Live != nil && h.Live.Holds() }

// Drive makes a live card process the host's requests. The next Poll reports what arrives
// meanwhile.
func (h *Host) Drive() {
	if h.Live != nil && h.Card.Pending() {
		h.Engine.WakeBefore(h.move(h.Now()))
	}
}

// move drives cable and card, and returns when to drive them again. It ignores errors that may
// pass, such as an interface that is down.
func (h *Host) move(now int64) (next int64) {
	next, _ = h.Live.Drive(now)
	if dead := h.Live.Dead(); dead != nil {
		h.Fail(dead)
	}
	return next
}

// Poll implements progress.Machine.
func (h *Host) Poll(now int64) (arrived bool) {
	if h.Live == nil {
		return h.remote != nil && h.remote.Poll(now)
	}
	arrived = h.callers.look()
	h.move(now)
	arrived, h.seen = arrived || h.Live.Arrivals != h.seen, h.Live.Arrivals
	return arrived
}

// Idle implements progress.Machine.
func (h *Host) Idle() {}

// NextTimer implements progress.Machine.
func (h *Host) NextTimer() int64 {
	if h.remote != nil {
		return h.remote.NextTimer()
	}
	if h.Live == nil {
		return transport.Forever
	}
	return h.Live.Next()
}

// Trouble returns the reason why the card's cable carries nothing at the moment, or nil. Call it
// before blaming a peer for its silence. The caller must hold the engine's lock.
func (h *Host) Trouble() error {
	if h.failed != nil {
		return h.failed
	}
	if h.Live != nil {
		return transport.Check(h.Live.Cable)
	}
	return transport.Check(h.link)
}

// Woke implements progress.Machine. After an error the next Poll checks the interface.
func (h *Host) Woke(err error) {
	if errors.Is(err, transport.ErrClosed) && h.failed == nil {
		h.failed = transport.ErrClosed
	}
	if err != nil && h.Live != nil {
		h.Live.Doubt()
	}
}

// Failed implements progress.Machine.
func (h *Host) Failed() error { return h.failed }

// Fail ends all current and future waits with err, unless the host has already failed.
func (h *Host) Fail(err error) {
	if h.failed == nil {
		h.failed = err
		h.Engine.WakeAll()
	}
}

// logFlush limits the time that Close waits for the last log lines.
const logFlush = 100 * time.Millisecond

// Close ends all waits, closes the cable or the clock, and stops the engine. The caller must hold
// the engine's lock; Close releases it.
func (h *Host) Close() {
	h.Fail(transport.ErrClosed)
	h.Engine.Shut()
	h.Engine.WakeAll()
	h.Engine.Unlock()
	h.link.Close()
	h.Engine.Stop()
	if h.logs != nil {
		h.logs.Flush(logFlush)
	}
}

// Snapshot returns the common part of all cards' snapshots.
func (h *Host) Snapshot(maps *Mapping, routes *Table) Snapshot {
	s := Snapshot{Card: h.Card.Snapshot(), Mapper: maps.Snapshot(), Stations: len(routes.Routed(nil)), LongRoutes: maps.Long}
	if h.Live != nil {
		s.Cable = h.Live.Port()
	}
	return s
}
