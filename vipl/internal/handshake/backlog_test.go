package handshake

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

const ms = int64(1_000_000)

// listener is a backlog and its clock.
type listener struct {
	*testing.T
	Backlog
	now int64
}

// ask makes requester i, whose address is proven, ask, and returns its request.
func (l *listener) ask(i int, want Verdict) *Request {
	l.Helper()
	h := ethertype.Header{Src: ethertype.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, SrcPort: uint16(i), DstPort: 7}
	got, r := l.Receive(&h, &Info{Tag: uint32(i + 1)}, l.now)
	if got != want || (r == nil) == (want <= RequestRefused) {
		l.Fatalf("request of %d: verdict %d with request %v, want %d", i, got, r, want)
	}
	return r
}

// takes takes requests and wants those of the given requesters.
func (l *listener) takes(want ...int) {
	l.Helper()
	for _, i := range want {
		if r := l.Pop(l.now); r == nil || int(r.From.Port) != i || r.Port != 7 {
			l.Fatalf("took %+v, want that of %d", r, i)
		}
	}
	if l.Waiting() > 0 {
		l.Fatalf("%d requests are left", l.Waiting())
	}
}

// TestBacklogTurns: requests are taken in their order, those that are not repeated any more last,
// and a repetition is not a new request.
func TestBacklogTurns(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	l.ask(1, RequestNew)
	l.ask(2, RequestNew)
	l.now += int64(silentMax)
	l.ask(3, RequestNew)
	l.ask(4, RequestNew)
	l.ask(3, RequestKnown)
	l.ask(4, RequestKnown)
	l.now++ // 1 and 2 are silent
	l.takes(3, 4, 1, 2)
	if l.Pop(l.now) != nil {
		t.Error("took from an empty backlog")
	}
	l.ask(4, RequestKnown) // it has been taken, and is not decided
}

// TestRefused: a requester that did not hear of its refusal is told again, until it is forgotten.
func TestRefused(t *testing.T) {
	l := &listener{T: t}
	r := l.ask(1, RequestNew)
	l.takes(1)
	if r.Decided() {
		t.Fatal("a request is decided that was only taken")
	}
	r.Refuse([]byte{5}, l.now)
	if !r.Decided() {
		t.Fatal("a request is not decided that was refused")
	}
	if again := l.ask(1, RequestRefused); again != r || again.Refusal[0] != 5 {
		t.Errorf("%+v", again)
	}
	l.now += decidedLife
	l.ask(1, RequestRefused)
	l.ask(2, RequestNew)
	l.ask(1, RequestRefused)
	l.now++
	l.ask(3, RequestNew) // forgets 1
	l.ask(1, RequestNew)
	l.takes(2, 3, 1)
}

// TestFull: when too many wait, one whose requester has gone makes room, and nobody else
// does. Of the decided ones the oldest make room.
func TestFull(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	for i := range waitingMax {
		l.ask(i, RequestNew)
	}
	l.ask(1000, RequestFull)
	l.now += int64(silentMax) + 1
	for i := range waitingMax {
		if i != 5 {
			l.ask(i, RequestKnown)
		}
	}
	l.ask(1000, RequestNew)
	l.ask(5, RequestFull)
	if l.Waiting() != waitingMax {
		t.Fatalf("%d wait", l.Waiting())
	}
	if all := l.Clear(); len(all) != waitingMax || l.Waiting() != 0 {
		t.Fatalf("%d of %d requests were taken", len(all), waitingMax)
	}
	for i := range rememberedMax - waitingMax {
		l.ask(2000+i, RequestNew)
		l.Pop(l.now).Decide(l.now)
	}
	l.ask(2000, RequestKnown)
	l.ask(1001, RequestNew)
	l.ask(2000, RequestNew)
	if len(l.known) != rememberedMax {
		t.Errorf("%d requests are remembered, want %d", len(l.known), rememberedMax)
	}
}

// TestCrowdOfOneStation: a station that asks under many ports, and repeats all its requests, does not keep
// the requests of other stations out. Stations that ask as often as each other displace nobody.
func TestCrowdOfOneStation(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	crowd := func(port int, want Verdict) {
		t.Helper()
		h := ethertype.Header{Src: ethertype.MAC{2, 1}, SrcPort: uint16(port), DstPort: 7}
		if got, _ := l.Receive(&h, &Info{Tag: 1}, l.now); got != want {
			t.Fatalf("request %d of the crowd: verdict %d, want %d", port, got, want)
		}
	}
	for i := range waitingMax {
		crowd(i, RequestNew)
	}
	crowd(waitingMax, RequestFull)
	for i := range waitingMax - 1 {
		l.ask(i, RequestNew)
		crowd(waitingMax, RequestFull)
	}
	l.ask(waitingMax, RequestFull)
	l.ask(3, RequestKnown)
	crowd(0, RequestKnown) // the oldest one stays
	for range waitingMax {
		l.Pop(l.now)
	}
	if l.Waiting() != 0 || len(l.of) != 0 {
		t.Errorf("%d requests of %d stations wait", l.Waiting(), len(l.of))
	}
}

// TestNotKept: requests that are turned away because too many wait are not remembered, however
// many come: they take no room from others, and each is a new one when it comes again.
func TestNotKept(t *testing.T) {
	const flood = rememberedMax + 10
	l := &listener{T: t, now: 1000 * ms}
	for i := range waitingMax {
		l.ask(i, RequestNew)
	}
	for i := range flood {
		l.ask(1000+i, RequestFull)
	}
	if len(l.known) != waitingMax || len(l.decided) != 0 {
		t.Errorf("%d requests are remembered, and %d as decided, of %d that wait", len(l.known), len(l.decided), waitingMax)
	}
	l.Pop(l.now)
	l.ask(1000, RequestNew)
}

// TestHoldsUp: a server waits a second for a requester that is silent, and longer only while
// no others wait.
func TestHoldsUp(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	r := l.ask(1, RequestNew)
	l.takes(1)
	r.Decide(l.now)
	wants := func(want bool) {
		t.Helper()
		if r.HoldsUp(l.now) != want {
			t.Fatalf("at %d ms: %v, want %v", l.now/ms, !want, want)
		}
	}
	l.now += int64(silentMax)
	l.ask(2, RequestNew)
	wants(false)
	l.now++
	wants(true)
	r.Heard(l.now)
	wants(false)
	l.now += int64(silentMax) + 1
	wants(true)
	l.takes(2)
	wants(false)
}

// TestForget: a request that was passed over is a new one when it comes again.
func TestForget(t *testing.T) {
	l := &listener{T: t}
	old := l.ask(1, RequestNew)
	l.takes(1)
	old.Forget()
	r := l.ask(1, RequestNew)
	old.Forget() // it is not the one that the backlog has
	l.ask(1, RequestKnown)
	l.takes(1)
	if r == old {
		t.Error("a forgotten request is known")
	}
}
