package shm_test

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Tests of a process do not see those of another: each has its EtherType.
var etherType = ethertype.Default + 0x100

// open opens a link and closes it when the test ends.
func open(t testing.TB, cfg shm.Config) *shm.Link {
	t.Helper()
	cfg.EtherType = etherType
	l, err := shm.Open(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLink(t *testing.T) {
	for name, cfg := range map[string]shm.Config{"Default": {}, "Small": {Ring: 512 << 10}, "OtherEtherType": {EtherType: 0x88b6}} {
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				return linktest.Pair{A: open(t, cfg), B: open(t, cfg), C: open(t, cfg), SameHost: true}
			})
		})
	}
}

// TestLinkWithoutFutexes: where the kernel has no futex_waitv, bells wake.
func TestLinkWithoutFutexes(t *testing.T) {
	shm.WithoutFutexes(func() {
		linktest.Run(t, func(t *testing.T) linktest.Pair {
			return linktest.Pair{A: open(t, shm.Config{}), B: open(t, shm.Config{}), C: open(t, shm.Config{}), SameHost: true}
		})
	})
}

// pump sends frames from a and receives at b until b has got n, and returns
// copies.
func pump(t testing.TB, a, b transport.Link, n int, frames ...transport.Frame) (got [][]byte) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	for end := b.Now() + int64(10*time.Second); len(got) < n; {
		if len(frames) > 0 {
			k, err := a.Send(frames)
			if err != nil {
				t.Fatalf("Send: %v", err)
			}
			frames = frames[k:]
		}
		k, err := b.Recv(views)
		if err != nil {
			t.Fatalf("Recv: %v", err)
		}
		for _, v := range views[:k] {
			got = append(got, append([]byte(nil), v...))
		}
		if b.Now() > end {
			t.Fatalf("%d of %d frames arrived; sender %+v, receiver %+v", len(got), n, a.Stats(), b.Stats())
		}
		if k == 0 && len(frames) == 0 {
			if err := b.Wait(b.Now() + int64(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return got
}

func frame(from, to transport.Link, payload string) transport.Frame {
	return transport.Frame{Head: linktest.NewFrame(from.Info(), to.Info(), to.Info().Ports.Lo, []byte(payload))}
}

// TestSelf sends to ports of the link's own range.
func TestSelf(t *testing.T) {
	a := open(t, shm.Config{})
	for _, text := range []string{"one", "two"} {
		f := frame(a, a, text)
		if got := pump(t, a, a, 1, f); string(got[0]) != string(f.Head) {
			t.Fatalf("got %x", got[0])
		}
	}
}

// TestSelfWakes: what one goroutine sends wakes another that waits.
func TestSelfWakes(t *testing.T) {
	a := open(t, shm.Config{})
	pump(t, a, a, 1, frame(a, a, "first"))
	for range 100 {
		before := a.Stats().Waits
		waited := make(chan error, 1)
		go func() { waited <- a.Wait(transport.Forever) }()
		for a.Stats().Waits == before {
			runtime.Gosched()
		}
		a.Send([]transport.Frame{frame(a, a, "wake")})
		select {
		case err := <-waited:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Wait has not returned")
		}
		pump(t, a, a, 1)
	}
}

// TestPortsAreClaimed: of two links with the same ports the second is refused,
// until the first is closed.
func TestPortsAreClaimed(t *testing.T) {
	ports := transport.PortRange{Lo: 5000, Hi: 5100}
	a := open(t, shm.Config{Ports: ports})
	if _, err := shm.Open(&shm.Config{EtherType: etherType, Ports: ports}); !errors.Is(err, unix.EADDRINUSE) {
		t.Fatalf("Open = %v, want EADDRINUSE", err)
	}
	a.Close()
	open(t, shm.Config{Ports: ports})
}

// TestRestart: a link that is opened with the ports of one that was closed is
// another one, and frames go there.
func TestRestart(t *testing.T) {
	a := open(t, shm.Config{})
	ports := transport.PortRange{Lo: 4096, Hi: 5119}
	var gone []transport.PortRange
	a.OnDeparture(func(p transport.PortRange, why error) {
		if !errors.Is(why, shm.ErrGone) {
			t.Errorf("departure: %v", why)
		}
		gone = append(gone, p)
	})
	for i := range 20 {
		b := open(t, shm.Config{Ports: ports})
		f := frame(a, b, "hello")
		pump(t, a, b, 1, f)
		pump(t, b, a, 1, frame(b, a, "answer"))
		if !a.Lives(ports.Lo) || !a.Lives(ports.Hi) || a.Lives(ports.Hi+1) {
			t.Fatalf("round %d: the station at %v lives, and none behind it: %t, %t, %t", i, ports, a.Lives(ports.Lo), a.Lives(ports.Hi), a.Lives(ports.Hi+1))
		}
		b.Close()
		if a.Lives(ports.Lo) {
			t.Fatalf("round %d: a closed station lives", i)
		}
		for end := a.Now() + int64(10*time.Second); ; {
			if a.Recv(make([][]byte, 1)); len(gone) > i {
				break
			}
			if err := a.Wait(end); err != nil || a.Now() > end {
				t.Fatalf("no departure in round %d (%v)", i, err)
			}
		}
		if gone[i] != ports {
			t.Fatalf("departure of %v, want %v", gone[i], ports)
		}
	}
}

// TestFullRing: a peer that does not receive does not hold up another, and
// what it misses is counted.
func TestFullRing(t *testing.T) {
	a, b, c := open(t, shm.Config{}), open(t, shm.Config{}), open(t, shm.Config{})
	pump(t, a, b, 1, frame(a, b, "b"))
	pump(t, a, c, 1, frame(a, c, "c"))
	sent, before := 1, a.Stats()
	long := transport.Frame{Head: linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 60_000))}
	for ; a.Stats().TxDrops == before.TxDrops; sent++ {
		if n, err := a.Send([]transport.Frame{long, long}); n != 2 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		if sent > 1000 {
			t.Fatal("the ring does not fill")
		}
	}
	f := frame(a, c, "past the full ring")
	if got := pump(t, a, c, 1, f); string(got[0]) != string(f.Head) {
		t.Fatalf("got %x", got[0])
	}
	st := a.Stats()
	arrived := int(st.TxFrames-before.TxFrames) - 1
	if got := len(pump(t, a, b, arrived)); got < 10 || int(st.TxDrops-before.TxDrops)+arrived != 2*(sent-1) {
		t.Errorf("%d frames sent, %d arrived, counted %+v", 2*(sent-1), got, st)
	}
	pump(t, a, b, 1, long) // there is room again
}

// TestNobody: frames to ports that nobody has are dropped and counted.
func TestNobody(t *testing.T) {
	a := open(t, shm.Config{})
	to := a.Info()
	f := transport.Frame{Head: linktest.NewFrame(to, to, 40_000, []byte("nobody"))}
	if n, err := a.Send([]transport.Frame{f, f}); n != 2 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	for end := a.Now() + int64(10*time.Second); a.Stats().TxDrops < 2; {
		if a.Now() > end {
			t.Fatalf("counted %+v", a.Stats())
		}
		a.Wait(a.Now() + int64(time.Millisecond))
	}
}

// TestBlocks: stations that have several blocks of ports reach each other from
// each port to each.
func TestBlocks(t *testing.T) {
	a := open(t, shm.Config{Ports: transport.PortRange{Lo: 3000, Hi: 5500}})
	b := open(t, shm.Config{Ports: transport.PortRange{Lo: 6200, Hi: 8300}})
	for _, w := range [][2]*shm.Link{{a, b}, {b, a}, {a, a}} {
		from, to := w[0].Info(), w[1].Info().Ports
		for _, src := range []uint16{from.Ports.Lo, from.Ports.Lo + 1024, from.Ports.Hi} {
			from.Ports.Lo = src
			for _, dst := range []uint16{to.Lo, to.Lo + 1024, to.Hi} {
				f := linktest.NewFrame(from, w[1].Info(), dst, []byte("hello"))
				if got := pump(t, w[0], w[1], 1, transport.Frame{Head: f}); string(got[0]) != string(f) {
					t.Fatalf("%d to %d: got %x, want %x", src, dst, got[0], f)
				}
			}
		}
	}
	from, to := a.Info(), b.Info()
	to.MAC = ethertype.Broadcast
	from.Ports.Lo = from.Ports.Hi
	all := linktest.NewFrame(from, to, ethertype.PortAll, []byte("all"))
	last, before := frame(a, b, "last"), a.Stats().TxFrames
	if a.Send([]transport.Frame{{Head: all}}); a.Stats().TxFrames != before+1 {
		t.Errorf("a frame to all has gone %d times to the one station that there is", a.Stats().TxFrames-before)
	}
	if got := pump(t, a, b, 2, last); string(got[0]) != string(all) && string(got[1]) != string(all) {
		t.Errorf("got %x", got)
	}
	if f := linktest.NewFrame(to, b.Info(), to.Ports.Lo, nil); a.Stats().TxDrops == 0 {
		if a.Send([]transport.Frame{{Head: f}}); a.Stats().TxDrops != 1 {
			t.Errorf("a frame from the port of another station: counted %+v", a.Stats())
		}
	}
}

// TestSegments: stations with one address, as those of a VLAN and of the
// interface below it, are apart if their segments are.
func TestSegments(t *testing.T) {
	cfg := shm.Config{Address: ethertype.MAC{2, 0, 0, 0, 0, 1}, Segment: "2", Ports: transport.PortRange{Lo: 1024, Hi: 2047}}
	a := open(t, cfg)
	cfg.Ports = transport.PortRange{Lo: 2048, Hi: 3071}
	b := open(t, cfg)
	cfg.Segment = "3"
	other := open(t, cfg) // with b's ports
	cfg.Ports = transport.PortRange{Lo: 4096, Hi: 5119}
	elsewhere := open(t, cfg)
	to := b.Info()
	to.MAC = ethertype.Broadcast
	all := transport.Frame{Head: linktest.NewFrame(a.Info(), to, ethertype.PortAll, []byte("all"))}
	pump(t, a, b, 2, frame(a, b, "one"), all)
	pump(t, elsewhere, other, 1, frame(elsewhere, other, "hello"))
	if n := other.Stats().RxFrames; n != 1 {
		t.Errorf("%d frames have crossed between segments", n-1)
	}
	if _, err := shm.Open(&shm.Config{EtherType: etherType, Address: cfg.Address, Segment: "3", Ports: cfg.Ports}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("Open = %v, want EADDRINUSE", err)
	}
}

// TestWakeInWait: a Wake between the start of a Wait and its sleep ends it,
// where bells wake.
func TestWakeInWait(t *testing.T) {
	a := open(t, shm.Config{})
	shm.InWait(a.Wake, func() {
		end := a.Now() + int64(10*time.Second)
		if err := a.Wait(end); err != nil || a.Now() >= end {
			t.Errorf("the Wake is lost (%v)", err)
		}
	})
}

// TestSignalIsNoEnd: a peer is there as long as its stream is, whatever signals come to
// the thread that looks, as those by which Go's scheduler preempts busy goroutines.
func TestSignalIsNoEnd(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, over := unix.Gettid(), make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Tgkill(unix.Getpid(), thread, unix.SIGURG)
			}
		}
	})
	ended := 0
	for range 20_000 {
		if shm.StreamEnded(uintptr(pair[0])) {
			ended++
		}
	}
	close(over)
	signals.Wait()
	if ended > 0 {
		t.Errorf("the stream was taken for ended %d times", ended)
	}
	if unix.Close(pair[1]); !shm.StreamEnded(uintptr(pair[0])) {
		t.Error("the end of the stream was not seen")
	}
}

// TestCallInWait has a caller come, of whom there are as many as can be waited for
// already, when a Wait has just chosen how to sleep.
func TestCallInWait(t *testing.T) {
	a := open(t, shm.Config{})
	const each = 4 // calls of one stranger, which have room at a time
	var s *stranger
	var file int
	call := func() {
		n := a.Peers()
		if n%each == 0 {
			s = newStranger(t, a, 63-n/each)
		}
		if n == 0 {
			file = s.file()
			t.Cleanup(func() { unix.Close(file) })
		}
		fd, err := unix.Dup(file)
		if err != nil {
			t.Fatal(err)
		}
		c := s.call(a, fd)
		if s.answer(c); !c.answered {
			t.Fatalf("call %d was not answered", n)
		}
		until(t, "the call", func() bool { return a.Peers() == n+1 })
	}
	for range shm.FutexPeers {
		call()
	}
	shm.BeforeSleep(call, func() {
		end := a.Now() + int64(10*time.Second)
		if err := a.Wait(end); err != nil || a.Now() >= end { // it looks again who there is
			t.Errorf("Wait = %v", err)
		}
	})
	if err := a.Wait(a.Now() + int64(time.Millisecond)); err != nil || a.Peers() != shm.FutexPeers+1 {
		t.Errorf("Wait = %v with %d peers", err, a.Peers())
	}
}

// TestViewsAfterClose: who is just reading a frame when the link is closed reads
// zeros at worst, however long that takes.
func TestViewsAfterClose(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	a := open(t, shm.Config{})
	s := newStranger(t, a, 60)
	from := a.Info()
	from.Ports = s.ports
	for _, frames := range [][][]byte{nil, {linktest.NewFrame(from, a.Info(), a.Info().Ports.Lo, []byte("hello"))}} {
		c := s.call(a, s.file(frames...)) // the second pair of rings is only for what it sends
		s.answer(c)
	}
	views := make([][]byte, 1)
	until(t, "the frame", func() bool { n, _ := a.Recv(views); return n == 1 })
	a.Close()
	for range 3 { // what is garbage is given back by then
		done := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(done chan struct{}) { close(done) }, done)
		runtime.GC()
		<-done
	}
	for i, v := range views[0] {
		if v != 0 {
			t.Fatalf("byte %d is %#x", i, v)
		}
	}
	runtime.KeepAlive(a)
}
