package seal

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/transport"
)

// The tests in this file drive machines by hand: their frames are handed over by the test,
// which may lose, repeat and change them, and time is a number.

// station is a machine and what stands around it.
type station struct {
	*machine
	t    *testing.T
	got  [][]byte     // frames that were passed on
	log  bytes.Buffer // read it by said
	logs *logqueue.Queue
}

// keyOf returns one of several keys.
func keyOf(n byte) Key { return Key{n, 31: n} }

// said returns what the station has logged.
func (s *station) said() string {
	s.logs.Flush(10 * time.Second)
	return s.log.String()
}

// newStation returns the station with the MAC 02::n and ports from 1024 on.
func newStation(t *testing.T, n byte, opts Options, valid ...Key) *station {
	return newStationOf(t, n, opts, rand.NewChaCha8([32]byte{n}), valid...)
}

// newStationOf is newStation with a source of randomness.
func newStationOf(t *testing.T, n byte, opts Options, random io.Reader, valid ...Key) *station {
	s := &station{t: t}
	if opts.suites == 0 {
		opts.suites = suitesAll
	}
	s.logs = logqueue.New(slog.New(slog.NewTextHandler(&s.log, nil)))
	opts.Logger = s.logs.Logger()
	info := transport.Info{MAC: ethertype.MAC{2, 5: n}, EtherType: ethertype.Default, Ports: transport.PortRange{Lo: 1024, Hi: 2047}}
	var err error
	if s.machine, err = newMachine(info, opts, random, valid, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// plain returns a frame to another station.
func (s *station) plain(to *station, text string) []byte {
	h := ethertype.Header{Dst: to.self, Src: s.self, Type: ethertype.Default, Kind: ethertype.KindEcho, DstPort: to.ports.Lo + 7, SrcPort: s.ports.Lo, Size: uint16(len(text))}
	f := make([]byte, ethertype.HeaderSize)
	h.Put(f)
	ethertype.Seal(f)
	return append(f, text...)
}

// send seals a frame, and returns what is to be sent now.
func (s *station) send(frame []byte, now int64) [][]byte {
	f := transport.Frame{Head: frame[:ethertype.HeaderSize], Body: [][]byte{frame[ethertype.HeaderSize:]}}
	room := make([]byte, len(frame)+s.overhead(&f, len(frame)))
	if out := s.seal(room, &f, now); out != nil {
		s.emit(out)
	}
	return s.take()
}

// take returns what the machine wants sent.
func (s *station) take() [][]byte {
	out := s.out
	s.out = nil
	return out
}

// hear hands frames to the station, and returns what it wants sent then. Half of those of
// sessions it opens where they lie.
func (s *station) hear(frames [][]byte, now int64) [][]byte {
	for _, f := range frames {
		before, frame := bytes.Clone(f), f
		room := make([]byte, len(f)+ethertype.EthernetSize)
		if kind, _ := framing.IsSealed(f); inPlace(kind) > 0 && len(f) >= kind.Least() && f[len(f)-1]&1 != 0 {
			frame = bytes.Clone(f)
			room = frame[inPlace(kind):]
		}
		if got := s.unseal(room, frame, now); got != nil {
			s.got = append(s.got, got)
		}
		if !bytes.Equal(f, before) {
			s.t.Fatal("a frame that was received was changed")
		}
	}
	return s.take()
}

// converse hands frames to and fro until nobody says anything more.
func converse(to, from *station, frames [][]byte, now int64) {
	for turn := 0; len(frames) > 0; turn++ {
		if turn > 20 {
			to.t.Fatal("they do not stop talking")
		}
		frames = to.hear(frames, now)
		to, from = from, to
	}
}

// wantGot wants frames to have been passed on, and forgets them.
func (s *station) wantGot(frames ...[]byte) {
	s.t.Helper()
	if len(s.got) != len(frames) {
		s.t.Fatalf("%d frames were passed on, want %d; counted %+v; log: %s", len(s.got), len(frames), s.count.stats(), s.said())
	}
	for i := range frames {
		if !bytes.Equal(s.got[i], frames[i]) {
			s.t.Fatalf("frame %d is\n%x, want\n%x", i, s.got[i], frames[i])
		}
	}
	s.got = nil
}

// met returns two stations with a session.
func met(t *testing.T, opts Options) (a, b *station) {
	a, b = newStation(t, 1, opts, keyOf(1)), newStation(t, 2, opts, keyOf(1))
	f := a.plain(b, "first")
	converse(b, a, a.send(f, 10), 10)
	b.wantGot(f)
	return a, b
}

// TestSession: the first frame makes a session, and waits for it; then both sides send in
// it, either way and with either cipher.
func TestSession(t *testing.T) {
	for _, suites := range []suite{suitesAll, suiteChaCha} {
		a, b := met(t, Options{suites: suites})
		if a.peers.bytes != 0 || len(a.peers.find(b.self, 1024).sessions) != 1 || len(b.byID) != 1 {
			t.Fatalf("%+v", a.peers)
		}
		for i := range 100 {
			f, g := a.plain(b, fmt.Sprint("there ", i)), b.plain(a, fmt.Sprint("back ", i))
			wire := a.send(f, 20)
			if len(wire) != 1 || len(wire[0]) != len(f)+framing.SealOverhead || bytes.Contains(wire[0], []byte("there")) {
				t.Fatalf("sent %x", wire)
			}
			converse(b, a, wire, 20)
			converse(a, b, b.send(g, 20), 20)
			b.wantGot(f)
			a.wantGot(g)
		}
		if n := a.count.stats(); n.Sessions != 1 || n.Dropped() != 0 {
			t.Errorf("%+v", n)
		}
	}
}

// TestCiphers: stations of which one is not quick at AES use the other cipher.
func TestCiphers(t *testing.T) {
	for _, c := range []struct{ a, b, want suite }{{suitesAll, suiteChaCha, suiteChaCha}, {suiteChaCha, suitesAll, suiteChaCha}, {suitesAll, suitesAll, suiteAES}} {
		a, b := newStation(t, 1, Options{suites: c.a}, keyOf(1)), newStation(t, 2, Options{suites: c.b}, keyOf(1))
		f := a.plain(b, "x")
		converse(b, a, a.send(f, 10), 10)
		b.wantGot(f)
		if got := a.peers.find(b.self, 1024).current.suite; got != c.want {
			t.Errorf("%v and %v use %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestLostHandshake loses each message of the handshake in turn, and each in the next try,
// too: it is repeated, and the frame comes once.
func TestLostHandshake(t *testing.T) {
	for lost := range 12 {
		a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
		f := a.plain(b, "x")
		now, n := int64(10), 0
		deliver := func(frames [][]byte, to *station) [][]byte {
			var kept [][]byte
			for _, g := range frames {
				if n != lost && n != lost+1 {
					kept = append(kept, g)
				}
				n++
			}
			return to.hear(kept, now)
		}
		wire := a.send(f, now)
		for range 200 {
			wire = deliver(deliver(wire, b), a)
			if len(wire) == 0 {
				now += int64(time.Millisecond)
				a.tick(now)
				b.tick(now)
				wire = a.take()
				deliver(b.take(), a)
			}
			if len(b.got) == 0 && a.peers.bytes == 0 && len(wire) == 0 { // what carried the frame itself was lost: as without a key
				wire = a.send(f, now)
			}
		}
		b.wantGot(f)
		if s := b.count.stats(); s.Altered+s.OtherKey+s.Malformed != 0 {
			t.Errorf("lost %d: %+v", lost, s)
		}
	}
}

// TestBoth: both begin at the same moment, and use one session.
func TestBoth(t *testing.T) {
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(1))
	f, g := a.plain(b, "from a"), b.plain(a, "from b")
	toB, toA := a.send(f, 10), b.send(g, 10)
	for range 10 {
		toA, toB = b.hear(toB, 10), a.hear(toA, 10)
	}
	b.wantGot(f)
	a.wantGot(g)
	pa, pb := a.peers.find(b.self, 1024), b.peers.find(a.self, 1024)
	if pa.current == nil || pb.current == nil || pa.current.remote != pb.current.local || pb.current.remote != pa.current.local {
		t.Errorf("they send in different sessions: %+v, %+v", pa.current, pb.current)
	}
}

// TestRekey: with a small limit sessions replace each other while frames flow, none is lost,
// and no counter is used beyond twice the limit.
func TestRekey(t *testing.T) {
	for name, limits := range map[string]Limits{"frames": {Frames: 20}, "bytes": {Bytes: 2000}, "age": {Age: 100 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			a, b := met(t, Options{Limits: limits})
			now := int64(10)
			used := map[string]bool{}
			for i := range 400 {
				now += int64(3 * time.Second)
				f, g := a.plain(b, fmt.Sprint("there ", i)), b.plain(a, fmt.Sprint("back ", i))
				for _, wire := range a.send(f, now) {
					if wire[framing.OffsetKind] == uint8(framing.KindSealed) {
						nonce := string(wire[framing.SealedSession:framing.SealedBody])
						if used[nonce] {
							t.Fatal("a counter was used twice")
						}
						used[nonce] = true
						if _, counter := framing.ParseSealed(wire); counter >= 2*a.opts.Limits.Frames {
							t.Fatalf("counter %d in a session of %d", counter, a.opts.Limits.Frames)
						}
					}
					converse(b, a, [][]byte{wire}, now)
				}
				converse(a, b, b.send(g, now), now)
				b.wantGot(f)
				a.wantGot(g)
				a.tick(now)
				b.tick(now)
			}
			if n := a.count.stats(); n.Sessions < 10 || n.Dropped() != 0 || n.Expired != 0 {
				t.Errorf("%+v", n)
			}
			if len(a.byID) > maxSessions || len(b.byID) > maxSessions {
				t.Errorf("%d and %d sessions are left", len(a.byID), len(b.byID))
			}
		})
	}
}

// TestExhausted: if the peer answers no more, nothing is sent beyond twice any limit.
func TestExhausted(t *testing.T) {
	const frames = 40 // at the most, with the first one
	size := uint64(len(newStation(t, 1, Options{}, keyOf(1)).plain(newStation(t, 2, Options{}, keyOf(1)), "first")) - ethertype.EthernetSize)
	for name, limits := range map[string]Limits{"frames": {Frames: frames / 2}, "bytes": {Bytes: frames / 2 * size}, "age": {Age: frames / 2 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			a, b := met(t, Options{Limits: limits, silence: transport.Forever})
			now, sealed := int64(10), 1
			for range 100 {
				now += int64(time.Second)
				for _, wire := range a.send(a.plain(b, "again"), now) {
					if wire[framing.OffsetKind] == uint8(framing.KindSealed) {
						sealed++
					}
				}
				a.tick(now)
				a.take()
			}
			if sealed > frames || sealed < frames-3 {
				t.Errorf("%d frames were sealed, want no more than %d", sealed, frames)
			}
			for range 20 {
				now += int64(time.Second) / 10
				a.tick(now)
				a.take()
			}
			if s := a.count.stats(); s.Expired+s.Crowded < 100-frames || a.peers.bytes != 0 {
				t.Errorf("%+v: frames wait for ever", s)
			}
		})
	}
}

// TestExhaustedCrowd: of frames that cannot be sent any more, a bounded number waits, and not for
// ever.
func TestExhaustedCrowd(t *testing.T) {
	a, b := met(t, Options{Limits: Limits{Frames: 20}})
	for range 100 {
		a.send(a.plain(b, "x"), 20)
	}
	a.tick(int64(10 * time.Second))
	if s := a.count.stats(); s.Crowded == 0 || len(a.peers.find(b.self, 1024).waiting) != maxWaiting {
		t.Errorf("%+v", s)
	}
	for at := time.Second; at < 20*time.Second; at += 100 * time.Millisecond {
		a.tick(int64(at))
		a.take()
	}
	if s := a.count.stats(); s.Expired != maxWaiting || a.peers.bytes != 0 {
		t.Errorf("%+v: frames wait for ever", s)
	}
}

// TestRestart: a station that is restarted tells who sends to it, by a notice that nobody
// without the key can make.
func TestRestart(t *testing.T) {
	a, _ := met(t, Options{})
	b := newStation(t, 2, Options{}, keyOf(1))
	b.random = rand.NewChaCha8([32]byte{77}) // as another incarnation's
	f := a.plain(b, "lost")
	notice := b.hear(a.send(f, 20), 20)
	if len(notice) != 1 || len(notice[0]) > framing.SealedBody+framing.SealTagSize {
		t.Fatalf("answered by %x", notice)
	}
	forged := bytes.Clone(notice[0])
	forged[len(forged)-1] ^= 1
	if out := a.hear([][]byte{forged}, 20); len(out) != 0 || a.peers.find(b.self, 1024).current == nil {
		t.Error("a forged notice had an effect")
	}
	converse(a, b, notice, 20)
	f = a.plain(b, "comes")
	converse(b, a, a.send(f, 30), 30)
	b.wantGot(f)
}

// TestSilent: if the notice does not come either, silence alone has the station that sends
// begin another session.
func TestSilent(t *testing.T) {
	a, _ := met(t, Options{})
	b := newStation(t, 2, Options{}, keyOf(1))
	b.random = rand.NewChaCha8([32]byte{78})
	for at := range int64(20) {
		now := 20 + at*maxSilence/10
		f := a.plain(b, "x")
		for _, wire := range a.send(f, now) {
			if wire[framing.OffsetKind] == uint8(framing.KindSealed) {
				b.hear([][]byte{wire}, now) // and the notice is lost
			} else {
				converse(b, a, [][]byte{wire}, now)
			}
		}
		if len(b.got) > 0 {
			b.wantGot(f)
			return
		}
	}
	t.Fatalf("they have not met again: %+v", a.count.stats())
}

// TestKeys: what key files may hold.
func TestKeys(t *testing.T) {
	k, l := keyOf(1), keyOf(2)
	for text, want := range map[string][]Key{
		k.Text(): {k}, " " + k.Text() + " # in use\n\n#" + l.Text(): {k}, k.Text() + "\r\n" + l.Text() + "\n": {k, l}, k.Text() + "," + l.Text(): {k, l},
		"": nil, k.Text()[1:]: nil, k.Text() + "00": nil, "x" + k.Text()[1:]: nil, Key{}.Text(): nil, k.Text() + "\n" + k.Text(): nil,
		k.Text() + " " + l.Text() + " " + keyOf(3).Text(): nil,
	} {
		got, err := parseKeys([]byte(text))
		if (err == nil) != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %d keys, %v", text, len(got), err)
		}
		if err != nil && len(text) > 10 && (bytes.Contains([]byte(err.Error()), []byte(text[1:9]))) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %s", k, k, k), fmt.Sprintf("%#v", k)} {
		if bytes.Contains([]byte(text), []byte("1")) {
			t.Errorf("printed as %s", text)
		}
	}
	if NewKey() == NewKey() {
		t.Error("two keys are one")
	}
}

// TestWindow compares the window with a set, on counters that go up, back and jump.
func TestWindow(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		var w window
		seen, next := map[uint64]bool{}, uint64(0)
		for range 20_000 {
			n := next
			switch r.IntN(4) {
			case 0:
				n += uint64(r.IntN(70))
			case 1:
				n -= min(n, uint64(r.IntN(windowBits+200)))
			case 2:
				n += uint64(r.IntN(3) * r.IntN(windowBits*2) / 2)
			}
			want := !seen[n] && (n >= next || next-n <= windowBits)
			if got := w.recordNew(n); got != want {
				t.Fatalf("seed %d: take(%d) = %v at %d", seed, n, got, next)
			}
			if want {
				seen[n] = true
				next = max(next, n+1)
			}
		}
	}
}
