package vipl

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// spinner decides how long a wait polls before it blocks. Spinning pays when
// the answer comes sooner than a blocked thread wakes, and when the processor
// has nothing else to do. Both are observed, not configured:
//
//   - A wait that spins its budget away halves the budget; one that blocked
//     and was woken soon afterwards doubles it, up to the configured maximum.
//   - Every few microseconds the spinning thread yields to the kernel. If
//     others want the processor they get it, and the yield takes long. When
//     that happens again and again there are more runnable threads than
//     processors: the budget is zero for a while, longer each time.
type spinner struct {
	limit   int64 // configured maximum, ns; 0 means never spin
	current int64
	crowded int   // recent yields that took long
	pause   int64 // how long the next pause of spinning is
	until   int64 // no spinning before
}

const (
	spinRound  = 400        // looks at the ring between looks at the clock
	yieldEvery = 4          // rounds between yields to the kernel
	yieldLong  = 15_000     // ns; a yield that takes longer has let another thread run
	crowdedMax = 4          // long yields that mean a crowd
	pauseMin   = 4_000_000  // ns
	pauseMax   = 64_000_000 // ns
	spinFloor  = 1_000      // ns, to grow from
)

func (s *spinner) init(spin time.Duration, virtual bool) {
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

// missed is called when a wait has used up its budget in vain.
func (s *spinner) missed(w *waiter) {
	if !w.counted && s.current > 0 {
		w.counted = true
		s.current /= 2
	}
}

// slept is called when a wait that blocked ends, after ns in all.
func (s *spinner) slept(ns int64) {
	if ns < s.limit {
		s.current = min(s.limit, max(2*s.current, spinFloor))
	}
}

// yielded judges a yield that took ns.
func (s *spinner) yielded(now, ns int64) {
	if ns < yieldLong {
		s.crowded = max(s.crowded-1, 0)
		if s.crowded == 0 {
			s.pause = pauseMin
		}
		return
	}
	if s.crowded++; s.crowded >= crowdedMax {
		s.crowded = crowdedMax - 1
		s.until = now + s.pause
		s.pause = min(2*s.pause, pauseMax)
	}
}

// spinOnce looks at the ring for about a microsecond, without the engine's lock.
func (n *NIC) spinOnce(w *waiter) {
	n.mu.Unlock()
	found := false
	for i := 0; i < spinRound && !found; i++ {
		found = n.link.Ready()
	}
	var took int64
	if w.rounds++; !found && w.rounds%yieldEvery == 0 {
		t := n.link.Now()
		runtime.Gosched()
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		took = n.link.Now() - t
	}
	n.mu.Lock()
	n.fresh = found // reading the clock again would only delay the frame
	if took > 0 {
		n.spin.yielded(n.now, took)
	}
}
