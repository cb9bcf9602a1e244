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

// Caller is another process that uses a live card of this process. It rings a bell in shared memory
// when it has work for the card. While this process polls its cable, it checks the bell too, and
// the other process rings without a system call. While this process sleeps, the goroutine that runs Hear
// sleeps until the bell is rung.
type Caller struct {
	host *Host
	bell *shared.Bell
	take func() (some bool)
	over atomic.Bool
	vain atomic.Int32 // consecutive rounds without work
}

// NewCaller adds a process that rings a bell. take makes the card process the requests, and reports
// whether there were any. It is called with the engine's lock held.
func (h *Host) NewCaller(bell *shared.Bell, take func() (some bool)) *Caller {
	c := &Caller{host: h, bell: bell, take: take}
	h.callers.add(c)
	return c
}

// A process can ring without a request as often as it likes, and so wake Hear each time. After mostVain
// consecutive rounds without work, only Hear checks its bell, and pauses before each check, until there
// is work again.
const (
	mostVain  = 64
	vainPause = time.Millisecond
)

// Hear waits for the caller's bell while this process does not poll, and makes the card process the
// caller's requests. It returns after End.
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

// look makes the card process the caller's requests. The caller must hold the engine's lock.
func (c *Caller) look() (some bool) {
	if some = c.take(); some {
		c.vain.Store(0)
	} else if c.vain.Add(1) > mostVain {
		c.bell.Want(true)
		if c.bell.Ready() { // rung since the check, without a system call
			c.bell.Wake()
		}
	}
	return some
}

// End makes Hear return; the bell is no longer checked.
func (c *Caller) End() {
	c.over.Store(true)
	c.host.callers.remove(c)
	c.bell.Wake()
}

// callers holds the processes that use a card.
type callers struct {
	all  atomic.Pointer[[]*Caller] // copied on write
	next atomic.Uint32             // next part of the list to check

	mu     sync.Mutex
	asleep bool // only Hear checks the bells
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

// oneLook limits the bells that are checked with one check of the cable, to bound its duration.
const oneLook = 4

// ready reports whether a process has rung, among those whose turn it is.
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

// rung reports whether the process has rung and this process, not Hear, must check.
func (c *Caller) rung() bool { return c.bell.Ready() && c.vain.Load() <= mostVain }

// look makes the card process requests. The caller must hold the engine's lock.
func (s *callers) look() (some bool) {
	for _, c := range s.list() {
		if c.rung() {
			some = c.look() || some
		}
	}
	return some
}

// sleep makes the bells wake Hear from now on. It reports false if a process has already rung.
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

// wake makes Hear sleep again, because this process checks the bells.
func (s *callers) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = false
	for _, c := range s.list() {
		c.bell.Want(c.vain.Load() > mostVain)
	}
}

// called is a card's cable with the bells of its callers, for the engine to wait on.
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
