package progress

import (
	"runtime"
	"time"

	"github.com/bobnet-go/bobnet/internal/shift"
	"golang.org/x/sys/unix"
)

// spinner decides how long a wait polls before it blocks. Spinning pays when
// the answer comes sooner than a blocked thread wakes, and when the processor
// has nothing else to do. Both are observed, not configured:
//
//   - A wait that had to block, and for which nothing came for longer than the configured
//     maximum, halves the budget; one for which something came sooner raises it again.
//   - Every few microseconds the spinning thread yields to the kernel. If
//     another thread wants the processor it runs then, and the yield takes long.
//     If a third of the time is lost in this way and more threads are runnable
//     than there are processors, the host is crowded, and the budget is zero for a while,
//     longer each time. The exception are threads that communicate through shared memory
//     and soon give the processor back, as ranks of one host do while they wait: then the
//     thread polls on, and yields after each short look. A rank that has to answer runs as
//     soon as it can, and no rank pays for a sleep and a wake-up. Time in
//     which other threads run does not count for the budget then.
//     If no more are runnable, the thread shares a processor while another one is
//     idle, and migrates there; see migrate.
type spinner struct {
	limit   int64 // configured maximum, ns; 0 means never spin
	current int64
	since   int64 // start of the current observation window
	lost    int64 // ns of it that other threads used
	lent    int64 // yields of it during which other threads ran
	kept    int64 // ns that such a yield took, the mean of the window before
	polite  bool  // yields after each look
	crowd   bool  // does so by default: see Engine.Crowd
	pause   int64 // length of the next pause
	until   int64 // no spinning before this time
	squeeze int   // consecutive yields in which another thread ran
	stay    int64 // no migration before this time
	gives   bool  // gives way first (Config.GiveWay)
	shift   shift.Shift
	load    loadText
	busy    func() bool // replaces load in tests
}

const (
	spinRound  = 400        // checks of the ring between readings of the clock
	yieldEvery = 4          // rounds between yields to the kernel
	yieldLong  = 3_000      // ns; during a longer yield another thread has run
	politeLook = 40         // checks of the ring between yields of a polite spinner
	yieldKept  = 250_000    // ns; threads that keep the processor for longer, in the mean, do not yield
	squeezed   = 2          // such consecutive yields: that thread competes for the processor
	stayFor    = 500_000    // minimum ns between migrations
	window     = 2_000_000  // ns
	lostPer    = 3          // the host may be crowded if other threads used this fraction, a third
	pauseMin   = 4_000_000  // ns
	pauseMax   = 64_000_000 // ns
)

func (s *spinner) init(spin time.Duration, virtual, gives bool) {
	s.gives = gives
	switch {
	case spin < 0 || virtual:
		s.limit = 0
	case spin == 0:
		s.limit = int64(DefaultSpin)
	default:
		s.limit = int64(spin)
	}
	s.current = s.limit
	s.pause = pauseMin
}

func (s *spinner) budget(now int64) int64 {
	if now < s.until {
		return 0
	}
	return s.current
}

// slept records that a wait which blocked has ended, or that something has arrived for it, ns after
// its start or the arrival before. If ns is below the limit, spinning would have paid, and the
// budget grows.
func (s *spinner) slept(ns int64) {
	if ns < s.limit {
		s.current = min(s.limit, 2*max(s.current, ns))
	} else {
		s.current /= 2
	}
}

// yielded records a yield that took ns. share reports whether the thread shares its processor, and
// should migrate unless the host is crowded. doubt reports that other threads used much of the
// observation window that has just ended: the caller must then determine whether the host is
// crowded, and call judge.
func (s *spinner) yielded(now, ns int64) (share, doubt bool) {
	if ns >= yieldLong {
		s.lost += ns
		s.lent++
		s.squeeze++
	} else {
		s.squeeze = 0
	}
	if s.squeeze >= squeezed && now >= s.stay {
		s.squeeze, s.stay = 0, now+stayFor
		share = true
	}
	span := now - s.since
	if span < window {
		return share, false
	}
	if doubt = s.lost*lostPer > span; !doubt {
		s.pause, s.polite = pauseMin, s.crowd
	}
	s.kept = s.lost / max(s.lent, 1)
	s.since, s.lost, s.lent = now, 0, 0
	return share, doubt
}

// judge pauses spinning if the host is crowded, or makes the spinner polite. near reports whether
// messages come through shared memory: packets need the kernel's softirq threads, for which polite
// spinners leave too little time. A spinner with GiveWay pauses for the maximum time at once, so that
// others need not pause.
func (s *spinner) judge(now int64, crowded, near bool) {
	s.polite = crowded && near && !s.gives && s.kept < yieldKept
	switch {
	case !crowded || s.polite:
		s.pause = pauseMin
		return
	case s.gives:
		s.pause = pauseMax
	}
	s.until = now + s.pause
	s.pause = min(2*s.pause, pauseMax)
}

func (s *spinner) crowded() bool {
	if s.busy != nil {
		return s.busy()
	}
	return s.load.crowded()
}

// spinOnce polls the link for about a microsecond, without the engine's lock, and reports whether
// something has arrived.
func (e *Engine) spinOnce(w *Waiter) (found bool) {
	over := e.spin.shift.Over(e.now)
	looks, every := spinRound, yieldEvery
	if e.spin.polite {
		looks, every = politeLook, 1
	}
	look := e.elsewhere.look
	e.mu.Unlock()
	if over {
		runtime.Gosched()
	}
	for i := 0; i < looks && !found; i++ {
		found = e.link.Ready() || look != nil && look(false)
	}
	var took int64
	if w.rounds++; !found && w.rounds%every == 0 {
		t := e.link.Now()
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		took = e.link.Now() - t
	}
	e.mu.Lock()
	e.fresh = found // reading the clock again would only delay the frame
	if e.spin.polite && took >= yieldLong {
		w.stirred += took
	}
	if took > 0 {
		if share, doubt := e.spin.yielded(e.now, took); share || doubt {
			e.lookAround(share, doubt)
		}
	}
	return found
}

// lookAround determines whether the host is crowded. If it is not and share is set, it migrates the
// thread. It releases the engine's lock during the system calls. The caller is the leader, so no
// other goroutine runs this function.
func (e *Engine) lookAround(share, doubt bool) {
	e.mu.Unlock()
	crowded := e.spin.crowded()
	if share && !crowded {
		migrate()
	}
	e.mu.Lock()
	if doubt || share && e.spin.gives {
		e.spin.judge(e.now, crowded, e.nearby != nil && e.nearby.Nearby())
	}
}
