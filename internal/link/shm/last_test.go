package shm_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/transport"
)

// until waits for what another goroutine of the link does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// TestLastWords: what a peer has sent before its end arrives, and only then it
// is gone.
func TestLastWords(t *testing.T) {
	const n = 100
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	pump(t, b, a, 1, frame(b, a, "hello"))
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	for i := range n {
		b.Send([]transport.Frame{frame(b, a, fmt.Sprint(i))})
	}
	b.Close()
	until(t, "the end of the peer", func() bool { return a.Ended() == 1 })
	for i := range n {
		views := make([][]byte, 1)
		if k, err := a.Recv(views); k != 1 || err != nil || why != nil {
			t.Fatalf("frame %d of %d: Recv = %d, %v; departure: %v", i, n, k, err, why)
		}
		if f := frame(b, a, fmt.Sprint(i)); string(views[0]) != string(f.Head) {
			t.Fatalf("got %x, want %x", views[0], f.Head)
		}
	}
	if departure(t, a, &why); !errors.Is(why, shm.ErrGone) {
		t.Errorf("departure: %v", why)
	}
}

// TestSuccessor: what a link has sent does not arrive in the name of another
// that has its ports by now.
func TestSuccessor(t *testing.T) {
	ports := transport.PortRange{Lo: 4096, Hi: 5119}
	a, first := open(t, shm.Config{}), open(t, shm.Config{Ports: ports})
	pump(t, first, a, 1, frame(first, a, "hello"))
	first.Send([]transport.Frame{frame(first, a, "old")})
	first.Close()
	second := open(t, shm.Config{Ports: ports})
	own := frame(second, a, "new")
	second.Send([]transport.Frame{own})
	until(t, "the call of the second", func() bool { return a.Peers() == 2 })
	if got := pump(t, second, a, 1); len(got) != 1 || string(got[0]) != string(own.Head) {
		t.Errorf("got %x, want %x", got, own.Head)
	}
	if n, _ := a.Recv(make([][]byte, 4)); n != 0 || a.Peers() != 1 {
		t.Errorf("%d further frames arrived, there are %d peers; want 0, 1", n, a.Peers())
	}
}

// TestCalledAgain: a link that has given up its rings and has made others is
// reached through those at once, though nobody has received meanwhile.
func TestCalledAgain(t *testing.T) {
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	pump(t, b, a, 1, frame(b, a, "hello"))
	pump(t, a, b, 1, frame(a, b, "answer"))
	var why error
	b.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	ring := a.Shared()[64<<10:]
	for at := 0; at < len(ring); at += 64 { // whatever b reads next
		copy(ring[at:], []byte{1, 0, 0xff, 0xff})
	}
	if departure(t, b, &why); !errors.Is(why, shm.ErrBroken) {
		t.Fatalf("departure: %v", why)
	}
	until(t, "the end of the old rings", func() bool { return a.Ended() == 1 })
	b.Send([]transport.Frame{frame(b, a, "call")})
	until(t, "the new call", func() bool { return a.Peers() == 2 })
	f := frame(a, b, "through the new rings")
	if got := pump(t, a, b, 1, f); string(got[0]) != string(f.Head) {
		t.Errorf("got %x, want %x", got[0], f.Head)
	}
}

// TestFullToTheLine: a ring that is full of the shortest frames, when its
// reader has said that all before is free, loses none of them: the line that
// the reader looks at is not the one that the next frame starts in.
func TestFullToTheLine(t *testing.T) {
	const ring = 512 << 10
	a, b := open(t, shm.Config{Ring: ring}), open(t, shm.Config{Ring: ring})
	short := transport.Frame{Head: linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)}
	for range shm.FreedLines(ring) {
		pump(t, a, b, 1, short)
	}
	b.Recv(make([][]byte, 1)) // says so
	before := a.Stats()
	for i := 0; a.Stats().TxDrops == before.TxDrops; i++ {
		if n, err := a.Send([]transport.Frame{short}); n != 1 || err != nil || i > ring/64 {
			t.Fatalf("Send %d = %d, %v", i, n, err)
		}
	}
	sent := int(a.Stats().TxFrames - before.TxFrames)
	if sent != ring/64-1 {
		t.Errorf("%d frames fit, want %d", sent, ring/64-1)
	}
	pump(t, a, b, sent)
}

// TestRingsGivenUp: two stations that have called each other at the same time
// share two pairs of rings. When one gives a pair up, the other goes on with the
// second pair, and is not told that the station is gone.
func TestRingsGivenUp(t *testing.T) {
	var a, b *shm.Link
	until(t, "two calls at the same time", func() bool {
		a, b = open(t, shm.Config{Ring: 512 << 10}), open(t, shm.Config{Ring: 512 << 10})
		there, back := frame(a, b, "there"), frame(b, a, "back")
		a.Send([]transport.Frame{there})
		b.Send([]transport.Frame{back})
		pump(t, a, b, 1)
		pump(t, b, a, 1)
		if a.Peers() == 2 && b.Peers() == 2 {
			return true
		}
		a.Close()
		b.Close()
		return false
	})
	var atA, atB error
	a.OnDeparture(func(_ transport.PortRange, err error) { atA = err })
	b.OnDeparture(func(_ transport.PortRange, err error) { atB = err })
	ring := a.Shared()[64<<10:]
	for at := 0; at < len(ring); at += 64 { // whatever is read next
		copy(ring[at:], []byte{1, 0, 0xff, 0xff})
	}
	if departure(t, a, &atA); !errors.Is(atA, shm.ErrBroken) {
		t.Fatalf("departure of who wrote nonsense: %v", atA)
	}
	until(t, "the end of the rings given up", func() bool { return b.Ended() == 1 || b.Peers() == 1 })
	f := frame(a, b, "by the second rings")
	if got := pump(t, a, b, 1, f); string(got[0]) != string(f.Head) {
		t.Errorf("got %x, want %x", got[0], f.Head)
	}
	f = frame(b, a, "and back")
	if got := pump(t, b, a, 1, f); string(got[0]) != string(f.Head) {
		t.Errorf("got %x, want %x", got[0], f.Head)
	}
	until(t, "the removal of the rings given up", func() bool {
		b.Recv(make([][]byte, 1))
		return b.Peers() == 1
	})
	if atB != nil || a.Peers() != 1 {
		t.Errorf("departure told to the other: %v; %d peers; want none, 1", atB, a.Peers())
	}
}
