package progress

import (
	"runtime"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// Machine is the protocol that an Engine drives. The engine calls all methods with its lock held,
// from one goroutine at a time. It never calls a method during Poll of the same machine.
type Machine interface {
	// Poll does one step: it processes received frames, runs the timers due at now (nanoseconds of
	// the link's clock), and sends what has become sendable. It reports whether frames had arrived.
	Poll(now int64) (arrived bool)

	// Idle is called when a poll has found nothing and the program is not expected to make a call
	// soon. The machine then does the work that it has deferred in order to combine it with later
	// work.
	Idle()

	// NextTimer returns when to call Poll even if nothing arrives, or transport.Forever. It runs no
	// timer. The engine calls it before it sleeps, not on the fast path: it may be slow, and should
	// be exact.
	NextTimer() int64

	// Woke is called after each sleep, with the result of Wait of transport.Link.
	Woke(err error)

	// Failed returns why nothing will arrive any more, or nil. Waits end when it returns an error.
	Failed() error
}

// Config configures an Engine. Nil and zero fields mean the defaults.
type Config struct {
	// Spin is the maximum time for which a wait polls before it blocks, counted from its start or
	// the last arrival; 0 means DefaultSpin, negative means never. Waits reduce it automatically,
	// down to 0, where spinning does not pay.
	Spin time.Duration
	// GiveWay makes waits stop spinning as soon as the host is crowded. Set it in a program whose
	// peer is a process on the same host that spins itself and wakes the program.
	GiveWay bool
	// NoService disables the service goroutine. The machine then makes no progress while no
	// goroutine waits or polls. A virtual link never has one.
	NoService bool
}

// DefaultSpin is the default of Config.Spin.
const DefaultSpin = 50 * time.Microsecond

// Engine drives one Machine on one Link. Goroutines may share it. Its lock also guards the machine.
// Each method's comment says whether the caller must hold the lock.
type Engine struct {
	mu      sync.Mutex
	link    transport.Link
	nearby  optional.Nearby // the link, if it shares memory with other processes
	machine Machine
	virtual bool

	shut  bool  // the service goroutine is to end
	now   int64 // the link's clock at the last reading
	fresh bool  // now was read a microsecond or two ago, so the next poll need not read the clock

	lead     leadership
	spin     spinner
	calls    callQueue
	watching watching

	elsewhere elsewhere
	service   *service
	yield     func() // runtime.Gosched, except in tests
}

// Init prepares e to drive m on link. Usually the engine is a field of the machine. It does not
// call the machine before Start.
func (e *Engine) Init(link transport.Link, m Machine, cfg *Config) {
	if cfg == nil {
		cfg = &Config{}
	}
	e.link, e.machine, e.virtual, e.yield = link, m, link.Info().Virtual, runtime.Gosched
	e.nearby, _ = transport.As[optional.Nearby](link)
	e.now = link.Now()
	e.lead.due = transport.Forever
	e.spin.init(cfg.Spin, e.virtual, cfg.GiveWay)
	if !cfg.NoService && !e.virtual {
		e.service = &service{engine: e, quit: make(chan struct{})}
	}
}

// Start starts the service goroutine, unless Config.NoService is set or the link is virtual.
func (e *Engine) Start() {
	if e.service != nil {
		e.service.done.Add(1)
		go e.service.run()
	}
}

// Shut makes the service goroutine end when it next has the lock. It does not affect waits. The
// caller must hold the lock.
func (e *Engine) Shut() {
	e.shut = true
	e.forgetWatch()
}

// Stop ends the service goroutine and waits for its end. The caller must have closed the link,
// because the goroutine may sleep in Link.Wait, and must not hold the lock. If the service runs a
// call of the program, Stop does not wait, because that call may be its caller.
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

// Unlock releases the engine's lock and runs the due calls. Every goroutine must release the lock
// by Unlock, so that no call is left behind.
func (e *Engine) Unlock() {
	if e.calls.due() {
		e.unlockAndCall()
		return
	}
	e.mu.Unlock()
}

// Now returns the latest reading of the link's clock. The caller must hold the lock.
func (e *Engine) Now() int64 { return e.now }

// Virtual reports whether the link's clock is virtual.
func (e *Engine) Virtual() bool { return e.virtual }

// Poll makes the machine do one step, and reports whether frames had arrived. The caller must hold
// the lock.
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
