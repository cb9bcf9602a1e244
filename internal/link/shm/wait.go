package shm

import (
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Values of a ring's sleep word: the state of its receiver.
const (
	awake   = iota
	onFutex // sleeps on the word itself
	onBell  // sleeps until its bell rings
)

// Values of waiter.state.
const (
	idle    = iota
	waiting // a goroutine sleeps, or is about to sleep
	woken   // Wake was called; the current or next Wait returns
)

// waiter blocks a goroutine outside Go's netpoller, which rounds waits below a millisecond up to
// one and adds a thread switch to each.
type waiter struct {
	state    atomic.Uint32
	sleeping atomic.Bool // the rings say that we sleep
	polls    atomic.Bool // the sleep is in ppoll, not on futexes
	words    futexes     // this and the fields below belong to the waiting goroutine
	fds      [1]unix.PollFd
	limit    unix.Timespec
}

// Bell returns a descriptor that becomes readable when a peer wakes the link from a sleep that
// BeginSleep has begun. It is -1 if there are no peers.
func (l *Link) Bell() int { return l.bell.hear }

// BeginSleep is for a caller that does not sleep in Wait. Until EndSleep, peers wake the caller by
// the bell, and events of this process call Config.Interrupt. It reports whether a frame is already
// there.
func (l *Link) BeginSleep() (ready bool) {
	l.beginSleep(onBell)
	return l.Ready()
}

// EndSleep ends a sleep that BeginSleep has begun.
func (l *Link) EndSleep() {
	l.endSleep()
	if l.known.Load() {
		l.bell.drain()
	}
}

func (l *Link) beginSleep(mode uint32) []*peer {
	l.wait.sleeping.Store(true)
	peers := *l.peers.Load()
	for _, p := range peers {
		p.inSleep.Store(mode)
	}
	return peers
}

func (l *Link) endSleep() {
	l.wait.sleeping.Store(false)
	for _, p := range *l.peers.Load() {
		p.inSleep.Store(awake)
	}
}

// notify makes the sleeper check again, because the peers have changed.
func (l *Link) notify() {
	if l.wait.sleeping.Load() {
		l.interrupt()
	}
}

// Wake implements transport.Link. It makes a system call only if a goroutine waits.
func (l *Link) Wake() {
	if !l.gate.Enter() {
		return
	}
	l.wakes.Add(1)
	l.wake()
	l.gate.Leave()
}

func (l *Link) wake() {
	w := &l.wait
	if w.state.Load() != woken && w.state.Swap(woken) == waiting {
		if wakeFutex(&w.state, false); w.polls.Load() {
			l.bell.strike()
		}
	}
}

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	w := &l.wait
	if !w.state.CompareAndSwap(idle, waiting) {
		w.state.Store(idle)
		return l.openOr(nil)
	}
	var err error
	if len(*l.peers.Load()) < futexWaitMax && futexesWork() {
		err = l.sleep(l.beginSleep(onFutex), until)
		l.endSleep()
	} else {
		w.polls.Store(true)
		l.beginSleep(onBell)
		err = l.poll(until)
		l.endSleep()
		l.bell.drain()
		w.polls.Store(false)
	}
	w.state.Store(idle)
	return l.openOr(err)
}

// openOr returns err, or ErrClosed if the link has been closed.
func (l *Link) openOr(err error) error {
	if !l.gate.Open() {
		return transport.ErrClosed
	}
	return err
}

// sleep blocks in futex_waitv on the sleep words of all rings.
func (l *Link) sleep(peers []*peer, until int64) error {
	// Close shuts the gate before it wakes, so one of the two is visible here.
	if l.Ready() || !l.gate.Open() || len(peers) >= futexWaitMax { // a peer was added since Wait checked
		return nil
	}
	l.waits.Add(1)
	w := &l.wait
	for {
		left := left(until, l.Now())
		if left == 0 {
			return nil
		}
		w.words.n = 0
		w.words.add(&w.state, waiting, false)
		for _, p := range peers {
			w.words.add(p.inSleep, onFutex, true)
		}
		switch errno := w.words.wait(left); errno {
		case 0, unix.EAGAIN:
			return nil
		case unix.EINTR, unix.ETIMEDOUT:
		default:
			return errno
		}
	}
}

// left returns how long to sleep: negative means forever, 0 not at all.
func left(until, now int64) int64 {
	if until == transport.Forever {
		return -1
	}
	return max(until-now, 0)
}

// poll blocks in ppoll on the bell.
func (l *Link) poll(until int64) error {
	w := &l.wait
	// A Wake that has seen w.polls false has not rung the bell.
	if l.Ready() || !l.gate.Open() || w.state.Load() == woken {
		return nil
	}
	l.waits.Add(1)
	for {
		var limit *unix.Timespec
		switch left := left(until, l.Now()); {
		case left == 0:
			return nil
		case left > 0:
			w.limit = unix.NsecToTimespec(min(left, int64(time.Hour)))
			limit = &w.limit
		}
		w.fds[0] = unix.PollFd{Fd: int32(l.bell.hear), Events: unix.POLLIN}
		switch n, err := unix.Ppoll(w.fds[:], limit, nil); {
		case err == unix.EINTR || err == nil && n == 0:
		default:
			return err
		}
	}
}

// bell wakes a link that sleeps in poll, where a futex does not reach it: a datagram socket to
// which others send. It is a socket and not an eventfd, because a send can be made non-blocking and
// cannot remove what others have sent. Senders find it by its name: through a shared descriptor,
// one peer could silence the others, for example by shutdown(2).
type bell struct {
	hear int
	ring int // sends to the bells of others, or to hear
}

// silent is the bell of a link without peers.
var silent = bell{-1, -1}

// open opens the bell with that name. Both sockets belong to the network namespace of the calling
// thread.
func (b *bell) open(name *unix.SockaddrUnix) (err error) {
	for _, fd := range []*int{&b.hear, &b.ring} {
		if *fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			*fd = -1
			return err
		}
	}
	passfd.RefuseRights(b.hear)
	if err = unix.Bind(b.hear, name); err != nil {
		return err
	}
	return unix.Connect(b.ring, name)
}

func (b *bell) close() {
	passfd.Promptly(func() {
		for _, fd := range []int{b.hear, b.ring} {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	})
}

// drain reads what has been sent. Any process can send descriptors to the bell.
func (b *bell) drain() {
	for range bellMax {
		if !passfd.Drop(b.hear) {
			return
		}
	}
}

// bellMax limits the messages that one drain reads.
const bellMax = 64

var stroke = []byte{1}

// strike rings this link's own bell. If the socket is full, it has been rung already.
func (b *bell) strike() {
	_ = unix.Send(b.ring, stroke, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// strikeAt rings the bell of that name. Only one goroutine at a time may use name.
func (b *bell) strikeAt(name *unix.SockaddrUnix) {
	_ = unix.Sendto(b.ring, stroke, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, name)
}
