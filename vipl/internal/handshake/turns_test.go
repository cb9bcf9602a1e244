package handshake

import (
	"slices"
	"testing"
)

const turnTimeout = int64(1_000_000_000)

// script is a table of four turns at a time, and attempts that are called by their numbers.
type script struct {
	*testing.T
	table   Turns[int]
	all     []*Attempt[int]
	now     int64
	watched []int
}

// newScript begins so many attempts at a time that is not 0.
func newScript(t *testing.T, n int) *script {
	s := &script{T: t, now: 5000 * ms}
	s.table.Init(16, func(i int) { s.watched = append(s.watched, i) })
	for i := range n {
		a := &Attempt[int]{}
		a.Begin(i, s.now, turnTimeout)
		s.all = append(s.all, a)
	}
	return s
}

// sends has the attempts from..to-1 ask whether they may send, and wants an answer.
func (s *script) sends(from, to int, at Stage, want bool) {
	s.Helper()
	for i, a := range s.all[from:to] {
		got := s.table.Admit(a, at, s.now)
		if got {
			s.table.Sends(a, s.now)
		}
		if got != want {
			s.Fatalf("attempt %d may send: %v, want %v", from+i, got, want)
		}
		if !got && a.Due() != Never {
			s.Fatalf("attempt %d waits and has a timer at %d", from+i, a.Due())
		}
	}
}

// left wants an attempt to have so much time.
func (s *script) left(i int, want int64) {
	s.Helper()
	if got := s.all[i].Left(s.now); got != want {
		s.Errorf("attempt %d has %d ns left, want %d", i, got, want)
	}
}

// TestTurns: four send, the others wait, without a clock; who ends gives its turn to the one
// that has waited longest.
func TestTurns(t *testing.T) {
	s := newScript(t, 7)
	s.sends(0, 4, StageAsks, true)
	s.sends(4, 7, StageAsks, false)
	s.now += 400 * ms
	s.left(0, turnTimeout-400*ms)
	s.left(4, turnTimeout)
	s.table.End(s.all[5], s.now) // it was abandoned while it waited
	s.table.End(s.all[1], s.now)
	s.table.End(s.all[2], s.now)
	if want := []int{4, 6}; !slices.Equal(s.watched, want) {
		t.Fatalf("the turn went to %v, want %v", s.watched, want)
	}
	s.left(4, turnTimeout)
	if due := s.all[4].Due(); due != s.now {
		t.Errorf("who gets the turn is due at %d, want now, %d", due, s.now)
	}
	s.sends(4, 5, StageAsks, true)
}

// TestInVain: who has sent four times without an answer, or twelve times after one, makes way
// where others wait, and nowhere else.
func TestInVain(t *testing.T) {
	for stage, times := range map[Stage]int{StageAsks: 4, StageProves: 12} {
		s := newScript(t, 5)
		for range 3 * times {
			s.sends(0, 1, stage, true) // alone
		}
		s.table.Resume(s.all[0], s.now)
		for range times {
			s.sends(0, 4, stage, true)
		}
		s.sends(4, 5, stage, false)
		s.now += 100 * ms
		s.sends(0, 1, stage, false)
		if !slices.Equal(s.watched, []int{4}) {
			t.Errorf("the turn went to %v, want 4", s.watched)
		}
	}
}

// TestClock: the time that one waits for its second turn counts, unless another has got on
// meanwhile.
func TestClock(t *testing.T) {
	for _, gotOn := range []bool{false, true} {
		s := newScript(t, 5)
		for range 4 {
			s.sends(0, 4, StageAsks, true)
		}
		s.sends(4, 5, StageAsks, false)
		s.now += 100 * ms
		s.sends(0, 1, StageAsks, false) // it waits behind 4, which has its turn
		s.now += 300 * ms
		want := turnTimeout - 400*ms
		if gotOn {
			s.table.Resume(s.all[4], s.now)
			want = turnTimeout - 100*ms
		}
		s.table.End(s.all[1], s.now)
		s.left(0, want)
	}
}

// TestAnswer: an answer gives the turn back to one that waits; the side that answers needs
// none.
func TestAnswer(t *testing.T) {
	s := newScript(t, 6)
	s.sends(0, 4, StageAsks, true)
	s.sends(4, 5, StageAsks, false)
	s.sends(5, 6, StageAnswers, true)
	s.table.Resume(s.all[4], s.now)
	s.sends(4, 5, StageProves, true)
	s.table.End(s.all[0], s.now)
	s.table.End(s.all[5], s.now)
	if !slices.Equal(s.watched, []int{4}) {
		t.Errorf("the turn went to %v, want 4", s.watched)
	}
}

// TestIntervals: an attempt repeats what it sends after 5 ms, and then ever more rarely, up to
// ten times a second.
func TestIntervals(t *testing.T) {
	s := newScript(t, 1)
	var got []int64
	for range 7 {
		s.sends(0, 1, StageAsks, true)
		got = append(got, (s.all[0].Next-s.now)/ms)
		s.now = s.all[0].Next
	}
	if want := []int64{5, 10, 20, 40, 80, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("it sends again after %v ms, want %v", got, want)
	}
	s.all[0].Restart(s.now)
	if s.sends(0, 1, StageAsks, true); s.all[0].Next != s.now+5*ms {
		t.Errorf("after a restart it sends again after %d ns", s.all[0].Next-s.now)
	}
}

// exchange has one attempt send times times, when it is due, and be answered so long after the
// last of them. It returns how long it waited before it repeated, or would have.
func (s *script) exchange(times int, took int64) (first int64) {
	a := s.all[0]
	a.Restart(s.now)
	for i := range times {
		s.now = a.Next
		if s.sends(0, 1, StageAnswers, true); i == 0 {
			first = a.Next - s.now
		}
	}
	s.now += took
	s.table.Answered(a, s.now)
	return first
}

// TestPace: how soon an attempt repeats follows from how long answers take that come to what was
// sent once; from others only if they come so late that they seem to answer something earlier.
func TestPace(t *testing.T) {
	const us = ms / 1000
	s := newScript(t, 1)
	wants := func(what string, lo, hi int64) {
		t.Helper()
		if first := s.exchange(1, 20*us); first < lo || first > hi {
			t.Errorf("%s, an attempt repeats after %d us, want %d to %d", what, first/us, lo/us, hi/us)
		}
	}
	s.exchange(4, 20*us)
	wants("after losses, and no other answer, ever", 5*ms, 5*ms)
	s = newScript(t, 1)
	s.exchange(4, 15*ms)
	wants("after a late answer, and no other, ever", 40*ms, 40*ms)
	wants("after an answer to what was sent once", 5*ms, 5*ms)
	for range 20 {
		s.exchange(1, 20*us)
	}
	wants("on a fast network", 5*ms, 5*ms)
	s.exchange(3, 20*us)
	wants("after two losses", 5*ms, 5*ms)
	for range 20 {
		s.exchange(1, 10*ms)
	}
	wants("when answers take 10 ms", 10*ms, 20*ms)
	s.exchange(3, 30*ms)
	if first := s.exchange(2, 30*ms); first < 40*ms || first > 90*ms {
		t.Errorf("after a late answer an attempt repeats after %d us", first/us)
	}
	if first := s.exchange(9, 90*ms); first < 80*ms {
		t.Errorf("after another late answer an attempt repeats after %d us", first/us)
	}
	wants("after many repetitions", 100*ms, 100*ms)
	for range 20 {
		s.exchange(1, 3600_000*ms)
	}
	wants("when answers take an hour", 100*ms, 100*ms)
	for range 60 {
		s.exchange(1, 20*us)
	}
	wants("when answers are fast again", 5*ms, 5*ms)
	if n := testing.AllocsPerRun(100, func() { s.exchange(2, 10*us) }); n > 0 {
		t.Errorf("an exchange allocates %v times", n)
	}
}
