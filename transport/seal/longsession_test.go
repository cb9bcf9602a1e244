package seal

import (
	"bytes"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// received returns the next frame that a link passes on, whole; nil if it passes none on.
func received(t testing.TB, l *Link) []byte {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	n, err := l.Recv(views)
	if err != nil || n > 1 {
		t.Fatal(n, err)
	}
	if n == 0 {
		return nil
	}
	frame := bytes.Clone(views[0])
	if rest := l.Rest(); rest > 0 {
		behind := make([]byte, len(frame)+rest-ethertype.HeaderSize)
		if !l.Fetch(ethertype.HeaderSize, [][]byte{behind}) {
			t.Fatal("a genuine frame cannot be fetched")
		}
		frame = append(frame[:ethertype.HeaderSize:ethertype.HeaderSize], behind...)
	}
	return frame
}

// exchange has two links receive until nothing is on the way, and returns what b passes on.
func exchange(t testing.TB, a, b *Link, from, to *memory) (got [][]byte) {
	t.Helper()
	for turn := 0; len(from.arrived)+len(to.arrived) > 0; turn++ {
		if turn > 1000 {
			t.Fatal("they do not stop talking")
		}
		if f := received(t, b); f != nil {
			got = append(got, f)
		}
		if f := received(t, a); f != nil {
			t.Fatalf("passed on to who sends: %x", f)
		}
	}
	return got
}

// TestLongRekey: sessions replace each other while long frames flow, of which some are late, so
// that they come in a session that was replaced. Each arrives once, as it was sent, and no counter
// is used twice, or beyond a limit.
func TestLongRekey(t *testing.T) {
	const size, count, late = 5000, 200, 4
	for name, limits := range map[string]Limits{"frames": {Frames: 12}, "bytes": {Bytes: 12 * size}, "age": {Age: 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			a, b, from, to := longPair(t, Options{Limits: limits}.OneWay())
			used := map[string]bool{}
			var held [][]byte
			deliver := from.sent
			from.sent = func(f []byte) {
				if kind, _ := framing.IsSealed(f); kind == framing.KindSealedLong {
					nonce := string(f[framing.SealedSession:framing.SealedBody])
					if _, counter := framing.ParseSealed(f); used[nonce] || counter >= 2*12+4 { // what made the session is in it, too
						t.Fatalf("counter %d is used twice, or too high", counter)
					}
					if used[nonce] = true; len(used)%late == 0 {
						held = append(held, f)
						return
					}
				}
				deliver(f)
			}
			arrived := map[string]int{}
			for i := range count {
				body := pattern(size)
				body[0], body[size-1] = byte(i), byte(i)
				f := longFrame(a, b, body)
				arrived[string(f.AppendTo(nil))] = 0
				if n, err := a.Send([]transport.Frame{f}); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				if len(held) > 1 {
					to.arrived, held = append(to.arrived, held[0]), held[1:]
				}
				for _, got := range exchange(t, a, b, from, to) {
					arrived[string(got)]++
				}
				from.now += int64(400 * time.Millisecond)
				to.now = from.now
			}
			once := 0
			for f, n := range arrived {
				if n > 1 || n == 1 && len(f) != size+ethertype.HeaderSize {
					t.Errorf("a frame of %d bytes arrived %d times", len(f), n)
				}
				once += n
			}
			if s := b.SealStats(); len(arrived) != count || once != count-len(held) || s.Sessions < 6 || s.Dropped() > 0 {
				t.Errorf("%d of %d frames arrived, %d are others than were sent; %+v", once, count, len(arrived)-count, s)
			}
		})
	}
}

// TestLongWaits: long frames that wait for a session, among short ones, arrive in their order and as
// they were sent. They are sealed in one part, since where they lay is not theirs any more.
func TestLongWaits(t *testing.T) {
	for name, first := range waysToReceive {
		t.Run(name, func(t *testing.T) {
			a, b, from, to := longLinks(t, Options{})
			to.first = first
			var frames []transport.Frame
			var want [][]byte
			for i, size := range []int{10, 30_000, 200, 60_000, 1460, 1461, 1500} {
				body := pattern(size)
				body[0] = byte(i)
				frames = append(frames, longFrame(a, b, body))
				want = append(want, frames[i].AppendTo(nil))
			}
			deliver, long := from.sent, 0
			from.sent = func(f []byte) {
				if kind, _ := framing.IsSealed(f); kind == framing.KindSealed && len(f) > 2000 {
					long++
				} else if kind == framing.KindSealedLong {
					t.Error("a frame that waited was sealed in two parts")
				}
				deliver(f)
			}
			if n, err := a.Send(frames); n != len(frames) || err != nil || long > 0 {
				t.Fatal(n, err, long)
			}
			for i := range frames { // its memory is the caller's again
				clear(frames[i].Body[0])
			}
			got := exchange(t, a, b, from, to)
			if len(got) != len(want) || long != 2 || a.m.peers.bytes != 0 {
				t.Fatalf("%d frames arrived, of %d, %d long ones were sent, and %d bytes wait", len(got), len(want), long, a.m.peers.bytes)
			}
			for i := range want {
				if !bytes.Equal(got[i], want[i]) {
					t.Errorf("frame %d is not what was sent", i)
				}
			}
			if s := b.SealStats(); s.Dropped() > 0 || s.Opened != uint64(len(want)) {
				t.Errorf("%+v", s)
			}
		})
	}
}
