package processor

// Sharing decides when a thread that sends bursts of data migrates.
//
// A frame that the kernel passes to a socket of the same host wakes the receiver, often on the sender's
// processor. The two threads then take turns instead of copying at the same time, although another
// processor is idle. The kernel leaves it at that: on a virtual machine, it does not regard a processor
// that has been idle for long as available. Once the threads are apart, each is woken on its own
// processor, because that one has only just become idle.
//
// The zero Sharing is ready.
type Sharing struct {
	squeezed int   // consecutive bursts with a long wait
	until    int64 // no migration before this time
	pause    int64 // length of the next pause
}

// LongWait is the least wait of a burst, in nanoseconds, that shows that the thread shares its processor. It
// is longer than the wake-up of an idle processor.
const LongWait = 30_000

const (
	sharedTimes = 2          // such consecutive bursts
	pauseMin    = 500_000    // ns
	pauseMax    = 64_000_000 // ns
)

// Sent records that the thread has sent a burst at now, and has waited for its processor for ns since the
// previous burst. It reports whether the thread should migrate, unless the host is crowded. After each
// report it waits before the next, longer each time, for migrations that do not help.
func (s *Sharing) Sent(now, ns int64) bool {
	if ns < LongWait {
		s.squeezed = 0
		return false
	}
	if s.squeezed++; s.squeezed < sharedTimes || now < s.until {
		return false
	}
	if s.pause == 0 || now-s.until > pauseMax {
		s.pause = pauseMin
	}
	s.squeezed, s.until = 0, now+s.pause
	s.pause = min(2*s.pause, pauseMax)
	return true
}
