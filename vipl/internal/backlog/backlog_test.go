package backlog

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conninfo"
)

const ms = int64(1_000_000)

// listener is a backlog and its clock.
type listener struct {
	*testing.T
	Backlog
	now int64
}

// ask has requester i ask, and returns its request.
func (l *listener) ask(i int, proven bool, want Verdict) *Request {
	l.Helper()
	h := ethertype.Header{Src: ethertype.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, SrcPort: uint16(i), DstPort: 7}
	info := conninfo.Info{Tag: uint32(i + 1)}
	got, r := l.Receive(&h, &info, conninfo.Size, proven, l.now)
	if got != want || (r == nil) == (want <= Refused) {
		l.Fatalf("request of %d: verdict %d with request %v, want %d", i, got, r, want)
	}
	return r
}

// takes takes requests and wants those of the given requesters.
func (l *listener) takes(want ...int) {
	l.Helper()
	for _, i := range want {
		if r := l.Take(l.now); r == nil || int(r.From.Port) != i || r.Port != 7 {
			l.Fatalf("took %+v, want that of %d", r, i)
		}
	}
	if l.Waiting() > 0 {
		l.Fatalf("%d requests are left", l.Waiting())
	}
}

// TestTurns: those that are proven are taken first, those that do not ask any more last, and
// a repetition is no new request.
func TestTurns(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	l.ask(1, true, New)
	l.ask(2, false, New)
	l.now += int64(silentMax)
	l.ask(3, false, New)
	l.ask(4, true, New)
	l.ask(3, false, Known)
	l.ask(4, true, Known)
	l.now++ // 1 and 2 are silent
	l.takes(4, 3, 1, 2)
	if l.Take(l.now) != nil {
		t.Error("took from an empty backlog")
	}
	l.ask(4, true, Known) // it has been taken, and is not decided
}

// TestProof: a few requests are kept whose senders are not proven, and none where Strict is
// set; a proof, a refusal and the end of a handshake make room for others.
func TestProof(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	for i := range doubtfulMax {
		l.ask(i, false, New)
	}
	l.ask(100, false, Doubtful)
	l.ask(0, true, Known)
	l.ask(100, false, New)
	l.ask(101, false, Doubtful)
	l.Take(l.now).Refuse([]byte{1}, l.now)
	l.ask(101, false, Doubtful) // the one refused was proven: it took no place
	l.Take(l.now).Refuse([]byte{1}, l.now)
	l.ask(101, false, New)
	r := l.Take(l.now)
	r.Decide(l.now)
	l.ask(102, false, Doubtful)
	r.ClearDoubt()
	l.ask(102, false, New)

	strict := &listener{T: t, Backlog: Backlog{Strict: true}}
	strict.ask(1, false, Unproven)
	strict.ask(1, true, New)
}

// TestAmplification: a requester that is not proven is sent three times what has come in its
// name at the most, the Retry included.
func TestAmplification(t *testing.T) {
	l := &listener{T: t}
	const size, answer = ethertype.HeaderSize + conninfo.Size, 50
	r := l.ask(1, false, New)
	sent := 0
	for times := 1; times <= 3; times++ {
		sent += ethertype.HeaderSize
		for r.Afford(answer - ethertype.HeaderSize) {
			sent += answer
		}
		all := amplification*size*times - sent
		if all < 0 || all >= answer {
			t.Fatalf("%d bytes are left of %d requests", all, times)
		}
		l.ask(1, false, Known)
	}
	r.Prove(l.now)
	if !r.Afford(1 << 20) {
		t.Error("a requester that is proven is bounded")
	}
}

// TestRefused: a requester that did not hear of its refusal is told again, until it is forgotten.
func TestRefused(t *testing.T) {
	l := &listener{T: t}
	r := l.ask(1, true, New)
	l.takes(1)
	if r.Decided() {
		t.Fatal("a request is decided that was only taken")
	}
	r.Refuse([]byte{5}, l.now)
	if !r.Decided() {
		t.Fatal("a request is not decided that was refused")
	}
	if again := l.ask(1, true, Refused); again != r || again.Refusal[0] != 5 {
		t.Errorf("%+v", again)
	}
	l.now += decidedLife
	l.ask(1, true, Refused)
	l.ask(2, true, New)
	l.ask(1, true, Refused)
	l.now++
	l.ask(3, true, New) // forgets 1
	l.ask(1, true, New)
	l.takes(2, 3, 1)
}

// TestFull: when too many wait, one whose requester has gone makes room, and nobody else
// does. Of the decided ones the oldest make room.
func TestFull(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	for i := range waitingMax {
		l.ask(i, true, New)
	}
	l.ask(1000, true, Full)
	l.now += int64(silentMax) + 1
	for i := range waitingMax {
		if i != 5 {
			l.ask(i, true, Known)
		}
	}
	l.ask(1000, true, New)
	l.ask(5, true, Full)
	if l.Waiting() != waitingMax {
		t.Fatalf("%d wait", l.Waiting())
	}
	if all := l.Clear(); len(all) != waitingMax || l.Waiting() != 0 {
		t.Fatalf("%d of %d requests were taken", len(all), waitingMax)
	}
	for i := range rememberedMax - waitingMax {
		l.ask(2000+i, true, New)
		l.Take(l.now).Decide(l.now)
	}
	l.ask(2000, true, Known)
	l.ask(1001, true, New)
	l.ask(2000, true, New)
	if len(l.known) != rememberedMax {
		t.Errorf("%d requests are remembered, want %d", len(l.known), rememberedMax)
	}
}

// TestNotKept: requests that are turned away because too many wait, because too many are not
// proven, or because this listener takes no such request, are not remembered, however many come:
// they take no room from others, and each is a new one when it comes again.
func TestNotKept(t *testing.T) {
	const flood = rememberedMax + 10
	l := &listener{T: t, now: 1000 * ms}
	for i := range waitingMax {
		l.ask(i, i >= doubtfulMax, New)
	}
	for i := range flood {
		l.ask(1000+i, true, Full)
		l.ask(1000+i, false, Doubtful)
	}
	l.Strict = true
	for i := range flood {
		l.ask(1000+i, false, Unproven)
	}
	if len(l.known) != waitingMax || len(l.decided) != 0 {
		t.Errorf("%d requests are remembered, and %d as decided, of %d that wait", len(l.known), len(l.decided), waitingMax)
	}
	l.Take(l.now)
	l.ask(1000, true, New)
}

// TestHoldsUp: a server waits a quarter of a second for a requester that is not proven, and a
// second for one that was and is silent, but only while others wait.
func TestHoldsUp(t *testing.T) {
	l := &listener{T: t, now: 1000 * ms}
	doubtful, proven := l.ask(1, false, New), l.ask(2, true, New)
	l.takes(2, 1)
	for _, r := range []*Request{doubtful, proven} {
		r.Decide(l.now)
	}
	wants := func(a, b bool) {
		t.Helper()
		if doubtful.HoldsUp(l.now) != a || proven.HoldsUp(l.now) != b {
			t.Fatalf("at %d ms: %v and %v, want %v and %v", l.now/ms, doubtful.HoldsUp(l.now), proven.HoldsUp(l.now), a, b)
		}
	}
	l.now += int64(doubtfulTime) + 1
	wants(false, false)
	l.ask(3, true, New)
	wants(true, false)
	l.now += int64(silentMax)
	wants(true, true)
	proven.Prove(l.now)
	wants(true, false)
	l.takes(3)
	wants(false, false)
}

// TestForget: a request that was passed over is a new one when it comes again.
func TestForget(t *testing.T) {
	l := &listener{T: t}
	old := l.ask(1, false, New)
	l.takes(1)
	old.Forget()
	r := l.ask(1, false, New)
	old.Forget() // it is not the one that the backlog has
	l.ask(1, false, Known)
	l.takes(1)
	if l.doubtful != 1 || r == old {
		t.Errorf("%d are doubtful", l.doubtful)
	}
}
