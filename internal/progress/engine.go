package progress

import (
	"runtime"
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

	// Idle is called when a poll has found nothing and no further call of the program is
	// expected soon. The machine then does and sends what it has put off in order to do
	// or send it together with more.
	Idle()

	// NextTimer returns when Poll has to be called next although nothing arrives, or
	// transport.Forever. The engine calls it before it sleeps and not on the fast path,
	// so the answer may take time and should be exact. It runs no timer.
	NextTimer() int64

	// Woke is called after each sleep, with what transport.Link's Wait returned.
	Woke(err error)

	// Failed returns why nothing will arrive any more, or nil. Waits end when it returns
	// an error.
	Failed() error
}

// Config says how to drive a machine. Nil, and every zero field, mean the default.
type Config struct {
	// Spin is the longest time that a wait polls before it blocks, since it began or
	// something has arrived; 0 means DefaultSpin, negative means never. Waits spin
	// less, down to not at all, by themselves where spinning does not pay.
	Spin time.Duration
	// GiveWay has waits stop to spin as soon as the machine is crowded. It is for a program that is answered by
	// another process of this machine, which spins itself, and wakes the program.
	GiveWay bool
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
	fresh bool  // now was read a microsecond or two ago, so the next poll need not read the clock

	lead     leadership
	spin     spinner
	calls    callQueue
	watching watching
	service  *service
	yield    func() // runtime.Gosched, but in tests
}

// Init makes e ready to drive m on link. The machine usually has the Engine as a field.
// The engine does not call the machine before Start.
func (e *Engine) Init(link transport.Link, m Machine, cfg *Config) {
	if cfg == nil {
		cfg = &Config{}
	}
	e.link, e.machine, e.virtual, e.yield = link, m, link.Info().Virtual, runtime.Gosched
	e.now = link.Now()
	e.lead.due = transport.Forever
	e.spin.init(cfg.Spin, e.virtual, cfg.GiveWay)
	if !cfg.NoService && !e.virtual {
		e.service = &service{engine: e, quit: make(chan struct{})}
	}
}

// Start starts the service goroutine, unless Config.NoService or a virtual link rules it
// out.
func (e *Engine) Start() {
	if e.service != nil {
		e.service.done.Add(1)
		go e.service.run()
	}
}

// Shut asks the service goroutine to end, which it does when it next has the lock. Waits
// are not affected. The lock is held.
func (e *Engine) Shut() {
	e.shut = true
	e.forgetWatch()
}

// Stop ends the service goroutine and waits until it has ended. It does not wait while
// that goroutine runs one of the program's calls, because Stop may be called from there.
// The caller must have closed the link, or the goroutine may sleep in Link.Wait for ever.
// The lock is not held.
func (e *Engine) Stop() {
	if e.service == nil {
		return
	}
	e.mu.Lock()
	within := e.calls.byService // Stop may run within this call, so it must not wait
	e.mu.Unlock()
	e.service.stop(!within)
}

// Lock takes the engine's lock.
func (e *Engine) Lock() { e.mu.Lock() }

// Unlock releases the engine's lock and runs the calls that are due. Every goroutine
// that has the lock releases it by Unlock, so that no call is left over.
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
