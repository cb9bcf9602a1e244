package seal

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/need"
)

// conversation returns every frame of two handshakes, of some frames each way, long ones too, of
// one to all, and of notices, in the order in which they were sent. The first handshake is with
// a station that b has replaced, of which it knows nothing.
func conversation(a, b *station) (wire [][]byte) {
	hand := func(frames [][]byte, from, to *station) {
		for len(frames) > 0 {
			wire = append(wire, frames...)
			frames = to.hear(frames, 10)
			from, to = to, from
		}
	}
	before := newStationOf(b.t, b.self[5], Options{}, rand.NewChaCha8([32]byte{99}), b.keys[0].key)
	hand(a.send(a.plain(b, "to who was there before"), 10), a, before)
	hand(a.send(a.plain(b, "there"), 10), a, b) // b says that it has no such session
	for i := range 5 {
		hand(b.send(b.plain(a, fmt.Sprint("back ", i)), 10), b, a)
		hand(a.send(a.plain(b, fmt.Sprint("there ", i)), 10), a, b)
		hand(a.send(a.plain(b, strings.Repeat("long, ", 20+i)), 10), a, b)
	}
	hand(b.send(b.plain(a, strings.Repeat("and back, ", 20)), 10), b, a)
	all := a.plain(b, "to all")
	copy(all, ethertype.Broadcast[:])
	hand(a.send(all, 10), a, b)
	hand(b.hear([][]byte{a.plain(b, "by who has no key")}, 10), b, a) // b says that it cannot open that
	a.got, b.got = nil, nil
	return wire
}

// TestConversation: a conversation has frames of every kind.
func TestConversation(t *testing.T) {
	seen := map[framing.SealKind]bool{}
	for _, f := range conversation(newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))) {
		seen[framing.SealKind(f[framing.OffsetKind])] = true
	}
	for kind := framing.KindSealed; kind.Least() > 0; kind++ {
		if !seen[kind] {
			t.Errorf("no %v", kind)
		}
	}
}

// wantUnmoved wants both stations to go on in the session that they have.
func wantUnmoved(t *testing.T, a, b *station, now int64) {
	t.Helper()
	a.got, b.got = nil, nil
	a.take()
	b.take()
	sessions := a.count.stats().Sessions
	f, g := a.plain(b, "still"), b.plain(a, "here")
	converse(b, a, a.send(f, now), now)
	b.wantGot(f)
	converse(a, b, b.send(g, now), now)
	a.wantGot(g)
	if n := a.count.stats().Sessions; n != sessions {
		t.Errorf("they needed another session")
	}
}

// TestReplay: every frame that was ever sent comes again, to each side, in any order: none
// is passed on, nothing is computed, and each is counted.
func TestReplay(t *testing.T) {
	const seed = 1
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	wire := conversation(a, b)
	r := rand.New(rand.NewPCG(seed, 1))
	before := b.count.stats()
	const rounds = 20
	for range rounds {
		for _, i := range r.Perm(len(wire)) {
			a.hear(wire[i:i+1], 20)
			b.hear(wire[i:i+1], 20)
		}
	}
	if len(a.got)+len(b.got) != 0 {
		t.Errorf("%d frames were passed on again", len(a.got)+len(b.got))
	}
	n := b.count.stats()
	if n.Sessions != before.Sessions || n.Dropped()+n.Handshake+n.Refused-before.Dropped()-before.Handshake-before.Refused != uint64(rounds*len(wire)) {
		t.Errorf("%d frames were repeated; counted %+v, before %+v", rounds*len(wire), n, before)
	}
	if n.Replayed == 0 || n.Altered != 0 {
		t.Errorf("%+v", n)
	}
	wantUnmoved(t, a, b, 30)
}

// TestReplayLater: the same when the session is over, and at a station that was restarted:
// old handshakes make no session, and old frames are none of any.
func TestReplayLater(t *testing.T) {
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	wire := conversation(a, b)
	later := int64(time.Hour)
	b.tick(later)
	if peers, sessions := b.peers.count, len(b.byID); peers != 0 || sessions != 0 {
		t.Fatalf("%d peers and %d sessions are left after an hour", peers, sessions)
	}
	restarted := newStation(t, 2, Options{}, keyOf(1))
	restarted.random = rand.NewChaCha8([32]byte{9})
	_ = restarted.jar.init(restarted.random)
	for _, s := range []*station{b, restarted} {
		for _, f := range wire {
			s.hear([][]byte{f}, later)
		}
		if n := s.count.stats(); s.peers.count != 0 || len(s.byID) != 0 || n.NoSession == 0 {
			t.Errorf("%d peers after a replay: %+v", s.peers.count, n)
		}
		for _, f := range s.got { // a frame to all of a station that this one has not heard before may come once
			if !ethertype.MAC(f).IsGroup() {
				t.Errorf("passed on: %s", framing.Dump(f))
			}
		}
		if s == b && len(s.got) != 0 || len(s.got) > 1 {
			t.Errorf("%d frames to all were passed on", len(s.got))
		}
	}
}

// TestReorder: frames of a session come in any order, each once.
func TestReorder(t *testing.T) {
	a, b := met(t, Options{})
	var wire [][]byte
	const frames = 500
	for i := range frames {
		wire = append(wire, a.send(a.plain(b, fmt.Sprint(i)), 20)...)
	}
	r := rand.New(rand.NewPCG(4, 4))
	for range 3 {
		for _, i := range r.Perm(frames) {
			b.hear(wire[i:i+1], 20)
		}
	}
	seen := map[string]bool{}
	for _, f := range b.got {
		seen[string(f)] = true
	}
	if len(b.got) != frames || len(seen) != frames {
		t.Errorf("%d frames, %d of them different, were passed on of %d", len(b.got), len(seen), frames)
	}
}

// TestForged: whoever has no key forges frames of every kind, of plain ones too, and takes
// genuine ones for other addresses, ports and sessions: no effect, each is counted.
func TestForged(t *testing.T) {
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	wire := conversation(a, b)
	stranger := newStation(t, 3, Options{}, keyOf(9))
	forge := func(f []byte, change func([]byte)) {
		t.Helper()
		s := b
		if ethertype.MAC(f) == a.self {
			s = a
		}
		f = bytes.Clone(f)
		change(f)
		before := s.count.stats()
		s.hear([][]byte{f}, 20)
		after := s.count.stats()
		if len(s.got) != 0 || after.Sessions != before.Sessions || after.Dropped()+after.Refused != before.Dropped()+before.Refused+1 {
			t.Errorf("%s: passed on %x, counted %+v, before %+v", framing.Dump(f), s.got, after, before)
			s.got = nil
		}
	}
	for _, f := range wire {
		for _, at := range []int{framing.OffsetSrc + 5, framing.OffsetKind, framing.OffsetFlags, framing.OffsetDstPort + 1, framing.OffsetSrcPort, framing.SealedSession + 1, framing.SealedCounter + 1, len(f) - 1} {
			forge(f, func(f []byte) { f[at] ^= 0x10 })
		}
		for size := framing.OuterSize; size < len(f); size++ {
			forge(f[:size], func([]byte) {})
		}
	}
	for kind := framing.KindSealed; kind.Least() > 0; kind++ {
		f := append(b.newFrame(kind, b.self, 1024, 1024), make([]byte, 100)...)
		copy(f[framing.OffsetSrc:], a.self[:])
		forge(f, func([]byte) {})
		forge(f, func(f []byte) { stranger.keys[0].check(f[:kind.Least()]) })
	}
	for kind := ethertype.KindInvalid; kind < 0x40; kind++ {
		forge(a.plain(b, "no key"), func(f []byte) { f[framing.OffsetKind] = uint8(kind) })
	}
	wantUnmoved(t, a, b, 30)
}

// TestOtherKey: both sides count and log what is wrong, and know it when they are asked.
func TestOtherKey(t *testing.T) {
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(2))
	converse(b, a, a.send(a.plain(b, "x"), 10), 10)
	for _, s := range []struct {
		at   *station
		of   *station
		want trouble
	}{{b, a, troubleOtherKey}, {a, b, troubleRefused}} {
		if hint := s.at.hint(s.of.self); !strings.Contains(hint, s.want.String()) || !strings.Contains(s.at.said(), s.want.String()) {
			t.Errorf("want %q; hint %q, log:\n%s", s.want, hint, s.at.said())
		}
	}
	if b.count.OtherKey.Load() != 1 || a.count.Refused.Load() != 1 {
		t.Errorf("counted %+v and %+v", a.count.stats(), b.count.stats())
	}
	for range 1000 {
		a.hear(b.hear([][]byte{a.plain(b, "no key")}, 20), 20)
	}
	if n := b.count.stats(); n.Unsealed != 1000 || strings.Count(b.said(), "\n") > 2 {
		t.Errorf("%+v, log:\n%s", n, b.said())
	}
	if n := a.count.stats(); n.Refused > budgetAtOnce+5 {
		t.Errorf("%d notices for 1000 frames", n.Refused)
	}
}

// TestRotation: first the old key, then both, then the new one, on one side after the other:
// there is always a session, and the last one is under the new key.
func TestRotation(t *testing.T) {
	old, fresh := keyOf(1), keyOf(2)
	a, b := met(t, Options{})
	now := int64(20)
	talk := func() {
		t.Helper()
		for range 3 {
			now += int64(time.Second)
			f, g := a.plain(b, "there"), b.plain(a, "back")
			converse(b, a, a.send(f, now), now)
			converse(a, b, b.send(g, now), now)
			b.wantGot(f)
			a.wantGot(g)
		}
	}
	for _, step := range [][]Key{{old, fresh}, {fresh, old}, {fresh}} {
		a.setKeys(step)
		talk()
		b.setKeys(step)
		talk()
	}
	if s := a.peers.find(b.self, 1024).current; s.from.key != fresh {
		t.Error("the session is under the old key still")
	}
	if n, m := a.count.stats(), b.count.stats(); n.OtherKey+m.OtherKey != 0 {
		t.Errorf("%+v, %+v", n, m)
	}
	a.setKeys([]Key{old})
	converse(b, a, a.send(a.plain(b, "x"), now), now)
	if len(b.got) != 0 || b.count.OtherKey.Load() == 0 {
		t.Error("a key that is over opens the door still")
	}
}

// TestStateless: a stranger's frames, and a genuine question repeated from other addresses,
// cost no memory, and no more bytes than they have.
func TestStateless(t *testing.T) {
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	wire := conversation(a, b)
	c := newStation(t, 4, Options{}, keyOf(1)) // has never heard of a
	for _, f := range wire {
		for i := range 300 {
			f := bytes.Clone(f)
			copy(f, c.self[:])
			f[framing.OffsetSrc+4] = byte(i)
			f[framing.OffsetSrcPort] ^= byte(i >> 3)
			nbytes := 0
			for _, g := range c.hear([][]byte{f}, 20+int64(i)*int64(time.Second)) {
				nbytes += len(g)
			}
			if nbytes > len(f) {
				t.Fatalf("%d bytes in answer to %s", nbytes, framing.Dump(f))
			}
		}
	}
	if c.peers.count != 0 || len(c.byID) != 0 || len(c.group.heard) > 1 || c.troubles.by.Len() > maxTroubles {
		t.Errorf("kept: %d peers, %d sessions, %d salts, %d troubles", c.peers.count, len(c.byID), len(c.group.heard), c.troubles.by.Len())
	}
}

var mutants = flag.Int("seal.mutants", 0, "frames that TestMutants changes; 0 means a million, or 20,000 in the short form")

// TestMutants changes frames of a conversation at random, a bit or many, and hands them to
// both sides: nothing is passed on, each is counted, and the session goes on.
func TestMutants(t *testing.T) {
	const seed = 11
	n := *mutants
	if n == 0 {
		if n = 1_000_000; !need.Full() {
			n = 20_000
		}
	}
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	wire := conversation(a, b)
	for i := range 20 {
		wire = append(wire, a.send(a.plain(b, strings.Repeat("fresh ", i)), 10)...)
	}
	r := rand.New(rand.NewPCG(seed, 2))
	counted := func(s *station) uint64 {
		n := s.count.stats()
		return n.Dropped() + n.Refused
	}
	before := [2]uint64{counted(a), counted(b)}
	for i := range n {
		f := bytes.Clone(wire[r.IntN(len(wire))])
		mutate(r, f)
		if r.IntN(8) == 0 {
			f = f[:framing.OuterSize+r.IntN(len(f)-framing.OuterSize)]
		}
		now := int64(20 + i)
		a.hear([][]byte{f}, now)
		b.hear([][]byte{f}, now)
		if len(a.got)+len(b.got) > 0 || len(a.byID) != 1 || len(b.byID) != 1 {
			t.Fatalf("seed %d: frame %d has had an effect: %s", seed, i, framing.Dump(f))
		}
	}
	if da, db := counted(a)-before[0], counted(b)-before[1]; da != uint64(n) || db != uint64(n) {
		t.Errorf("seed %d: of %d frames %d and %d are counted", seed, n, da, db)
	}
	wantUnmoved(t, a, b, int64(n)+30)
}

// mutate changes at least one bit of f that is not its destination.
func mutate(r *rand.Rand, f []byte) {
	at := func() int { return 6 + r.IntN(len(f)-6) }
	switch i := at(); r.IntN(3) {
	case 0:
		f[i] ^= 1 << r.IntN(8)
	case 1:
		f[i] += byte(1 + r.IntN(255))
	case 2:
		for range 1 + r.IntN(8) {
			f[at()] ^= byte(r.Uint32())
		}
		f[i] ^= 0x80
	}
}

// FuzzOpen: no bytes make a station panic, or pass anything on.
func FuzzOpen(f *testing.F) {
	t := &testing.T{}
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	for _, frame := range conversation(a, b) {
		f.Add(frame)
	}
	genuine := newStation(t, 5, Options{}, keyOf(5))
	f.Fuzz(func(t *testing.T, frame []byte) {
		genuine.t = t
		if len(frame) > ethertype.MaxFrame {
			return
		}
		genuine.hear([][]byte{frame}, 20)
		if len(genuine.got) > 0 {
			t.Fatal("passed on")
		}
	})
}
