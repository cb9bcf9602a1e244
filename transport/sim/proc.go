package sim

import (
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// proc is a process: a coroutine. Only one process of a world runs at a time.
type proc struct {
	name  string
	start func()
	next  func() (struct{}, bool) // runs it until it blocks or returns
	yield func(struct{}) bool     // blocks it; nil for the goroutine that waits without Run
	fault error                   // its panic

	blocked bool
	station *Station // the station that it waits for, nil while it sleeps
	until   int64    // when its wait ends
	armed   int64    // time of its next timer event, 0 for none
}

// Go starts a process that runs fn. It may be called before Run and by a process. The new process
// runs after the processes that are already ready have blocked. A process may block only in
// Station.Wait, at a Place and in World.Sleep: a mutex or channel that another process holds would
// block the whole world.
func (w *World) Go(name string, fn func()) {
	if name == "" {
		name = fmt.Sprintf("process %d", len(w.procs)+1)
	}
	p := &proc{name: name, start: fn}
	w.procs = append(w.procs, p)
	w.live++
	w.ready.Push(p)
}

// resume runs p until it blocks or returns.
func (w *World) resume(p *proc) error {
	if p.next == nil {
		p.next, _ = iter.Pull(p.body(w.opts.Seed))
	}
	w.current = p
	_, running := p.next()
	w.current = nil
	if !running {
		w.live--
		p.start = nil
	}
	return p.fault
}

// body is the coroutine. A panic becomes p.fault. iter.Pull handles runtime.Goexit, with which
// testing ends a test: it also ends the caller of Run.
func (p *proc) body(seed uint64) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		p.yield = yield
		defer func() {
			if v := recover(); v != nil {
				p.fault = &PanicError{Process: p.name, Seed: seed, Value: v, Stack: debug.Stack()}
			}
		}()
		p.start()
	}
}

// block suspends the process until a frame for station arrives, Wake is called, or the clock
// reaches until.
func (w *World) block(station *Station, until int64) error {
	p := w.caller()
	p.blocked, p.station, p.until = true, station, until
	if station != nil {
		if station.waiter != nil {
			panic(fmt.Sprintf("sim: %s waits on station %s, and so does %s", p.name, station.name, station.waiter.name))
		}
		station.waiter = p
	}
	switch {
	case until <= w.now:
		w.unblock(p)
	case until != transport.Forever:
		w.arm(p)
	}
	if p.yield != nil {
		p.yield(struct{}{})
		return nil
	}
	return w.driveUntilReady(p)
}

// caller returns the running process. Without Run, it returns the process that stands for the
// calling goroutine, which drives the world until it is ready itself.
func (w *World) caller() *proc {
	if w.current != nil {
		return w.current
	}
	if w.driving {
		panic("sim: an action of At or Script may not wait")
	}
	return w.outside
}

func (w *World) driveUntilReady(p *proc) error {
	w.driving = true
	defer func() { w.driving, w.current = false, nil }()
	w.outsideReady = false
	for !w.outsideReady {
		if err := w.step(); err != nil {
			w.forget(p)
			return err
		}
	}
	return nil
}

// unblock makes p ready, if it is blocked.
func (w *World) unblock(p *proc) {
	if p.blocked {
		w.forget(p)
		w.ready.Push(p)
	}
}

// forget ends the wait of p.
func (w *World) forget(p *proc) {
	p.blocked = false
	if p.station != nil {
		p.station.waiter = nil
	}
}

// arm schedules an event for p no later than p.until. Deadlines mostly move forward, so one event
// serves many waits: if it fires too early, it schedules itself again.
func (w *World) arm(p *proc) {
	if p.armed == 0 || p.armed > p.until {
		p.armed = p.until
		w.schedule(p.until, p)
	}
}

// fire handles p's timer event.
func (p *proc) fire(w *World) {
	if p.armed != w.now {
		return // superseded by an earlier one
	}
	p.armed = 0
	switch {
	case !p.blocked || p.until == transport.Forever:
	case p.until <= w.now:
		w.unblock(p)
	default:
		w.arm(p)
	}
}

// what describes what p is blocked on.
func (p *proc) what() string {
	end := "for ever"
	if p.until != transport.Forever {
		end = "until " + elapsed(p.until)
	}
	if p.station == nil {
		return fmt.Sprintf("%s sleeps %s", p.name, end)
	}
	return fmt.Sprintf("%s waits for a frame on station %s (%s) %s", p.name, p.station.name, p.station.mac, end)
}

// elapsed prints a time of the world's clock.
func elapsed(at int64) string { return time.Duration(at - Start).String() }

// PanicError is the error of Run after a process has panicked.
type PanicError struct {
	Process string
	Seed    uint64
	Value   any    // argument of the panic
	Stack   []byte // stack at the panic
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("sim: process %s panicked (seed %d): %v\n%s", e.Process, e.Seed, e.Value, e.Stack)
}

// Unwrap returns the argument of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
