package progress

import (
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// Machine is the protocol that an Engine drives. The engine calls every method with
// its lock held, from one goroutine at a time, and never while Poll of the same
// machine runs.
type Machine interface {
	// Poll does one step: it takes in what has arrived, runs the timers that are due at
	// now, in nanoseconds of the link's clock, and sends what that made possible. It
	// reports whether anything had arrived.
	Poll(now int64) (arrived bool)

	// Idle is called when a poll has found nothing and nobody is expected back soon:
	// what was put off, to be done or sent together with more, is done and sent now.
	Idle()

	// NextTimer returns when Poll has to be called next although nothing arrives, or
	// transport.Forever. It is called before the engine sleeps, so it may take the time
	// to be exact, and runs no timer.
	NextTimer() int64

	// Woke is called after each sleep, with what transport.Link's Wait returned.
	Woke(err error)

	// Failed returns why nothing will ever arrive any more, or nil. Waits then end.
	Failed() error
}

// Config says how to drive a machine. Nil, and every zero field, mean the default.
type Config struct {
	// Spin is the longest time that a wait polls before it blocks; 0 means
	// DefaultSpin, negative means never. Waits spin less, down to not at all, by
	// themselves where spinning does not pay.
	Spin time.Duration
	// NoService leaves out the service goroutine. The machine then stands still
	// while nobody waits or polls. A virtual link never has one.
	NoService bool
}

// DefaultSpin is the default of Config.Spin.
const DefaultSpin = 50 * time.Microsecond

// Engine drives one Machine on one Link. It may be shared between goroutines: its lock
// is the machine's, too. Its methods say whether they want it held.
type Engine struct {
	mu      sync.Mutex
	link    transport.Link
	machine Machine
	virtual bool

	shut  bool  // no service any more
	now   int64 // the link's clock when it was last read
	fresh bool  // now was read a microsecond or two ago: good enough for the next poll

	lead    leadership
	spin    spinner
	calls   callQueue
	service *service
}

// Init sets an engine up, which the machine as a rule holds as a part of itself. The
// machine is not called before Start.
func (e *Engine) Init(link transport.Link, m Machine, cfg *Config) {
	if cfg == nil {
		cfg = &Config{}
	}
	e.link, e.machine, e.virtual = link, m, link.Info().Virtual
	e.now = link.Now()
	e.lead.due = transport.Forever
	e.spin.init(cfg.Spin, e.virtual)
	if !cfg.NoService && !e.virtual {
		e.service = &service{engine: e, quit: make(chan struct{})}
	}
}

// Start starts the service goroutine, if there is to be one.
func (e *Engine) Start() {
	if e.service != nil {
		e.service.done.Add(1)
		go e.service.run()
	}
}

// Shut has the service goroutine end at its next turn. Waits go on. The lock is held.
func (e *Engine) Shut() { e.shut = true }

// Stop ends the service goroutine and returns when it has ended, unless it is the
// caller, within a call. The link has been closed before, or the goroutine would sleep
// on. The lock is not held.
func (e *Engine) Stop() {
	if e.service == nil {
		return
	}
	e.mu.Lock()
	within := e.calls.byService // perhaps ourselves: not to be waited for
	e.mu.Unlock()
	e.service.stop(!within)
}

// Lock takes the engine's lock.
func (e *Engine) Lock() { e.mu.Lock() }

// Unlock gives up the engine's lock, and runs the calls that are due. Every holder
// leaves through it, so that no call is forgotten.
func (e *Engine) Unlock() {
	if e.calls.due() {
		e.unlockAndCall()
		return
	}
	e.mu.Unlock()
}

// Now returns the link's clock as the engine has last read it. The lock is held.
func (e *Engine) Now() int64 { return e.now }

// Virtual reports whether the link's clock is not real time.
func (e *Engine) Virtual() bool { return e.virtual }

// Poll has the machine do one step, and reports whether anything had arrived. The lock
// is held.
func (e *Engine) Poll() bool {
	if !e.fresh {
		e.now = e.link.Now()
	}
	e.fresh = false
	e.lead.polled(e)
	if e.now >= e.lead.due {
		e.lead.wakeDue(e.now)
	}
	return e.machine.Poll(e.now)
}
