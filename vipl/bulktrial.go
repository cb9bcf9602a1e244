package vipl

// bulkTrial finds out whether bulk frames are worth a socket of their own
// (transport.BulkReceiver.BulkOnTrial): by it the kernel copies less, but its memory
// for a frame goes from processor to processor, and which costs more differs from
// machine to machine. That shows only in a stream to a peer; so the first long
// messages that a NIC receives are the measure. They come by either way in turn, a
// share each; a pair of shares is won by bulk if its way took less time for a byte, by
// more than what the second socket costs all frames and chance. The trial ends when
// one side is ahead by enough, and then the verdict stands as long as the NIC is open:
// a machine seldom changes, and a further trial would cost a stream that was well.
//
// A share in which the stream has paused says nothing, and its pair is begun anew.
// During the trial the second socket is there and costs all frames something, so
// that the trial ends without a gain, too, when it has taken too long.
//
// It knows neither clock nor link: it is told what each poll has taken in.
type bulkTrial struct {
	rules *trialRules

	apart bool // the way of the present share: bulk frames come apart; in the end the verdict
	over  bool
	score int   // pairs won less pairs lost
	pairs int   // since the second socket is there, those included that were void
	ring  int64 // ns for a MiB in the last share by the ring
	bulk  int64 // the same by bulk

	last     int64 // when something came last
	began    int64 // when measuring began
	longest  int64 // without anything, since then
	skipped  int   // bytes of the head
	measured int   // bytes since
}

// trialRules say how a share is measured.
type trialRules struct {
	head  int   // bytes that are left out at its beginning, about what is under way at a time
	size  int   // bytes that are measured, at the least
	time  int64 // ns for which it is measured, at the least: what else runs on the machine comes by the millisecond
	gain  int64 // what bulk must save, in a thousand; half of it is what the second socket costs all frames
	pause int64 // ns without anything that make it void
	even  int64 // as does one part in so many of its time
	end   int64 // ns without anything that end the trial
}

var bulkRules = trialRules{head: 1 << 20, size: 4 << 20, time: 5_000_000, gain: 100, pause: 10_000_000, even: 8, end: 1_000_000_000}

// When else a trial ends.
const (
	trialWon  = 3 // pairs ahead
	trialLost = 1 // pairs behind: to do without is what costs a stream nothing
	trialMost = 6 // pairs
)

// begun reports whether the second socket is there.
func (t *bulkTrial) begun() bool { return t.pairs > 0 }

// note takes note of a poll at the time now that has taken in size bytes of long
// messages, none perhaps.
func (t *bulkTrial) note(now int64, size int) {
	gap := now - t.last
	switch {
	case t.over:
		return
	case gap > t.rules.end && t.begun():
		t.end(false)
		return
	case gap > t.rules.pause && t.skipped > 0:
		t.void()
	}
	if size == 0 {
		return
	}
	t.last = now
	if t.skipped < t.rules.head {
		t.skipped += size
		t.began, t.longest = now, 0
		return
	}
	t.measured += size
	t.longest = max(t.longest, gap)
	if ns := now - t.began; t.measured >= t.rules.size && ns >= t.rules.time {
		t.finish(ns)
	}
}

// finish ends a share whose measured part took ns.
func (t *bulkTrial) finish(ns int64) {
	if t.longest*t.rules.even > ns {
		t.void()
		return
	}
	cost := ns << 20 / int64(t.measured)
	t.skipped, t.measured = 0, 0
	if !t.apart {
		t.ring = cost
		t.apart = true
		t.pairs = max(t.pairs, 1)
		return
	}
	t.bulk = cost
	if t.bulk*1000 < t.ring*(1000-t.rules.gain) {
		t.score++
	} else {
		t.score--
	}
	switch {
	case t.score >= trialWon:
		t.end(true)
	case t.score <= -trialLost:
		t.end(false)
	default:
		t.again()
	}
}

// void forgets the present share, and its pair.
func (t *bulkTrial) void() {
	t.skipped, t.measured = 0, 0
	t.again()
}

// again begins a pair, unless there have been enough.
func (t *bulkTrial) again() {
	t.apart = false
	if !t.begun() {
		return
	}
	if t.pairs++; t.pairs > trialMost {
		t.end(false)
	}
}

func (t *bulkTrial) end(apart bool) { t.apart, t.over = apart, true }
