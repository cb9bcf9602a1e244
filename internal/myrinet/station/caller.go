package station

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
)

// Caller is a process that uses a live card of this process. It rings a bell in memory that both share when it
// has something for the card. While this process polls its cable it looks at the bell, too, and the other process
// rings without a system call. While this process sleeps, the goroutine of Hear sleeps at the bell.
type Caller struct {
	host *Host
	bell *shared.Bell
	take func() (some bool)
	over atomic.Bool
	vain atomic.Int32 // rounds in a row without a reason
}

// NewCaller adds a process that rings a bell. take, which is called with the engine's lock held, has the card look
// at what the process has rung for, and reports whether there was a reason to ring.
func (h *Host) NewCaller(bell *shared.Bell, take func() (some bool)) *Caller {
	c := &Caller{host: h, bell: bell, take: take}
	h.callers.add(c)
	return c
}

// A process can ring for nothing, and end the waits of Hear, as often as it likes. After mostVain rounds in a row
// without a reason Hear alone looks at its bell, and pauses before each look, until there is a reason.
const (
	mostVain  = 64
	vainPause = time.Millisecond
)

// Hear has the card look at what the process rings for while this process does not poll. It returns after End.
func (c *Caller) Hear() {
	for {
		count := c.bell.Count()
		if c.over.Load() {
			return
		}
		if c.vain.Load() > mostVain {
			time.Sleep(vainPause)
		}
		if c.bell.Ready() {
			c.host.Engine.Lock()
			c.look()
			c.host.Drive()
			c.host.Engine.Unlock()
			runtime.Gosched() // goroutines that wait for the lock go first
			continue
		}
		began := time.Now()
		c.bell.Await(count)
		if time.Since(began) < vainPause && !c.bell.Ready() {
			c.vain.Add(1)
		}
	}
}

// look has the card look at what the process has rung for. The engine's lock is held.
func (c *Caller) look() (some bool) {
	if some = c.take(); some {
		c.vain.Store(0)
	} else if c.vain.Add(1) > mostVain {
		c.bell.Want(true)
		if c.bell.Ready() { // since the look, without a system call
			c.bell.Wake()
		}
	}
	return some
}

// End has Hear return, and the card look at the bell no more.
func (c *Caller) End() {
	c.over.Store(true)
	c.host.callers.remove(c)
	c.bell.Wake()
}

// callers are the processes that use a card.
type callers struct {
	all  atomic.Pointer[[]*Caller] // replaced, not changed
	next atomic.Uint32             // which part of them is looked at next

	mu     sync.Mutex
	asleep bool // nobody looks at the bells but Hear
}

func (s *callers) list() []*Caller {
	if l := s.all.Load(); l != nil {
		return *l
	}
	return nil
}

func (s *callers) add(c *Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	with := append(slices.Clone(s.list()), c)
	s.all.Store(&with)
	c.bell.Want(s.asleep)
}

func (s *callers) remove(c *Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	without := slices.DeleteFunc(slices.Clone(s.list()), func(x *Caller) bool { return x == c })
	s.all.Store(&without)
}

// oneLook is how many bells are looked at in one look at the cable: with more it would take long.
const oneLook = 4

// ready reports whether a process has rung, of those whose turn it is.
func (s *callers) ready() bool {
	list := s.list()
	if n := uint32(len(list)); n > oneLook {
		at := s.next.Add(1) % ((n + oneLook - 1) / oneLook) * oneLook
		list = list[at:min(at+oneLook, n)]
	}
	for _, c := range list {
		if c.rung() {
			return true
		}
	}
	return false
}

// rung reports whether the process has rung, and this process is to look, not Hear.
func (c *Caller) rung() bool { return c.bell.Ready() && c.vain.Load() <= mostVain }

// look has the card look at what processes have rung for. The engine's lock is held.
func (s *callers) look() (some bool) {
	for _, c := range s.list() {
		if c.rung() {
			some = c.look() || some
		}
	}
	return some
}

// sleep has Hear be woken from now on. It reports false if a process has rung before.
func (s *callers) sleep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = true
	list := s.list()
	for _, c := range list {
		c.bell.Want(true)
	}
	return !slices.ContainsFunc(list, (*Caller).rung)
}

// wake has Hear sleep on, as this process looks at the bells again.
func (s *callers) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = false
	for _, c := range s.list() {
		c.bell.Want(c.vain.Load() > mostVain)
	}
}

// called is the cable of a card as an engine waits at it: also for processes that ring.
type called struct {
	transport.Link
	by *callers
}

// Ready implements transport.Link.
func (l *called) Ready() bool { return l.Link.Ready() || l.by.ready() }

// Wait implements transport.Link.
func (l *called) Wait(until int64) (err error) {
	if l.by.sleep() {
		err = l.Link.Wait(until)
	}
	l.by.wake()
	return err
}
