package seal

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// TestForgedHandshake: in the midst of a handshake a stranger, who reads all of it and has no key,
// is always faster: before each message come forged ones, which are that message with a
// bit changed anywhere, under the check as it was and under his own. None has an effect, so that
// the genuine one behind them has its own: neither side begins again, or shuts the other out.
func TestForgedHandshake(t *testing.T) {
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	his := newStation(t, 3, Options{}, keyOf(9)).keys[0]
	first := a.plain(b, "first")
	wire, from, to := a.send(first, 10), a, b
	for _, kind := range []framing.SealKind{framing.KindSealHello, framing.KindSealCookie, framing.KindSealInit, framing.KindSealReply} {
		if len(wire) != 1 || wire[0][framing.OffsetKind] != uint8(kind) {
			t.Fatalf("%d frames, want a %v: %x", len(wire), kind, wire)
		}
		body := len(wire[0]) - framing.SealCheckSize
		for at := framing.OuterSize; at < len(wire[0]); at++ {
			forged := bytes.Clone(wire[0])
			forged[at] ^= 1 << (at % 8)
			wantStranger(t, to, forged)
			if at < body {
				his.check(forged)
				wantStranger(t, to, forged)
			}
		}
		wire = to.hear(wire, 10)
		from, to = to, from
	}
	converse(to, from, wire, 10)
	b.wantGot(first)
	for _, s := range []*station{a, b} {
		if n := s.count.stats(); n.Sessions != 1 || n.Handshake != 2 || n.Replayed+n.Altered+n.NoSession > 0 || len(s.byID) != 1 {
			t.Errorf("counted %+v, and %d sessions are known", n, len(s.byID))
		}
	}
	wantUnmoved(t, a, b, 20)
}

// wantStranger wants a frame to be dropped because of its check, and to be answered, if it is a
// question, by no more than a notice.
func wantStranger(t *testing.T, s *station, forged []byte) {
	t.Helper()
	want := s.count.stats()
	want.OtherKey++
	out := s.hear([][]byte{forged}, 10)
	if got := s.count.stats(); got != want {
		t.Fatalf("%s: counted %+v, want %+v", framing.Dump(forged), got, want)
	}
	question := forged[framing.OffsetKind] == uint8(framing.KindSealHello)
	for _, f := range out {
		if !question || f[framing.OffsetKind] != uint8(framing.KindSealRefused) {
			t.Fatalf("%s: answered by %s", framing.Dump(forged), framing.Dump(f))
		}
	}
}
