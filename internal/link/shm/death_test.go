package shm_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
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

// frame returns a frame of n bytes from a to the stranger.
func (s *stranger) frame(a *shm.Link, n int) transport.Frame {
	to := a.Info()
	to.Ports = s.ports
	return transport.Frame{Head: linktest.NewFrame(a.Info(), to, to.Ports.Lo, make([]byte, n-ethertype.HeaderSize))}
}

// own returns a frame from the stranger to a.
func (s *stranger) own(a *shm.Link) []byte {
	from := a.Info()
	from.Ports = s.ports
	return linktest.NewFrame(from, a.Info(), a.Info().Ports.Lo, make([]byte, 100))
}

// TestKept: of the frames to a station that does not answer, so many wait, and
// so many bytes of them.
func TestKept(t *testing.T) {
	const long = 60_000
	a := open(t, shm.Config{})
	for i, c := range []struct{ length, fit int }{
		{ethertype.HeaderSize, shm.KeptFrames},
		{long, shm.KeptBytes / long},
	} {
		f := newStranger(t, a, 58+i).frame(a, c.length)
		before := a.Stats().TxDrops
		for range c.fit {
			a.Send([]transport.Frame{f})
		}
		if n := a.Stats().TxDrops - before; n != 0 {
			t.Errorf("%d of %d frames of %d bytes were dropped, want none", n, c.fit, c.length)
		}
		if a.Send([]transport.Frame{f, f}); a.Stats().TxDrops != before+2 {
			t.Errorf("%d of 2 frames more of %d bytes were dropped", a.Stats().TxDrops-before, c.length)
		}
	}
}

// answerCall takes the call that came to the stranger and answers it over its
// stream, with a file if it is to.
func (s *stranger) answerCall(hello []byte, file int) {
	s.Helper()
	s.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	text, rights := make([]byte, 64), make([]byte, 64)
	_, k, _, _, err := s.conn.ReadMsgUnix(text, rights)
	if err != nil {
		s.Fatal(err)
	}
	msgs, err := unix.ParseSocketControlMessage(rights[:k])
	if err != nil || len(msgs) != 1 {
		s.Fatal("the call comes without descriptors", err)
	}
	fds, _ := unix.ParseUnixRights(&msgs[0])
	s.Cleanup(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	var with []byte
	if file >= 0 {
		with = unix.UnixRights(file)
	}
	if err := unix.Sendmsg(fds[0], hello, with, nil, 0); err != nil {
		s.Fatal(err)
	}
}

// TestAnswers: an answer from a station that does not say that it has the port
// which was called, or that comes with what nobody has asked for, is none.
func TestAnswers(t *testing.T) {
	const block = uint32(60)
	own := block<<10<<16 | block<<10 + 1023
	for what, c := range map[string]struct {
		ports    uint32
		file     bool
		believed int
	}{
		"good":        {own, false, 1},
		"other ports": {own - 1024<<16 - 1024, false, 0},
		"with a file": {own, true, 0},
	} {
		a := open(t, shm.Config{})
		s := newStranger(t, a, int(block))
		a.Send([]transport.Frame{s.frame(a, 100)})
		file := -1
		if c.file {
			file = s.file()
		}
		s.answerCall(helloOf(c.ports, strangerRing), file)
		unix.Close(file)
		until(t, what, func() bool { st := a.Stats(); return st.TxFrames+st.TxDrops > 0 })
		if n := a.Peers(); n != c.believed || int(a.Stats().TxFrames) != n {
			t.Errorf("%s: %d peers, want %d; counted %+v", what, n, c.believed, a.Stats())
		}
		a.Close()
		s.conn.Close()
	}
}

// TestCallGivenUp: a caller whose answer came too late for it has sent nothing, and is not
// taken for gone; one that has sent a frame before its stream ended is.
func TestCallGivenUp(t *testing.T) {
	a := open(t, shm.Config{})
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	s := newStranger(t, a, 40)
	end := func(file int) {
		t.Helper()
		c := s.call(a, file)
		if s.answer(c); !c.answered {
			t.Fatal("the call was refused")
		}
		until(t, "rings with the caller", func() bool { return a.Peers() == 1 })
		unix.Close(c.mine)
		c.mine = -1
		until(t, "the removal of the rings", func() bool {
			a.Recv(make([][]byte, 1))
			return a.Peers() == 0
		})
	}
	end(s.file())
	if why != nil {
		t.Errorf("departure of a caller that gave up: %v", why)
	}
	end(s.file(s.own(a)))
	if !errors.Is(why, shm.ErrGone) {
		t.Errorf("departure of one that had sent a frame: %v", why)
	}
}

// TestBothRingsEnded: a station that shares two pairs of rings with the link, because both
// have called at the same time, and that has sent by the first pair only, is gone when both
// have ended, whichever end is seen first.
func TestBothRingsEnded(t *testing.T) {
	for name, order := range map[string][]int{"used pair first": {0, 1}, "used pair last": {1, 0}} {
		t.Run(name, func(t *testing.T) { endBothRings(t, order) })
	}
}

// endBothRings ends two pairs of rings in an order. A frame has come by pair 0.
func endBothRings(t *testing.T, order []int) {
	a := open(t, shm.Config{})
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	s := newStranger(t, a, 40)
	calls := []*line{s.call(a, s.file(s.own(a))), s.call(a, s.file())}
	for i := range calls {
		if s.answer(calls[i]); !calls[i].answered {
			t.Fatalf("call %d was refused", i)
		}
	}
	until(t, "two pairs of rings with the station", func() bool { return a.Peers() == 2 })
	for n, i := range order {
		if why != nil {
			t.Fatalf("departure while one pair lives: %v", why)
		}
		unix.Close(calls[i].mine)
		calls[i].mine = -1
		until(t, "the removal of the rings", func() bool {
			a.Recv(make([][]byte, 1))
			return a.Peers() == 1-n
		})
	}
	if !errors.Is(why, shm.ErrGone) {
		t.Errorf("departure %v, want that the station is gone", why)
	}
}

// again has each of two links, which look after themselves now and then, send the
// other a frame until it arrives: frames may be lost, but not for ever.
func again(t *testing.T, a, b *shm.Link) {
	t.Helper()
	links := [2]*shm.Link{a, b}
	text := [2]transport.Frame{frame(b, a, "to a"), frame(a, b, "to b")} // by receiver
	var arrived [2]bool
	views := make([][]byte, transport.MaxBatch)
	for end := a.Now() + int64(10*time.Second); !arrived[0] || !arrived[1]; {
		for i, l := range links {
			if err := transport.Check(l); err != nil {
				t.Fatal(err)
			}
			links[1-i].Send(text[i : i+1])
			if err := l.Wait(l.Now() + int64(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			n, err := l.Recv(views)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range views[:n] {
				arrived[i] = arrived[i] || string(v) == string(text[i].Head)
			}
		}
		if a.Now() > end {
			t.Fatalf("frames arrive at %v of a and b, which count %+v and %+v", arrived, a.Stats(), b.Stats())
		}
	}
}

// counted counts the links that give rings up because they cannot be.
func counted(links ...*shm.Link) *int {
	n := new(int)
	for _, l := range links {
		l.OnDeparture(func(_ transport.PortRange, why error) {
			if errors.Is(why, shm.ErrBroken) {
				*n++
			}
		})
	}
	return n
}

// TestStuck: rings whose ends have lost each other, though each word by itself is
// possible, are found out without a frame more, and replaced.
func TestStuck(t *testing.T) {
	const size, control, line = 1 << 20, 64 << 10, 64
	put := func(mem []byte, at int, word uint64) { binary.NativeEndian.PutUint64(mem[at:], word) }
	length := func(mem []byte, n int) { binary.NativeEndian.PutUint16(mem, uint16(n-ethertype.HeaderSize+1)) }
	for what, spoil := range map[string]func(mem, record []byte, n int){
		"the frame is not there": func(_, record []byte, _ int) { put(record, 0, 0) },
		"it is shorter":          func(_, record []byte, n int) { length(record, n-2*line) },
		"it is longer":           func(_, record []byte, n int) { length(record, n+9*line) },
		"more is free than is":   func(mem, _ []byte, _ int) { put(mem, 0, 1<<19) },
		"part of a line is free": func(mem, _ []byte, _ int) { put(mem, 0, line+1) },
	} {
		t.Run(what, func(t *testing.T) {
			a, b := open(t, shm.Config{Ring: size}), open(t, shm.Config{})
			hello, f := frame(a, b, "hello"), frame(a, b, strings.Repeat("\x00", 1000))
			pump(t, a, b, 1, hello)
			broken := counted(a, b)
			mem := a.Shared()
			a.Send([]transport.Frame{f})
			at := control + (2+hello.Len()+line-1)/line*line
			spoil(mem, mem[at:], f.Len())
			for range 3 {
				for _, l := range []*shm.Link{b, a} {
					l.Recv(make([][]byte, 4))
					transport.Check(l)
				}
			}
			if *broken != 1 {
				t.Errorf("%d links say that the rings are broken, want 1", *broken)
			}
			again(t, a, b)
		})
	}
}

// TestSleepOfNoKind: a peer of which the ring says that it sleeps in a way that
// there is not, and which would not be woken, is given up.
func TestSleepOfNoKind(t *testing.T) {
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	pump(t, a, b, 1, frame(a, b, "hello"))
	broken := counted(a)
	copy(a.Shared()[256:], []byte{3, 3, 3, 3})
	a.Send([]transport.Frame{frame(a, b, "wake")})
	if a.Recv(make([][]byte, 4)); *broken != 1 {
		t.Errorf("%d links say that the rings are broken, want 1", *broken)
	}
	again(t, a, b)
}

// TestStuckRandom writes a little nonsense into rings under traffic and stops.
// Whatever it was, frames pass soon.
func TestStuckRandom(t *testing.T) {
	seeds := uint64(400)
	if !need.Full() {
		seeds = 50
	}
	a, b := open(t, shm.Config{Ring: 512 << 10}), open(t, shm.Config{})
	for seed := *seedFlag; seed < *seedFlag+seeds; seed++ {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("replay: -shm.seed=%d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			again(t, a, b)
			spoilTraffic(rng, a, b)
			again(t, a, b)
		})
		if !ok {
			return
		}
	}
}

// spoilTraffic has links send each other frames, of which some are spoiled before
// they are received.
func spoilTraffic(rng *rand.Rand, a, b *shm.Link) {
	views := make([][]byte, transport.MaxBatch)
	for range 1 + rng.IntN(20) {
		from, to := a, b
		if rng.IntN(2) == 0 {
			from, to = b, a
		}
		for range rng.IntN(4) {
			from.Send([]transport.Frame{frame(from, to, strings.Repeat("\x00", rng.IntN(3000)))})
		}
		mem := a.Shared() // others than before, if those were given up and are gone
		for range rng.IntN(3) {
			if mem != nil {
				spoilRecord(rng, mem)
			}
		}
		if rng.IntN(3) > 0 {
			to.Recv(views[:1+rng.IntN(8)])
		}
	}
}

// spoilRecord changes a record that there is, or scribbles anywhere.
func spoilRecord(rng *rand.Rand, mem []byte) {
	const control = 64 << 10
	ring := mem[control+rng.IntN(2)*(len(mem)-control)/2:][:(len(mem)-control)/4]
	at := rng.IntN(len(ring)) &^ 63
	for i := 0; i < len(ring) && binary.NativeEndian.Uint64(ring[at:]) == 0; i += 64 {
		at = (at + 64) & (len(ring) - 1)
	}
	switch rng.IntN(4) {
	case 0:
		clear(ring[at : at+8])
	case 1:
		binary.NativeEndian.PutUint16(ring[at:], uint16(1+rng.IntN(3000)))
	case 2:
		ring[at+rng.IntN(64)] = byte(rng.Uint32())
	default:
		scribble(rng, mem)
	}
}
